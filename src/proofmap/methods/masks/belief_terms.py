"""What belief masks and the belief masker have in common: how far a proof is from f, and a hard mask that can be learned."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

BELIEVED, _FLOOR = 0.01, 0.0005
"""Labels with less than the first are not strengthened; no proof is pushed below the second."""
FORCE, LARGEST = 0.5, 20.0
"""The largest c_k, and the largest F_k / A_k."""
_SLACK = 0.1
"""The error at which smoothing has half its weight."""
_MANY = 20_000
"""Positions from which quantiles are taken on every second one along each axis."""


def belief_errors(areas: Tensor, f: Tensor) -> Tensor:
    """log A - log f ``(P, K)`` for areas ``(P, K)``; zero for labels that are hardly believed and not proved either.

    >>> belief_errors(torch.tensor([[0.5], [0.001]]), torch.tensor([0.5, 0.005]))
    tensor([[0.],
            [0.]])
    """
    f = f[:, None]
    errors = areas.log() - f.clamp_min(_FLOOR).log()
    return errors.masked_fill((f < BELIEVED) & (errors < 0), 0.0)


def yielding(far: Tensor) -> Tensor:
    """y: the share of its weight that smoothing has where the errors have the mean size ``far``: 1 / (1 + (far / .1)^2).

    >>> yielding(torch.tensor([0.0, 0.1]))
    tensor([1.0000, 0.5000])
    """
    return 1 / (1 + (far / _SLACK) ** 2)


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
