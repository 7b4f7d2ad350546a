"""Methods that read the attention of transformers."""

from proofmap.methods.attention.methods import AttentionRollout, Chefer, LeGrad

__all__ = ["AttentionRollout", "Chefer", "LeGrad"]
