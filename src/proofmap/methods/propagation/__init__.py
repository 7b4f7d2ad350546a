"""Methods that propagate numbers from the logit back to the input, each by its own rules."""

from proofmap.methods.propagation.attention_lrp import AttentionLRP
from proofmap.methods.propagation.deep_lift import DeepLIFT
from proofmap.methods.propagation.lrp import LRP, ContrastiveLRP

__all__ = ["LRP", "AttentionLRP", "ContrastiveLRP", "DeepLIFT"]
