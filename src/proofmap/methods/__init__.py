"""Methods: each makes one heat map per label. ``proofmap methods`` lists them."""

from proofmap.methods.belief_mask import BeliefMask
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
    ReadyMethod,
    make_method,
)

__all__ = [
    "METHODS",
    "BeliefMask",
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
    "make_method",
    "ReadyMethod",
]
