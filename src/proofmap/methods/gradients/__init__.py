"""Methods that use gradients of a label's logit with respect to the input."""

from proofmap.methods.gradients.paths import IntegratedGradients, SmoothGrad
from proofmap.methods.gradients.plain import Gradient, GradientInput
from proofmap.methods.gradients.rectified import GuidedBackprop, RectGrad

__all__ = ["Gradient", "GradientInput", "GuidedBackprop", "IntegratedGradients", "RectGrad", "SmoothGrad"]
