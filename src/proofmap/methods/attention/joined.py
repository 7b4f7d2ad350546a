"""Attention rollout and Chefer's relevance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.methods.attention.attention import AttentionMethod
from proofmap.methods.method import METHODS, Need
from proofmap.plugins.settings import setting

_HEADS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
}


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class AttentionRollout(AttentionMethod):
    """Attention rollout (Abnar and Zuidema 2020): the row of the class token in A'_n ... A'_2 A'_1.

    A' = (A + I) / 2 stands for attention beside its shortcut, with A the mean over the heads and rows that sum to one.
    Where the logits are read from the mean of the patches, the mean of their rows. One map for all labels.
    """

    name: ClassVar[str] = "attention-rollout"
    reference: ClassVar[str] = "Abnar and Zuidema 2020"
    description: ClassVar[str] = "attention of all layers multiplied, without a label"
    label_free = True
    needs: ClassVar[frozenset[Need]] = frozenset({"attention"})
    heads: Literal["mean", "max", "min"] = setting("mean", "how the heads of a layer become one matrix")

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        row = read.expand(len(attention[0]), 1, -1)
        for layer in reversed(attention):  # one row at a time, from the last layer to the first
            joined = _HEADS[self.heads](layer, 1)
            joined = joined + torch.eye(joined.shape[-1], device=joined.device)
            row = row @ (joined / joined.sum(dim=-1, keepdim=True))
        return row[:, 0]


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class Chefer(AttentionMethod):
    """Chefer's relevance: the row of the class token in R - I, where R <- R + mean over heads of relu(G * A) R, from R = I.

    G = d logit_a / d A. Where the logits are read from the mean of the patches, the mean of their rows. It is the rule of *Generic attention-model explainability* (Chefer et al., ICCV 2021) for
    self-attention. Their earlier *Transformer interpretability beyond attention visualization* (CVPR 2021) has the same
    product of I + relu(G * A), with relevances of layer-wise propagation in the place of A.
    """

    name: ClassVar[str] = "chefer"
    reference: ClassVar[str] = "Chefer et al. 2021"
    description: ClassVar[str] = "attention times its gradient, layer by layer, as relevance"

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        row = torch.zeros_like(read).expand(len(attention[0]), 1, -1)  # of R - I, which I would drown
        for layer, gradient in zip(reversed(attention), reversed(gradients), strict=True):
            row = row + (read + row) @ (gradient * layer).relu().mean(dim=1)
        return row[:, 0]
