"""Ranks of a map's positions. Metrics use only ranks; a tie policy orders equal values.

Positions are the axes of a map after the first: H x W pixels (all channels together), time steps, columns. Rank 0 is the
most salient position; ``ranks < s`` keeps the top s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError

__all__ = ["Ties", "center_distance", "keep_top", "rank"]

Ties = Literal["index", "random", "center"]
"""Which of two equally salient positions comes first."""


def rank(maps: Tensor, *, ties: Ties = "index", keys: Tensor | None = None) -> Tensor:
    """Ranks ``(P, n)`` int32 of the n positions of each map, for P maps ``(P, *positions)``; 0 is the most salient.

    Equal values keep the order of the tie policy: ``index`` (first position first), ``random`` (a permutation
    drawn from each map's stream key ``(P,)``) or ``center`` (nearest to the middle of the grid first).

    >>> rank(torch.tensor([[0.1, 0.9, 0.1, 0.5]]))
    tensor([[2, 0, 3, 1]], dtype=torch.int32)
    """
    if ties not in get_args(Ties):
        raise InputError(f"ties must be one of {', '.join(get_args(Ties))}, not {ties!r}")
    values = maps.flatten(1)
    if bool(values.isnan().any()):
        where = int(values.isnan().any(dim=1).nonzero()[0])
        raise InputError(f"map {where} contains NaN and cannot be ranked; check the method that made it")
    first = _first_order(values, maps.shape[1:], ties, keys)
    arranged = values if first is None else values.gather(1, first)
    order = arranged.sort(dim=1, descending=True, stable=True).indices
    if first is not None:
        order = first.gather(1, order)
    places = torch.arange(values.shape[1], device=maps.device, dtype=torch.int32).expand(len(values), -1)
    return torch.empty_like(order, dtype=torch.int32).scatter_(1, order, places)


def _first_order(values: Tensor, positions: Sequence[int], ties: Ties, keys: Tensor | None) -> Tensor | None:
    """Indices ``(P, n)`` of each map's positions in the order in which equal values are ranked; None for the order of the index."""
    if ties == "index":
        return None
    if ties == "center":
        order = center_distance(positions, values.device).flatten().argsort(stable=True)
        return order.expand(len(values), -1)
    if keys is None:
        raise InputError(
            "ties='random' needs one stream key per map: pass keys=, such as streams.image_keys(images, seed), or choose ties='index'"
        )
    return streams.permutations(keys, values.shape[1])


def center_distance(positions: Sequence[int], device: torch.device) -> Tensor:
    """Squared distance of each grid position to the middle of the grid, shape ``positions``."""
    total = torch.zeros(tuple(positions), device=device, dtype=torch.float32)
    for axis, length in enumerate(positions):
        line = torch.arange(length, device=device, dtype=torch.float32) - (length - 1) / 2
        shape = [1] * len(positions)
        shape[axis] = length
        total = total + line.view(shape) ** 2
    return total


def keep_top(maps: Tensor, share: float, *, ties: Ties = "index", keys: Tensor | None = None) -> Tensor:
    """Boolean masks, shaped like the maps, that are True at the top ``share`` of positions (rounded to whole positions).

    >>> keep_top(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), 0.5)
    tensor([[ True, False,  True, False]])
    """
    if not 0 <= share <= 1:
        raise InputError(f"share must lie between 0 and 1, not {share}")
    count = round(share * math.prod(maps.shape[1:]))
    return (rank(maps, ties=ties, keys=keys) < count).view(maps.shape)
