"""Maps from numbers that are propagated from the logit back to the input by rules of their own."""

from proofmap.methods.propagation.deep_lift import DeepLIFT
from proofmap.methods.propagation.lrp import LRP, ContrastiveLRP

__all__ = ["LRP", "ContrastiveLRP", "DeepLIFT"]
