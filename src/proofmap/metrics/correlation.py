"""Rank correlation of many rows at once, ties given their mean rank, as Spearman has it."""

from __future__ import annotations

import torch
from torch import Tensor


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
    """The correlation of each row of ``(P, n)`` with its partner's, ``(P,)``; NaN where a row is constant."""
    a, b = a.double(), b.double()
    a, b = a - a.mean(dim=1, keepdim=True), b - b.mean(dim=1, keepdim=True)
    product = (a * b).sum(dim=1)
    size = (a.square().sum(dim=1) * b.square().sum(dim=1)).sqrt()
    return torch.where(size > 0, product / size, torch.nan).clamp(-1.0, 1.0)


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's rank correlation of each row of ``(P, n)`` with its partner's, ``(P,)``; NaN where a row is constant.

    >>> spearman(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[9.0, 4.0, 1.0]]))
    tensor([-1.], dtype=torch.float64)
    """
    return pearson(mean_ranks(a), mean_ranks(b))
