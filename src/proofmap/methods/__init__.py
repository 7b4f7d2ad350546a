"""Methods: each makes one heat map per label. ``proofmap list methods`` lists them. One folder or file per family."""

from proofmap.methods.adapters import Captum, FromObject, PytorchGradCam, TorchCam
from proofmap.methods.attention import AttentionRollout, Chefer, LeGrad
from proofmap.methods.cams import EigenCAM, GradCAM, GradCAMPlusPlus, LayerCAM, ScoreCAM
from proofmap.methods.controls import CenteredGaussian, Edges, Random
from proofmap.methods.gradients import (
    Gradient,
    GradientInput,
    GuidedBackprop,
    IntegratedGradients,
    RectGrad,
    SmoothGrad,
)
from proofmap.methods.maskers import BeliefMasker, PhangMasker, RealTimeSaliency, train_masker
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
    per_label,
)
from proofmap.methods.perturbation import (
    HSIC,
    LIME,
    RISE,
    GreedyInsertion,
    KernelSHAP,
    Occlusion,
    Shapley,
    Sobol,
)
from proofmap.methods.propagation import LRP, ContrastiveLRP, DeepLIFT
from proofmap.methods.wrappers import Blurred, Inverse, TopLabel, Wrapper

__all__ = [
    "LRP",
    "IBA",
    "METHODS",
    "AttentionRollout",
    "BeliefMask",
    "Blurred",
    "BeliefMasker",
    "Captum",
    "CenteredGaussian",
    "ContrastiveLRP",
    "Cost",
    "Edges",
    "DeepLIFT",
    "DiffMask",
    "ExtremalPerturbation",
    "FongVedaldi",
    "Chefer",
    "EigenCAM",
    "FromFunction",
    "FromObject",
    "GradCAM",
    "GradCAMPlusPlus",
    "Gradient",
    "GradientInput",
    "GreedyInsertion",
    "HSIC",
    "Inverse",
    "KernelSHAP",
    "LIME",
    "GuidedBackprop",
    "IntegratedGradients",
    "IGOSPlusPlus",
    "LayerCAM",
    "LeGrad",
    "LearnedMask",
    "Method",
    "MethodLike",
    "Occlusion",
    "RISE",
    "PytorchGradCam",
    "Random",
    "ReadyMethod",
    "Shapley",
    "Sobol",
    "RectGrad",
    "SmoothGrad",
    "PhangMasker",
    "RealTimeSaliency",
    "ScoreCAM",
    "TopLabel",
    "Wrapper",
    "TorchCam",
    "make_method",
    "per_label",
    "train_masker",
]
