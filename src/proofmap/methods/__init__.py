"""Methods: each makes one heat map per label. ``proofmap methods`` lists them."""

from proofmap.methods.cam import GradCAM
from proofmap.methods.controls import CenteredGaussian, Random, TopLabel
from proofmap.methods.gradients import Gradient, GradientInput
from proofmap.methods.learned_mask import LearnedMask
from proofmap.methods.method import METHODS, FromFunction, Method, MethodLike, make_method, split_methods

__all__ = [
    "METHODS",
    "CenteredGaussian",
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
    "split_methods",
]
