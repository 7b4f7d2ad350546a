"""Methods that read the attention of transformers: attention rollout and Chefer's relevance.

Both use the attention matrices of a net, the positions of its patches in the image, and the tokens from which the logits are read. For
texts, the value of a word is the sum over its tokens; special tokens are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.token_nets import TokenNet
from proofmap.core.errors import InputError
from proofmap.core.inputs import Tokens
from proofmap.methods.gradients.plain import label_gradients
from proofmap.methods.grids import interpolated
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.methods.probe import AttentionMaps, Grid, mixed_logits, probed
from proofmap.plugins.settings import setting
from proofmap.session import Session


def _check_text_net(classifier: Classifier) -> None:
    """Raise if a text net has no attention, or reads a text in several passes."""
    TokenNet.check_one_pass(classifier)
    with torch.no_grad(), AttentionMaps() as recorded:
        classifier(classifier.inputs.probe().to(classifier.device))
    if not recorded.maps:
        raise InputError(f"{classifier.name} has no attention; use gradients, masks or belief-order")


def _read_rows(logits: Tensor, last: Tensor, n: int) -> Tensor:
    """The weights ``(N, T)`` of the tokens from which the logits ``(N, A)`` are read. Tokens whose rows of the last attention matrix have a
    gradient get equal weights, the others 0.

    After the last attention, tokens no longer interact. Padding has no gradient, so its weight is 0.
    """
    (gradient,) = torch.autograd.grad(mixed_logits(logits), last, retain_graph=True)
    used = gradient.reshape(n, -1, *gradient.shape[-2:]).abs().sum(dim=(1, 3)) > 0
    return used.float() / used.sum(dim=1, keepdim=True).clamp_min(1)


_INSTEAD = "; use a class activation map (grad-cam), gradients or masks instead"


@dataclass(frozen=True)
class AttentionTokens:
    """The tokens of a net that attend to one another.

    Attributes:
        grid: the tokens that are the image's patches.
        read: the indices of the tokens that the logits are read from: the class token, or all tokens if patches are averaged.
    """

    grid: Grid
    read: tuple[int, ...]


def find_tokens(classifier: Classifier) -> AttentionTokens:
    """The tokens of a net, found by gradients. Raises if the net has no attention over the whole image.

    After the last attention, tokens no longer interact, so the logits are read from the tokens whose rows of the last attention matrix
    have a gradient.
    """
    with probed(classifier, "a map of attention") as probe:
        if not probe.attention:
            raise InputError(f"{classifier.name} has no attention{_INSTEAD}")
        counts = sorted({attention.shape[-1] for attention in probe.attention})
        # one matrix per image and head: (N, heads, T, T) or (N * heads, T, T)
        n, shapes = len(probe.images), [attention.shape for attention in probe.attention]
        parts = any(shape[0] % n or (len(shape) == 4 and shape[0] != n) for shape in shapes)
        if len(counts) > 1 or parts or probe.reduced:
            raise InputError(
                f"the attention of {classifier.name} works in windows, or its number of tokens changes "
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
        return AttentionTokens(grid, tuple(rows.nonzero().flatten().tolist()))


class AttentionMethod(Method):
    """Base class of methods that make a map from the attention matrices of a net and, unless label-free, from the gradients of the label's
    logit with respect to these matrices.

    The net may be from timm or Hugging Face, or built on ``nn.MultiheadAttention``: see :mod:`proofmap.methods.probe`.
    """

    family = "attention"
    needs = frozenset({"attention", "gradients"})

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        """The relevance ``(N, T)`` of each token.

        ``attention`` has one matrix ``(N, heads, T, T)`` for each layer, first to last. ``gradients`` has the gradient of the logit with
        respect to each matrix, and is empty for a label-free method. ``read`` ``(1 or N, T)`` has the weight of each token in the logits;
        the weights of an image sum to one.
        """
        raise NotImplementedError

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.tokens_in(session)

    def tokens_in(self, session: Session) -> AttentionTokens | None:
        """The tokens of a picture net. None for a text net, whose tokens are known only when a text is read."""

        def find() -> AttentionTokens | None:
            if isinstance(session.inputs, Tokens):
                _check_text_net(session.net)
                return None
            return find_tokens(session.net)

        return session.memo("attention tokens", find)

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        if not self.label_free:
            return Cost(gradient=labels)
        reads_text = session is not None and self.tokens_in(session) is None
        return Cost(gradient=1) if reads_text else Cost(forward=1)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        def of_patches(some: Tensor, own: Tensor) -> Tensor:
            found, tokens = self.token_relevance(session, some, own), self.tokens_in(session)
            if tokens is None:
                return TokenNet.of_words(found, some, session.net)
            return interpolated(tokens.grid.of(found), some.shape[2:])

        return self.in_batches(session, of_patches, images, labels)

    def token_relevance(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """The relevance ``(N, L, T)`` of each token for each label; L is 1 if the method is label-free.

        This takes one forward pass, and one backward pass for each label.
        """
        free, n, tokens = self.label_free, len(images), self.tokens_in(session)
        with torch.set_grad_enabled(not free or tokens is None):
            with AttentionMaps(differentiable=True) as recorded:
                logits = session.net(images)
            chosen = logits.gather(1, labels.clamp_min(0))
            maps = recorded.maps
            attention = [_by_head(matrix.detach(), n) for matrix in maps]
            if tokens is None:
                read = _read_rows(logits, maps[-1], n)
            else:
                read = attention[0].new_zeros(1, attention[0].shape[-1])
                read[:, list(tokens.read)] = 1 / len(tokens.read)
            if free:
                return self.relevance(attention, (), read)[:, None]
            rows = [
                self.relevance(attention, [_by_head(gradient, n) for gradient in gradients], read)
                for gradients in label_gradients(chosen, maps)
            ]
            return torch.stack(rows, dim=1)


def _by_head(attention: Tensor, n: int) -> Tensor:
    """Attention ``(N, heads, T, T)`` in float32, from ``(N, heads, T, T)`` or ``(N * heads, T, T)``."""
    return attention.float().reshape(n, -1, *attention.shape[-2:])


_HEADS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
}


@METHODS.register
class AttentionRollout(AttentionMethod):
    """Attention rollout (Abnar and Zuidema 2020): the row of the class token in A'_n ... A'_2 A'_1.

    A'_l = (A_l + I) / 2 is the attention of layer l with its skip connection. A_l is the mean over the heads, and the rows of A'_l sum to
    one. If the logits are read from the mean of the patches, the map is the mean of the rows of all patches. All labels have the same map.
    """

    name = "attention-rollout"
    reference = "Abnar and Zuidema 2020"
    description = "attention of all layers multiplied, without a label"
    label_free = True
    needs = frozenset({"attention"})
    heads: Literal["mean", "max", "min"] = setting("mean", "how the heads of a layer become one matrix")

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        row = read[:, None].expand(len(attention[0]), 1, -1)
        for layer in reversed(attention):  # one row at a time, from the last layer to the first
            joined = _HEADS[self.heads](layer, 1)
            joined = joined + torch.eye(joined.shape[-1], device=joined.device)
            row = row @ (joined / joined.sum(dim=-1, keepdim=True))
        return row[:, 0]


@METHODS.register
class Chefer(AttentionMethod):
    """Chefer's relevance: the row of the class token in R - I, where R <- R + mean over heads of relu(G * A) R, from R = I.

    A is the attention of each layer, from first to last, and G = d logit_a / d A. If the logits are read from the mean of the patches, the
    map is the mean of the rows of all patches. This is the rule of *Generic attention-model explainability* (Chefer et al., ICCV 2021) for
    self-attention. Their earlier *Transformer interpretability beyond attention visualization* (CVPR 2021) has the same product of
    I + relu(G * A), but with relevances of layer-wise propagation instead of A.
    """

    name = "chefer"
    reference = "Chefer et al. 2021"
    description = "attention times its gradient, layer by layer, as relevance"

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        start = read[:, None]
        row = torch.zeros_like(start).expand(len(attention[0]), 1, -1)  # of R - I, which I would drown
        for layer, gradient in zip(reversed(attention), reversed(gradients), strict=True):
            row = row + (start + row) @ (gradient * layer).relu().mean(dim=1)
        return row[:, 0]
