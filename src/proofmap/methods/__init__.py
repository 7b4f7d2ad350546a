"""Methods: each makes one heat map per label. ``proofmap methods`` lists them. One folder or file per family."""

from proofmap.methods.cams import GradCAM
from proofmap.methods.controls import CenteredGaussian, Random, TopLabel
from proofmap.methods.gradients import Gradient, GradientInput
from proofmap.methods.maskers import BeliefMasker, PhangMasker, RealTimeSaliency, train_masker
from proofmap.methods.masks import BeliefMask, LearnedMask
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
    "BeliefMasker",
    "CenteredGaussian",
    "Cost",
    "FromFunction",
    "GradCAM",
    "Gradient",
    "GradientInput",
    "LearnedMask",
    "Method",
    "MethodLike",
    "PhangMasker",
    "Random",
    "ReadyMethod",
    "RealTimeSaliency",
    "TopLabel",
    "make_method",
    "train_masker",
]
