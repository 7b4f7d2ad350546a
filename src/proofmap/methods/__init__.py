"""Methods: each makes one heat map per label. ``proofmap methods`` lists them. One folder or file per family."""

from proofmap.methods.attention import AttentionRollout, Chefer, LeGrad
from proofmap.methods.cams import EigenCAM, GradCAM, GradCAMPlusPlus, LayerCAM, ScoreCAM
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
    "AttentionRollout",
    "BeliefMask",
    "CenteredGaussian",
    "Chefer",
    "Cost",
    "EigenCAM",
    "FromFunction",
    "GradCAM",
    "GradCAMPlusPlus",
    "Gradient",
    "GradientInput",
    "LayerCAM",
    "LeGrad",
    "LearnedMask",
    "Method",
    "MethodLike",
    "Random",
    "ReadyMethod",
    "ScoreCAM",
    "TopLabel",
    "make_method",
]
