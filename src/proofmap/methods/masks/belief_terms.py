"""Functions of belief masks: the error of a proof, a hard mask that can be
learned, and the closing fit.

Below, f is the net's probability of a label for the whole input. F is its probability for a composite, with a share of the positions shown
and fill k (a background) elsewhere. A_k, the area, is the mean of F over all shares. W are the weights of the mask.

**The closing fit.** While a mask is learned, areas are known only from the latest value in each fifth of the curve. At the end, W is kept
constant for a round of shares that covers the whole curve. The round measures A_k and its slope S_k, the gradient of log A_k with respect
to W, for every fill k. Then W is changed once, by the shortest D with

    <S_k, D> = log f - log A_k   for all k, to first order and damped:   D = S^T (S S^T + r 1)^-1 (log f - log A),

and the next round begins, at other shares. The straight-through gradient is too large, so the first change is multiplied by 1.5. Later
changes are shorter, because each round is a noisy measurement; the last ones average over everything measured.

A fit corrects small errors. A label is not fitted if its areas are still far from f, or if the net is sure of it (then the gradient of F
vanishes). For such a label the passes are better used for learning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from proofmap.core.inputs import Inputs

BELIEVED, _FLOOR, _SPARED = 0.01, 0.0005, 0.25
"""A label with f below BELIEVED is strengthened only if log A is below log f by more than _SPARED. No proof is weakened below the area
_FLOOR.
"""
FORCE, LARGEST = 0.5, 20.0
"""The largest size of c_k (for positive c_k, ``pull`` can replace it), and the largest F_k / A_k."""
_SURE = 1e-5
"""The smallest 1 - F in a denominator."""
_DENIED, _OPEN = 0.001, 0.1
"""The net is not sure of a label if f is at least _DENIED and 1 - f is at least _OPEN."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""The golden ratio. Its multiples modulo 1 are spread evenly for any number of them."""
_MANY = 20_000
"""Number of positions above which quantiles use every second position along each axis."""


def belief_errors(areas: Tensor, f: Tensor) -> Tensor:
    """The errors log A - log f ``(P, K)`` of areas ``(P, K)``, given f ``(P,)``. For a label that the net hardly believes, the error is 0 in
    an interval.

    For f < .01 this interval is from f / e^.25 (.78 f) to max(f, .0005), and the error of an area outside is its distance from the
    interval. Areas are at least 1e-6, so labels with a smaller f are not strengthened.

    >>> belief_errors(torch.tensor([[0.5], [0.004], [0.0001]]), torch.tensor([0.5, 0.005, 1e-9]))
    tensor([[0.],
            [0.],
            [0.]])
    """
    f, log_a = f[:, None], areas.log()
    errors = log_a - f.clamp_min(_FLOOR).log()
    missed = (log_a - f.log() + _SPARED).clamp_max(0.0)
    return torch.where(f < BELIEVED, errors.clamp_min(0.0) + missed, errors)


def yielding(far: Tensor, slack: float = 0.1) -> Tensor:
    """The factor y of the smoothing weight for errors of mean size ``far``: 1 / (1 + (far / slack)^2).

    >>> yielding(torch.tensor([0.0, 0.1]))
    tensor([1.0000, 0.5000])
    """
    return 1 / (1 + (far / slack) ** 2)


def sureness(f: Tensor) -> Tensor:
    """The sureness s: how sure the net is that a label is right, or that it is wrong. It is 0 for f between .001 and .9, and 1 for f >= .99 or
    f <= .0001.

    Between these, s rises with the logarithm of 1 - f, or of f: s = -log10 min(f / .001, (1 - f) / .1), within [0, 1].

    >>> sureness(torch.tensor([0.5, 0.05, 0.97, 0.999, 1e-6]))
    tensor([0.0000, 0.0000, 0.5229, 1.0000, 1.0000])
    """
    return (-torch.minimum(f / _DENIED, (1 - f) / _OPEN).log10()).clamp(0, 1)


def pushes(log_f: Tensor, areas: Tensor, control: Tensor, sure: Tensor) -> Tensor:
    """The terms L ``(P, K)`` of the loss, given log F ``(P, K)``, areas A ``(P, K)``, controls ``(P, K)`` and the sureness s ``(P,)``.

    Where the control is negative, L = (F / A)^(1 - s) log F, and elsewhere L = (F / A) (1 - F)^-s log F. All factors of log F are
    constants, and L rises with F. For s = 0 the gradient of L is that of F / A. For s = 1 it is that of log F where the control is
    negative, and that of -log(1 - F) / A elsewhere. The gradient of F is F (1 - F) times that of the logit, so it is nearly zero if the net
    is sure. The gradients for s = 1 vanish only if 1 - F is below 1e-5, the smallest denominator. F / A is at most 20.

    >>> logit = torch.tensor([[-9.0], [9.0]], requires_grad=True)
    >>> log_f = torch.nn.functional.logsigmoid(logit)
    >>> pushes(
    ...     log_f, torch.tensor([[0.5], [0.5]]), torch.tensor([[-0.5], [0.5]]), torch.ones(2)
    ... ).sum().backward()
    >>> logit.grad  # F (1 - F) is .0001
    tensor([[0.9999],
            [1.9998]])
    """
    sure, f = sure[:, None], log_f.detach().exp()
    share = (f / areas).clamp_max(LARGEST)
    weak, strong = share ** (1 - sure), share * (-log_f.detach().expm1()).clamp_min(_SURE) ** -sure
    return torch.where(control < 0, weak, strong) * log_f


def warped(places: Tensor, density: Tensor) -> Tensor:
    """Shares ``(P, K)`` in [0, 1) that are distributed with ``density`` ``(P, K, parts)`` if ``places`` ``(P, K)`` in [0, 1) are spread
    evenly.

    This is the inverse of the piecewise linear distribution function. The density is given on equal parts of [0, 1) and need not sum to
    one.

    >>> warped(torch.tensor([[0.2, 0.8]]), torch.tensor([[[1.0, 3.0], [1.0, 1.0]]]))
    tensor([[0.4000, 0.8000]])
    """
    parts, density = density.shape[2], density / density.sum(dim=2, keepdim=True)
    above = density.cumsum(dim=2)
    part = (places[..., None] >= above).sum(dim=2, keepdim=True).clamp_max(parts - 1)
    own = density.gather(2, part)
    inside = (places[..., None] - above.gather(2, part) + own) / own.clamp_min(1e-12)
    return ((part + inside.clamp(0, 1)) / parts)[..., 0].clamp_max(1 - 1e-6)


def share_thresholds(maps: Tensor, shares: Tensor) -> Tensor:
    """Thresholds ``(P, K)`` above which about the share ``(P, K)`` of the positions of each map ``(P, *positions)`` lies.

    For large maps only every second position along each axis is used, which changes shares by less than a percent.

    >>> share_thresholds(torch.tensor([[4.0, 1.0, 3.0, 2.0]]), torch.tensor([[0.5, 0.0]]))
    tensor([[2., 4.]])
    """
    if maps[0].numel() > _MANY:
        maps = maps[(slice(None), *[slice(None, None, 2)] * (maps.ndim - 1))]
    values = maps.flatten(1).sort(dim=1, descending=True).values
    place = (shares * values.shape[1]).long().clamp_max(values.shape[1] - 1)
    return values.gather(1, place)


def top_share(maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
    """Hard masks ``(P, K, *positions)``: 1 where a map ``(P, *positions)`` is above its threshold ``(P, K)``, else 0.

    The gradient of the masks is that of sigmoid((map - threshold) / temperature).

    >>> maps = torch.tensor([[0.0, 1.0]], requires_grad=True)
    >>> top_share(maps, torch.tensor([[0.5]]), 1.0).sum().backward()
    >>> maps.grad  # the logistic function's slope half a temperature from its middle, twice
    tensor([[0.2350, 0.2350]])
    """
    return cast(Tensor, _TopShare.apply(maps[:, None], threshold, temperature))  # type: ignore[no-untyped-call]


def revealed(
    maps: Tensor, threshold: Tensor, temperature: float, inputs: Inputs, shown: Tensor, hidden: Tensor
) -> Tensor:
    """Composites ``(P, K, *shape)``: ``shown`` ``(P, *shape)`` where a map is above its threshold, ``hidden`` ``(P, K, *shape)`` elsewhere.

    Maps are ``(P, 1, *positions)``, or ``(P, K, *positions)`` with one map for each threshold ``(P, K)``. The result is
    ``inputs.composite`` of :func:`top_share`, but it is computed in one pass over memory, without copies of inputs that are already
    normalised and in half precision.

    >>> from proofmap.core.inputs import Rows
    >>> rows = Rows(columns=2, mean=(0, 0), std=(1, 1))
    >>> maps = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    >>> seen = revealed(
    ...     maps, torch.tensor([[0.5]]), 1.0, rows, torch.tensor([[5.0, 6.0]]), torch.zeros(1, 1, 2)
    ... )
    >>> seen
    tensor([[[0., 6.]]], grad_fn=<_RevealedBackward>)
    >>> seen.sum().backward()
    >>> maps.grad  # .235 times what showing the position changes
    tensor([[[1.1750, 1.4100]]])
    """
    return cast(Tensor, _Revealed.apply(maps, threshold, temperature, inputs, shown[:, None], hidden))  # type: ignore[no-untyped-call]


class _TopShare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(maps, threshold)
        ctx.temperature = temperature
        return (_above(maps, threshold) > 0).to(maps.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        maps, threshold = ctx.saved_tensors
        return _softly(gradients[0], maps, threshold, ctx.temperature), None, None


class _Revealed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        threshold: Tensor,
        temperature: float,
        inputs: Inputs,
        shown: Tensor,
        hidden: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(maps, threshold, shown, hidden)
        ctx.temperature, ctx.inputs = temperature, inputs
        return inputs.composite(_above(maps, threshold) > 0, shown, hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        maps, threshold, shown, hidden = ctx.saved_tensors
        gained = ctx.inputs.merged_channels(gradients[0] * (shown - hidden))
        return _softly(gained, maps, threshold, ctx.temperature), None, None, None, None, None


def _softly(gradient: Tensor, maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
    """The gradient with respect to the maps ``(P, 1 or K, *positions)``, given the gradient with respect to the masks ``(P, K, *positions)``.
    It is computed as if the masks were logistic functions of the maps.
    """
    soft = (_above(maps, threshold) / temperature).sigmoid()
    return (gradient * soft * (1 - soft)).sum_to_size(maps.shape) / temperature


def _above(maps: Tensor, threshold: Tensor) -> Tensor:
    return maps - threshold.view(*threshold.shape, *[1] * (maps.ndim - 2))


ROUNDS = 3
_MOST, _LEAST = 16, 4
"""Maximum number of shares in a round, and the smallest number that is worth a round."""
_DAMPING = 0.05
"""The damping r of the closing fit, relative to the mean squared length of the slopes."""
_FARTHEST = 0.5
"""Largest error |log A - log f| that one round corrects. Also the largest change of W in one round, as a root mean square."""
SURE = 0.5
"""The sureness s from which a label is not fitted."""
FAR = 0.7
"""A label is not fitted either if the mean of |log A_k - log f| over fills is above this value."""


@dataclass(frozen=True)
class ClosingFit:
    """The schedule of the closing fit: three rounds at the end of ``steps`` steps, which together take at most half of the steps.

    >>> fit = ClosingFit(200)
    >>> fit.shares, fit.first
    (16, 152)
    >>> ClosingFit(66).shares, ClosingFit(20).shares
    (11, 0)
    """

    steps: int

    @property
    def shares(self) -> int:
        """Number of shares in each round, one per step. 0 means no fit, because a round would have too few."""
        few = min(_MOST, self.steps // (2 * ROUNDS))
        return few if few >= _LEAST else 0

    @property
    def first(self) -> int:
        """The step at which the fit begins, counted from zero, unless the areas of a pair are near enough to f earlier."""
        return self.steps - self.length

    @property
    def length(self) -> int:
        """Total number of steps in all rounds."""
        return ROUNDS * self.shares

    def ends(self, since: Tensor) -> Tensor:
        """Whether a round ends with the step ``since``, counted from the first step of the fit; steps before the fit are negative."""
        return (since >= 0) & (since % self.shares == self.shares - 1)

    def gains(self, since: Tensor) -> Tensor:
        """Factors of the changes of W at the end of the rounds: 1.5, 1 and .5, then 0. ``since`` counts steps from the first step of the fit.

        >>> ClosingFit(24).gains(torch.tensor([3, 7, 11, 15]))
        tensor([1.5000, 1.0000, 0.5000, 0.0000])
        """
        return ((ROUNDS - since // self.shares) / 2).clamp_min(0.0)

    def places(self, since: Tensor, phase: Tensor) -> Tensor:
        """Shares ``(P, K)`` to show at the steps ``since`` ``(P,)`` of the fit, given ``phase`` ``(P, K)``.

        A round has one share in each of its equal parts of the curve. The place of the share within its part differs between fills and
        between rounds.

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
    """The shortest change D ``(P, *grid)`` of the weights whose inner products with the slopes ``(P, K, *grid)`` are the negative errors ``(P,
    K)``, damped.

    Errors are clipped to [-.5, .5], and the root mean square of D is at most .5.

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
