"""Methods that read the attention of transformers."""

from proofmap.methods.attention.joined import AttentionRollout, Chefer
from proofmap.methods.attention.legrad import LeGrad

__all__ = ["AttentionRollout", "Chefer", "LeGrad"]
