"""What methods that read a transformer's attention share: its matrices, where its patches are, and what the logits read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.methods.attention_maps import AttentionMaps
from proofmap.methods.cams.cam import enlarged
from proofmap.methods.method import Cost, Family, Method, Need, ReadyMethod
from proofmap.methods.probe import Grid, Probe, probed

_INSTEAD = "; use a class activation map (grad-cam), gradients or masks instead"


@dataclass(frozen=True)
class Tokens:
    """The tokens between which attention runs.

    Attributes:
        grid: which of them are the image's patches.
        read: which of them the logits are read from: the class token, or all where patches are averaged.
        blocks: for each attention the outermost module that has it and no other, if that gives a tensor.
    """

    grid: Grid
    read: tuple[int, ...]
    blocks: tuple[str | None, ...]


def find_tokens(classifier: Classifier) -> Tokens:
    """The tokens of a net, proven by gradients; a net that has no attention of the whole image is refused.

    Behind the last attention tokens no longer meet, so the logits are read from those whose row of it has a gradient.
    """
    with probed(classifier, "a map of attention") as probe:
        if not probe.attention:
            raise InputError(f"{classifier.name} has no attention{_INSTEAD}")
        counts = sorted({attention.shape[-1] for attention in probe.attention})
        parts = any(not _whole(attention, probe) for attention in probe.attention)
        if len(counts) > 1 or parts or probe.reduced:
            raise InputError(
                f"the attention of {classifier.name} runs within windows or between changing numbers of tokens "
                f"({', '.join(map(str, counts))}), so its layers cannot be joined{_INSTEAD}"
            )
        grid = probe.grid(counts[0], 1) or probe.grid(counts[0], 0)
        if grid is None:
            raise InputError(
                f"the {counts[0]} tokens of {classifier.name} have no places in the image{_INSTEAD}"
            )
        gradient = probe.gradient(probe.attention[-1])
        if gradient is None:
            raise InputError(f"the logits of {classifier.name} do not depend on its last attention{_INSTEAD}")
        rows = gradient.abs().sum(dim=-1).flatten(0, -2).sum(dim=0)
        return Tokens(grid, tuple(rows.nonzero().flatten().tolist()), _blocks(probe))


def _blocks(probe: Probe) -> tuple[str | None, ...]:
    """The module of each attention that stands for a layer of the transformer; what lies deeper is only a part of it."""
    times = Counter(name for within in probe.within for name in within)
    outermost = [next((name for name in within if times[name] == 1), None) for within in probe.within]
    return tuple(name if name in probe.outputs else None for name in outermost)


def _whole(attention: Tensor, probe: Probe) -> bool:
    """Whether it is one matrix per image and head: ``(N, heads, T, T)`` or ``(N * heads, T, T)``."""
    n = len(probe.images)
    return attention.shape[0] == n if attention.ndim == 4 else attention.shape[0] % n == 0


@dataclass(frozen=True, kw_only=True)
class AttentionMethod(Method):
    """A map from the attention matrices of a net, and for each label from the gradients of its logit to them.

    The net may be of timm, of Hugging Face, or built on ``nn.MultiheadAttention``: see
    :mod:`proofmap.methods.attention_maps`.
    """

    family: ClassVar[Family] = "attention"
    needs: ClassVar[frozenset[Need]] = frozenset({"attention", "gradients"})

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        """The relevance ``(N, T)`` of each token.

        ``attention`` has a matrix ``(N, heads, T, T)`` for each layer, first to last; ``gradients`` the gradient of the
        logit to each, and nothing where the method is label-free; ``read`` ``(1, T)`` has the weights with which
        the logits are read from the tokens, which sum to one.
        """
        raise NotImplementedError

    def state_for(self, classifier: Classifier) -> Tokens:
        return find_tokens(classifier)

    def cost(self, labels: int) -> Cost | None:
        return Cost(forward=1) if self.label_free else Cost(gradient=labels)

    def make_maps(
        self, ready: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        def of_patches(some: Tensor, own: Tensor) -> Tensor:
            return enlarged(ready.state.grid.of(self.token_relevance(ready, some, own)), some)

        return ready.in_batches(of_patches, images, labels, progress)

    def token_relevance(self, ready: ReadyMethod, images: Tensor, labels: Tensor) -> Tensor:
        """The relevance ``(N, L, T)`` of each token for each label, from one forward pass for all labels and one backward pass for each;
        L is 1 if the method is label-free."""
        free, n, tokens = self.label_free, len(images), ready.state
        with torch.set_grad_enabled(not free):
            with AttentionMaps(differentiable=True) as recorded:
                chosen = ready.classifier(images).gather(1, labels.clamp_min(0))
            maps = recorded.maps
            attention = [by_head(matrix.detach(), n) for matrix in maps]
            read = attention[0].new_zeros(1, attention[0].shape[-1])
            read[:, list(tokens.read)] = 1 / len(tokens.read)
            if free:
                return self.relevance(attention, (), read)[:, None]
            rows = []
            for j in range(labels.shape[1]):
                more = j < labels.shape[1] - 1
                gradients = torch.autograd.grad(chosen[:, j].sum(), maps, retain_graph=more)
                rows.append(self.relevance(attention, [by_head(g, n) for g in gradients], read))
            return torch.stack(rows, dim=1)


def by_head(attention: Tensor, n: int) -> Tensor:
    """``(N, heads, T, T)`` in float32, also where images and heads share an axis."""
    return attention.float().reshape(n, -1, *attention.shape[-2:])
