"""The similarity of two maps or two rows of numbers: correlation of values and of ranks, and structural similarity, for many pairs at
once.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from proofmap.core.errors import InputError


def mean_ranks(values: Tensor) -> Tensor:
    """Ranks ``(P, n)`` of rows ``(P, n)`` in float64: 1 is the smallest, equal values share the mean of their ranks.

    >>> mean_ranks(torch.tensor([[0.3, 0.1, 0.3, 0.9]]))
    tensor([[2.5000, 1.0000, 2.5000, 4.0000]], dtype=torch.float64)
    """
    ordered, order = values.sort(dim=1)
    n = values.shape[1]
    place = torch.arange(n, device=values.device).expand_as(order)
    changes = ordered[:, 1:] != ordered[:, :-1]
    edge = torch.ones_like(ordered[:, :1], dtype=torch.bool)
    first = torch.where(torch.cat([edge, changes], dim=1), place, 0).cummax(dim=1).values
    ends = torch.where(torch.cat([changes, edge], dim=1), place, n - 1)
    last = ends.flip(1).cummin(dim=1).values.flip(1)
    shared = (first + last).double() / 2 + 1
    return torch.empty_like(shared).scatter_(1, order, shared)


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's correlation ``(P,)`` between the corresponding rows of a and b ``(P, n)``; NaN if a row is constant."""
    a, b = a.double(), b.double()
    a, b = a - a.mean(dim=1, keepdim=True), b - b.mean(dim=1, keepdim=True)
    product = (a * b).sum(dim=1)
    size = (a.square().sum(dim=1) * b.square().sum(dim=1)).sqrt()
    return torch.where(size > 0, product / size, torch.nan).clamp(-1.0, 1.0)


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's rank correlation ``(P,)`` between the corresponding rows of a and b ``(P, n)``; NaN if a row is constant.

    >>> spearman(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[9.0, 4.0, 1.0]]))
    tensor([-1.], dtype=torch.float64)
    """
    return pearson(mean_ranks(a), mean_ranks(b))


Similarity = Literal["rank", "abs-rank", "ssim"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)
_SIGMA, _WINDOW = 1.5, 11


def similarity(a: Tensor, b: Tensor, how: Similarity) -> Tensor:
    """The similarity ``(P,)`` between the corresponding maps of a and b ``(P, *positions)``; 1 for equal maps.

    ``rank`` is Spearman's correlation of the values, ``abs-rank`` that of their absolute values, ``ssim`` is :func:`ssim` of the maps
    scaled to [0, 1]. 0 if one of the two is constant; NaN if both are.
    """
    flat, other = a.flatten(1), b.flatten(1)
    if how == "ssim":
        found = ssim(_scaled(a), _scaled(b))
    else:
        found = spearman(flat.abs(), other.abs()) if how == "abs-rank" else spearman(flat, other)
    still = [(row == row[:, :1]).all(dim=1) for row in (flat, other)]
    found = found.masked_fill(still[0] ^ still[1], 0.0)
    return found.masked_fill(still[0] & still[1], torch.nan)


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity ``(P,)`` (Wang et al. 2004) between the corresponding maps of a and b ``(P, *positions)``, with values
    in ``[0, 1]``.

        (2 ma mb + C1) (2 cov + C2) / ((ma^2 + mb^2 + C1) (va + vb + C2)),     C1 = .01^2, C2 = .03^2

    of means, variances and covariance under a Gaussian window of 11 positions a side, sigma 1.5 (fewer on smaller maps),
    averaged over the windows that lie inside the map.
    """
    axes = range(1, a.ndim)
    if math.prod(a.shape[1:]) < 2:
        raise InputError("structural similarity needs maps of two positions or more")
    a, b = a.double(), b.double()
    moments = torch.stack([a, b, a * a, b * b, a * b])
    for axis in axes:
        moments = _window(moments, axis + 1)
    ma, mb, aa, bb, ab = moments
    va, vb, cov = aa - ma * ma, bb - mb * mb, ab - ma * mb
    c1, c2 = 0.01**2, 0.03**2
    local = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2))
    found: Tensor = local.flatten(1).mean(dim=1)
    return found


def _scaled(maps: Tensor) -> Tensor:
    """Each map scaled to run from 0 to 1; a constant map becomes 0 everywhere."""
    flat = maps.flatten(1).double()
    low, high = flat.aminmax(dim=1, keepdim=True)
    size = high - low
    return torch.where(size > 0, (flat - low) / size, 0.0).view(maps.shape)


def _window(values: Tensor, axis: int) -> Tensor:
    """Means under the Gaussian window along an axis, at all positions where the window lies inside the map."""
    side = values.shape[axis]
    width = min(_WINDOW, side - 1 + side % 2)  # odd
    distance = torch.arange(width, device=values.device, dtype=values.dtype) - width // 2
    weights = torch.exp(-0.5 * (distance / _SIGMA) ** 2)
    return values.unfold(axis, width, 1) @ (weights / weights.sum())
