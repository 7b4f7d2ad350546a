"""Methods, each of which makes one heat map per label (``proofmap list methods``). There is one folder or file per family of methods."""

from proofmap.methods.adapters.cams import PytorchGradCam, TorchCam
from proofmap.methods.adapters.captum import Captum
from proofmap.methods.adapters.library import FromObject
from proofmap.methods.adapters.lime import LimeTabular
from proofmap.methods.adapters.shap import Shap
from proofmap.methods.attention import AttentionRollout, Chefer
from proofmap.methods.cams import GradCAM, GradCAMPlusPlus, LayerCAM, ScoreCAM
from proofmap.methods.controls import (
    Blurred,
    CenteredGaussian,
    Edges,
    FirstWords,
    Inverse,
    Random,
    TopLabel,
    Wrapper,
)
from proofmap.methods.from_function import FromFunction, per_label
from proofmap.methods.gradients.paths import IntegratedGradients, SmoothGrad
from proofmap.methods.gradients.plain import Gradient, GradientInput, GuidedBackprop, RectGrad
from proofmap.methods.maskers.trained import PhangMasker, RealTimeSaliency
from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.masks.diffmask import DiffMask
from proofmap.methods.masks.extremal import ExtremalPerturbation
from proofmap.methods.masks.fong_vedaldi import FongVedaldi
from proofmap.methods.masks.iba import IBA
from proofmap.methods.masks.igos import IGOSPlusPlus
from proofmap.methods.masks.learned import LearnedMask
from proofmap.methods.masks.rate_distortion import RateDistortion
from proofmap.methods.method import (
    METHODS,
    Cost,
    Method,
    MethodLike,
    make_method,
)
from proofmap.methods.perturbation.additive import GreedyInsertion, KernelSHAP, Shapley
from proofmap.methods.perturbation.belief_order import BeliefOrder
from proofmap.methods.perturbation.rise import RISE, Occlusion
from proofmap.methods.propagation.attention_lrp import AttentionLRP
from proofmap.methods.propagation.deep_lift import DeepLIFT
from proofmap.methods.propagation.lrp import LRP, ContrastiveLRP

__all__ = [
    "LRP",
    "IBA",
    "METHODS",
    "AttentionLRP",
    "AttentionRollout",
    "BeliefMask",
    "BeliefOrder",
    "Blurred",
    "Captum",
    "CenteredGaussian",
    "ContrastiveLRP",
    "Cost",
    "Edges",
    "DeepLIFT",
    "DiffMask",
    "ExtremalPerturbation",
    "FirstWords",
    "FongVedaldi",
    "Chefer",
    "FromFunction",
    "FromObject",
    "GradCAM",
    "GradCAMPlusPlus",
    "Gradient",
    "GradientInput",
    "GreedyInsertion",
    "Inverse",
    "KernelSHAP",
    "LimeTabular",
    "GuidedBackprop",
    "IntegratedGradients",
    "IGOSPlusPlus",
    "LayerCAM",
    "LearnedMask",
    "Method",
    "MethodLike",
    "Occlusion",
    "RISE",
    "PytorchGradCam",
    "Random",
    "RateDistortion",
    "Shap",
    "Shapley",
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
]
