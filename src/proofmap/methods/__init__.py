"""Methods: each makes one heat map per label. ``proofmap methods`` lists them. One folder or file per family."""

from proofmap.methods.cams import GradCAM
from proofmap.methods.controls import CenteredGaussian, Random, TopLabel
from proofmap.methods.gradients import (
    Gradient,
    GradientInput,
    GuidedBackprop,
    IntegratedGradients,
    RectGrad,
    SmoothGrad,
)
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
from proofmap.methods.propagation import LRP, ContrastiveLRP, DeepLIFT

__all__ = [
    "LRP",
    "METHODS",
    "BeliefMask",
    "CenteredGaussian",
    "ContrastiveLRP",
    "Cost",
    "DeepLIFT",
    "FromFunction",
    "GradCAM",
    "Gradient",
    "GradientInput",
    "GuidedBackprop",
    "IntegratedGradients",
    "LearnedMask",
    "Method",
    "MethodLike",
    "Random",
    "ReadyMethod",
    "RectGrad",
    "SmoothGrad",
    "TopLabel",
    "make_method",
]
