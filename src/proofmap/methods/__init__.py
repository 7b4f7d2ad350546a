"""Methods: each makes one heat map per label. ``proofmap methods`` lists them. One folder or file per family."""

from proofmap.methods.adapters import Captum, FromObject, PytorchGradCam, TorchCam
from proofmap.methods.cams import GradCAM
from proofmap.methods.controls import CenteredGaussian, Random, TopLabel
from proofmap.methods.gradients import Gradient, GradientInput
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
    "Captum",
    "CenteredGaussian",
    "Cost",
    "FromFunction",
    "FromObject",
    "GradCAM",
    "Gradient",
    "GradientInput",
    "LearnedMask",
    "Method",
    "MethodLike",
    "PytorchGradCam",
    "Random",
    "ReadyMethod",
    "TopLabel",
    "TorchCam",
    "make_method",
]
