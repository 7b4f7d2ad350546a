"""The closing fit of belief masks: areas measured whole, and the least change of the map that brings all of them to f.

While a mask is learned, areas are known only from the latest value in each fifth of the curve. At the end the map is held still for a
round of shares that covers the whole curve, which gives A_k and its slope S_k, the gradient of log A_k in W, for every fill k. Then W is
changed once, by the shortest D with

    <S_k, D> = log f - log A_k   for all k, to first order and damped:   D = S^T (S S^T + r 1)^-1 (log f - log A),

and the next round begins, at other shares. The straight-through gradient promises too much, so that the first change is taken one and a half
times; later ones are shorter, because what a round measures is noisy, and so the last ones average over all that was seen.

A fit mends what is nearly right. Where areas are still far from f, and where a net is sure (there the gradient of F vanishes), the passes are better spent
on learning, and the label is not fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.methods.masks.belief_terms import GOLDEN

ROUNDS = 3
_MOST, _LEAST = 16, 4
"""Shares in a round: at most, and the fewest that are worth a round."""
_DAMPING = 0.05
"""r, over the mean of the squared lengths of the slopes."""
_FARTHEST = 0.5
"""The largest error that one round tries to undo, as a logarithm, and the largest change of W (root mean square)."""
SURE = 0.5
"""The sureness from which a label is not fitted."""
FAR = 0.7
"""The mean of |log A_k - log f| over fills from which it is not, either."""


@dataclass(frozen=True)
class ClosingFit:
    """When it happens: in the last of ``steps``, in three rounds, together not more than half of them.

    >>> fit = ClosingFit(200)
    >>> fit.shares, fit.first
    (16, 152)
    >>> ClosingFit(66).shares, ClosingFit(20).shares
    (11, 0)
    """

    steps: int

    @property
    def shares(self) -> int:
        """In each round; none where a round would have too few."""
        few = min(_MOST, self.steps // (2 * ROUNDS))
        return few if few >= _LEAST else 0

    @property
    def first(self) -> int:
        """The step that it begins with, counted from zero, unless a pair is near enough before."""
        return self.steps - self.length

    @property
    def length(self) -> int:
        """Steps of all rounds."""
        return ROUNDS * self.shares

    def ends(self, since: Tensor) -> Tensor:
        """Whether a round ends with this step, counted from the first one of the fit; negative ones come before it."""
        return (since >= 0) & (since % self.shares == self.shares - 1)

    def gains(self, since: Tensor) -> Tensor:
        """What the change at the end of a round is multiplied with: 1.5, 1 and .5, and nothing after that.

        >>> ClosingFit(24).gains(torch.tensor([3, 7, 11, 15]))
        tensor([1.5000, 1.0000, 0.5000, 0.0000])
        """
        return ((ROUNDS - since // self.shares) / 2).clamp_min(0.0)

    def places(self, since: Tensor, phase: Tensor) -> Tensor:
        """Shares ``(P, K)`` for steps ``(P,)``: one in each equal part of the curve, elsewhere in it for each fill and each round.

        >>> ClosingFit(24).places(torch.arange(4), torch.tensor([[0.5]]))
        tensor([[0.1250],
                [0.3750],
                [0.6250],
                [0.8750]])
        """
        since = since[:, None]
        within = (phase + GOLDEN * (since // self.shares)) % 1.0
        return (((since % self.shares) + within) / self.shares).clamp(0, 1 - 1e-6)


def least_change(slopes: Tensor, errors: Tensor) -> Tensor:
    """The shortest D ``(P, *grid)`` whose products with the slopes ``(P, K, *grid)`` are the negative errors ``(P, K)``, damped.

    Errors count as half a unit at most, and D is no longer than that times the root of its number of entries.

    >>> slopes = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]])
    >>> least_change(slopes, torch.tensor([[-0.21, 0.0]]))
    tensor([[0.1867, 0.0000, 0.0000]])
    """
    flat = slopes.flatten(2)
    gram = flat @ flat.mT
    damping = _DAMPING * gram.diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(1e-20)
    gram = gram + damping[:, None, None] * torch.eye(gram.shape[1], device=gram.device)
    undone = -errors.clamp(-_FARTHEST, _FARTHEST)
    weights, _ = torch.linalg.solve_ex(gram, undone[..., None])
    change: Tensor = (weights * flat).sum(dim=1).nan_to_num(0.0, 0.0, 0.0)
    length = change.square().mean(dim=1, keepdim=True).sqrt()
    return (change * (_FARTHEST / length.clamp_min(_FARTHEST))).view_as(slopes[:, 0])
