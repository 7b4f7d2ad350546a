"""What belief masks and the belief masker share: the error of a proof, a hard mask that can be learned, and the closing fit.

**The closing fit.** While a mask is learned, areas are known only from the latest value in each fifth of the curve. At the end the map is kept for a
round of shares that covers the whole curve. This gives A_k and its slope S_k, the gradient of log A_k in W, for every fill k. Then W is
changed once, by the shortest D with

    <S_k, D> = log f - log A_k   for all k, to first order and damped:   D = S^T (S S^T + r 1)^-1 (log f - log A),

and the next round begins, at other shares. The straight-through gradient is too large, so the first change is multiplied by 1.5.
Later changes are shorter, because a round is a noisy measurement; the last ones average over everything measured.

A fit corrects small errors. If areas are still far from f, or the net is sure (there the gradient of F vanishes), the passes are better used
for learning, and the label is not fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from proofmap.core.inputs import Inputs

BELIEVED, _FLOOR, _SPARED = 0.01, 0.0005, 0.25
"""Labels with f below the first are strengthened only if log A is below log f by more than the third; no proof is pushed
below the second."""
FORCE, LARGEST = 0.5, 20.0
"""The largest c_k, and the largest F_k / A_k."""
_SURE = 1e-5
"""The smallest 1 - F in a denominator."""
_DENIED, _OPEN = 0.001, 0.1
"""The smallest f and the smallest 1 - f of a label that the net is not sure of."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples modulo 1 are spread evenly for any number of them."""
_MANY = 20_000
"""Number of positions above which quantiles use every second position along each axis."""


def belief_errors(areas: Tensor, f: Tensor, spared: float = _SPARED) -> Tensor:
    """The errors log A - log f ``(P, K)`` of areas ``(P, K)``. For a label that the net hardly believes, any area in an interval
    has the error 0.

    For f < .01 this interval is from f / e^spared (.78 f) to max(f, .0005); the error of other areas is their distance from it.
    Areas are at least 1e-6, so labels with a smaller f are not strengthened.

    >>> belief_errors(torch.tensor([[0.5], [0.004], [0.0001]]), torch.tensor([0.5, 0.005, 1e-9]))
    tensor([[0.],
            [0.],
            [0.]])
    """
    f, log_a = f[:, None], areas.log()
    errors = log_a - f.clamp_min(_FLOOR).log()
    missed = (log_a - f.log() + spared).clamp_max(0.0)
    return torch.where(f < BELIEVED, errors.clamp_min(0.0) + missed, errors)


def yielding(far: Tensor, slack: float = 0.1) -> Tensor:
    """y: the factor of the smoothing weight for errors of mean size ``far``: 1 / (1 + (far / slack)^2).

    >>> yielding(torch.tensor([0.0, 0.1]))
    tensor([1.0000, 0.5000])
    """
    return 1 / (1 + (far / slack) ** 2)


def sureness(f: Tensor) -> Tensor:
    """s: how sure the net is of a label, or against it: 0 for f between .001 and .9, 1 from .99 on and up to .0001.

    Between these it rises with the logarithm of 1 - f, or of f: s = -log10 min(f / .001, (1 - f) / .1), within [0, 1].

    >>> sureness(torch.tensor([0.5, 0.05, 0.97, 0.999, 1e-6]))
    tensor([0.0000, 0.0000, 0.5229, 1.0000, 1.0000])
    """
    return (-torch.minimum(f / _DENIED, (1 - f) / _OPEN).log10()).clamp(0, 1)


def pushes(log_f: Tensor, areas: Tensor, control: Tensor, sure: Tensor) -> Tensor:
    """L ``(P, K)``. For a pair with s = 0 its gradient is that of F / A. For a pair with s = 1 it is that of log F where the control is
    negative, and that of -log(1 - F) / A elsewhere.

    Between these, (F / A)^(1 - s) log F and (F / A) (1 - F)^-s log F, where all factors are constants. All rise with F. The gradient
    of F is F (1 - F) times that of the logit, nearly zero if the net is sure. The other gradients vanish only if 1 - F is below 1e-5, the
    smallest denominator. F / A is at most 20.

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
    """Shares ``(P, K)`` in [0, 1) that have this density ``(P, K, parts)`` if the places ``(P, K)`` in [0, 1) are spread evenly.

    The inverse of the piecewise linear distribution function; the density is over equal parts and need not sum to one.

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
    """Thresholds ``(P, K)``: about a share ``(P, K)`` of the positions of maps ``(P, *positions)`` lies above them.

    For large maps every second position along each axis is used, which changes shares by less than a percent.

    >>> share_thresholds(torch.tensor([[4.0, 1.0, 3.0, 2.0]]), torch.tensor([[0.5, 0.0]]))
    tensor([[2., 4.]])
    """
    if maps[0].numel() > _MANY:
        maps = maps[(slice(None), *[slice(None, None, 2)] * (maps.ndim - 1))]
    values = maps.flatten(1).sort(dim=1, descending=True).values
    place = (shares * values.shape[1]).long().clamp_max(values.shape[1] - 1)
    return values.gather(1, place)


def top_share(maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
    """Hard masks ``(P, K, *positions)``: 1 where a map ``(P, *positions)`` is above a threshold ``(P, K)``.

    Their gradient is that of sigmoid((map - threshold) / temperature).

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

    Maps are ``(P, 1, *positions)``, or ``(P, K, *positions)`` with one for each threshold ``(P, K)``. The same as ``inputs.composite``
    of :func:`top_share`, but in one pass over memory, without copies of inputs that are already normalised and in half precision.

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
    """The gradient with respect to the maps ``(P, 1 or K, *positions)``, from the gradient with respect to masks ``(P, K, *positions)``, as
    if masks were logistic functions of maps."""
    soft = (_above(maps, threshold) / temperature).sigmoid()
    return (gradient * soft * (1 - soft)).sum_to_size(maps.shape) / temperature


def _above(maps: Tensor, threshold: Tensor) -> Tensor:
    return maps - threshold.view(*threshold.shape, *[1] * (maps.ndim - 2))


ROUNDS = 3
_MOST, _LEAST = 16, 4
"""Maximum number of shares in a round, and the smallest number that is worth a round."""
_DAMPING = 0.05
"""r, relative to the mean squared length of the slopes."""
_FARTHEST = 0.5
"""Largest error that one round corrects, as a logarithm, and largest change of W (root mean square)."""
SURE = 0.5
"""The sureness from which a label is not fitted."""
FAR = 0.7
"""The mean of |log A_k - log f| over fills from which it is not fitted either."""


@dataclass(frozen=True)
class ClosingFit:
    """The schedule of the fit: three rounds at the end of ``steps``, together at most half of them.

    >>> fit = ClosingFit(200)
    >>> fit.shares, fit.first
    (16, 152)
    >>> ClosingFit(66).shares, ClosingFit(20).shares
    (11, 0)
    """

    steps: int

    @property
    def shares(self) -> int:
        """Shares in each round; 0 if a round would have too few."""
        few = min(_MOST, self.steps // (2 * ROUNDS))
        return few if few >= _LEAST else 0

    @property
    def first(self) -> int:
        """The first step of the fit, counted from zero, unless a pair is near enough earlier."""
        return self.steps - self.length

    @property
    def length(self) -> int:
        """Total number of steps in all rounds."""
        return ROUNDS * self.shares

    def ends(self, since: Tensor) -> Tensor:
        """Whether a round ends with this step, counted from the first step of the fit; negative before the fit."""
        return (since >= 0) & (since % self.shares == self.shares - 1)

    def gains(self, since: Tensor) -> Tensor:
        """Factors of the changes at the end of the rounds: 1.5, 1 and .5, then 0.

        >>> ClosingFit(24).gains(torch.tensor([3, 7, 11, 15]))
        tensor([1.5000, 1.0000, 0.5000, 0.0000])
        """
        return ((ROUNDS - since // self.shares) / 2).clamp_min(0.0)

    def places(self, since: Tensor, phase: Tensor) -> Tensor:
        """Shares ``(P, K)`` for steps ``(P,)``: one in each equal part of the curve, at another place in it for each fill and round.

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

    Errors count as at most .5, and so does the root mean square of D.

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
