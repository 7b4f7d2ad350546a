"""Methods: each makes one heat map per label. ``proofmap methods`` lists them."""

from proofmap.methods.cam import GradCAM
from proofmap.methods.controls import CenteredGaussian, Random, TopLabel
from proofmap.methods.gradients import Gradient, GradientInput
from proofmap.methods.learned_mask import LearnedMask
from proofmap.methods.method import (
    METHODS,
    Cost,
    FromFunction,
    Method,
    MethodLike,
    build_method,
    make_method,
    split_methods,
)

__all__ = [
    "METHODS",
    "CenteredGaussian",
    "Cost",
    "FromFunction",
    "GradCAM",
    "Gradient",
    "GradientInput",
    "LearnedMask",
    "Method",
    "MethodLike",
    "Random",
    "TopLabel",
    "build_method",
    "make_method",
    "split_methods",
]
