"""What belief masks and the belief masker have in common: how far a proof is from f, and a hard mask that can be learned."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

BELIEVED, _FLOOR, _SPARED = 0.01, 0.0005, 0.25
"""Labels with less than the first are strengthened only where log A misses log f by more than the third; no proof is pushed
below the second."""
FORCE, LARGEST = 0.5, 20.0
"""The largest c_k, and the largest F_k / A_k."""
_SLACK = 0.1
"""The error at which smoothing has half its weight."""
_SURE = 1e-5
"""The smallest 1 - F that is divided by."""
_MANY = 20_000
"""Positions from which quantiles are taken on every second one along each axis."""


def belief_errors(areas: Tensor, f: Tensor, spared: float = _SPARED) -> Tensor:
    """log A - log f ``(P, K)`` for areas ``(P, K)``; labels that are hardly believed need not be proved exactly.

    Where f < .01 the error is zero for every A between f / e^spared (.78 f) and max(f, .0005), and counts from there.

    >>> belief_errors(torch.tensor([[0.5], [0.004], [0.0001]]), torch.tensor([0.5, 0.005, 1e-9]))
    tensor([[0.],
            [0.],
            [0.]])
    """
    f, log_a = f[:, None], areas.log()
    errors = log_a - f.clamp_min(_FLOOR).log()
    missed = (log_a - f.log() + spared).clamp_max(0.0)
    return torch.where(f < BELIEVED, errors.clamp_min(0.0) + missed, errors)


def yielding(far: Tensor) -> Tensor:
    """y: the share of its weight that smoothing has where the errors have the mean size ``far``: 1 / (1 + (far / .1)^2).

    >>> yielding(torch.tensor([0.0, 0.1]))
    tensor([1.0000, 0.5000])
    """
    return 1 / (1 + (far / _SLACK) ** 2)


def pushes(log_f: Tensor, areas: Tensor, control: Tensor) -> Tensor:
    """L ``(P, K)``, whose gradient is that of sqrt(F / A) log F where the control is negative and of -log(1 - F) / A elsewhere.

    Factors in F and A are constants. Both rise with F, and neither gradient vanishes while there is something to gain: that of
    F itself does where the net is sure, because it is F (1 - F) times the gradient of the logit.

    >>> logit = torch.tensor([[-9.0], [9.0]], requires_grad=True)
    >>> log_f = torch.nn.functional.logsigmoid(logit)
    >>> pushes(log_f, torch.tensor([[0.5], [0.5]]), torch.tensor([[-0.5], [0.5]])).sum().backward()
    >>> logit.grad  # F (1 - F) is .0001
    tensor([[0.0157],
            [1.9998]])
    """
    f = log_f.detach().exp()
    share = (f / areas).clamp_max(LARGEST)
    weak, strong = share.sqrt(), share / (-log_f.detach().expm1()).clamp_min(_SURE)
    return torch.where(control < 0, weak, strong) * log_f


def warped(places: Tensor, density: Tensor) -> Tensor:
    """Shares ``(P, K)`` in [0, 1) from places ``(P, K)`` in [0, 1): evenly spread places get this density ``(P, K, parts)``.

    The inverse of the piecewise linear distribution function; the density is over equal parts and need not sum to one.

    >>> warped(torch.tensor([[0.2, 0.8]]), torch.tensor([[[1.0, 3.0], [1.0, 1.0]]]))
    tensor([[0.4000, 0.8000]])
    """
    parts, density = density.shape[2], density / density.sum(dim=2, keepdim=True)
    above = density.cumsum(dim=2)
    part = (places[..., None] >= above).sum(dim=2, keepdim=True).clamp_max(parts - 1)
    own = density.gather(2, part)
    inside = (places[..., None] - above.gather(2, part) + own) / own
    return ((part + inside.clamp(0, 1)) / parts)[..., 0].clamp_max(1 - 1e-6)


def thresholds(maps: Tensor, shares: Tensor) -> Tensor:
    """t ``(P, K)`` such that about a share ``(P, K)`` of the positions of maps ``(P, *positions)`` lies above it.

    Large maps are looked at on every second position along each axis, which moves shares by less than a percent.

    >>> thresholds(torch.tensor([[4.0, 1.0, 3.0, 2.0]]), torch.tensor([[0.5, 0.0]]))
    tensor([[2., 4.]])
    """
    if maps[0].numel() > _MANY:
        maps = maps[(slice(None), *[slice(None, None, 2)] * (maps.ndim - 1))]
    values = maps.flatten(1).sort(dim=1, descending=True).values
    place = (shares * values.shape[1]).long().clamp_max(values.shape[1] - 1)
    return values.gather(1, place)


def top_share(maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
    """Hard masks ``(P, K, *positions)``, one where a map ``(P, *positions)`` is above a threshold ``(P, K)``.

    Their gradient is that of sigmoid((map - threshold) / temperature).

    >>> maps = torch.tensor([[0.0, 1.0]], requires_grad=True)
    >>> top_share(maps, torch.tensor([[0.5]]), 1.0).sum().backward()
    >>> maps.grad  # the logistic function's slope half a temperature from its middle, twice
    tensor([[0.2350, 0.2350]])
    """
    return cast(Tensor, _TopShare.apply(maps, threshold, temperature))  # type: ignore[no-untyped-call]


class _TopShare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(maps, threshold)
        ctx.temperature = temperature
        return (_above(maps, threshold) > 0).to(maps.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        maps, threshold = ctx.saved_tensors
        soft = (_above(maps, threshold) / ctx.temperature).sigmoid()
        return (gradients[0] * soft * (1 - soft)).sum(dim=1) / ctx.temperature, None, None


def _above(maps: Tensor, threshold: Tensor) -> Tensor:
    return maps[:, None] - threshold.view(*threshold.shape, *[1] * (maps.ndim - 1))
