"""Maps from gradients of the label's logit with respect to the input."""

from proofmap.methods.gradients.plain import Gradient, GradientInput

__all__ = ["Gradient", "GradientInput"]
