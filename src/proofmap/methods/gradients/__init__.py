"""Maps from gradients of the label's logit with respect to the input."""

from proofmap.methods.gradients.integrated import IntegratedGradients
from proofmap.methods.gradients.plain import Gradient, GradientInput
from proofmap.methods.gradients.rectified import GuidedBackprop, RectGrad
from proofmap.methods.gradients.smooth import SmoothGrad

__all__ = ["Gradient", "GradientInput", "GuidedBackprop", "IntegratedGradients", "RectGrad", "SmoothGrad"]
