"""Methods: each makes one heat map per label. ``proofmap methods`` lists them. One folder or file per family."""

from proofmap.methods.cams import GradCAM
from proofmap.methods.controls import CenteredGaussian, Random, TopLabel
from proofmap.methods.gradients import Gradient, GradientInput
from proofmap.methods.masks import (
    IBA,
    BeliefMask,
    DiffMask,
    ExtremalPerturbation,
    FongVedaldi,
    IGOSPlusPlus,
    LearnedMask,
)
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
    "IBA",
    "METHODS",
    "BeliefMask",
    "CenteredGaussian",
    "Cost",
    "DiffMask",
    "ExtremalPerturbation",
    "FongVedaldi",
    "FromFunction",
    "GradCAM",
    "Gradient",
    "GradientInput",
    "IGOSPlusPlus",
    "LearnedMask",
    "Method",
    "MethodLike",
    "Random",
    "ReadyMethod",
    "TopLabel",
    "make_method",
]
