"""Ranks of a map's positions. Metrics use only ranks; a tie policy orders equal values.

Positions are the axes of a map after the first: H x W pixels (all channels together), time steps, columns. Rank 0 is the
most salient position; ``ranks < s`` keeps the top s.

Maps come in any precision. :func:`as_maps` reads them, and :func:`in_float32` keeps their order in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError

__all__ = ["Ties", "as_maps", "keep_top", "rank"]

Ties = Literal["index", "random", "center"]
"""Which of two equally salient positions comes first."""
_AT_ONCE = 2**20  # map values that are ordered together


def as_maps(found: Any, who: str) -> Tensor:
    """Maps as a tensor of any shape, from a tensor, an array, or a list of either. Error messages begin with ``who``, such as "the function
    mine must return maps".

    The result is float32, or float64 if the numbers given were of a wider type than float32. Integers of 64 bits and long doubles become
    float64 numbers in the same order.
    """
    if isinstance(found, (list, tuple)) and any(isinstance(item, Tensor) for item in found):
        found = torch.stack([torch.as_tensor(item) for item in found])
    if isinstance(found, Tensor):
        values = found.detach()
        if values.is_floating_point():
            return values if values.dtype == torch.float64 else values.float()
        array, device = values.cpu().resolve_conj().numpy(), values.device
    else:
        parts = found if isinstance(found, (list, tuple)) else [found]
        if any(isinstance(part, np.ma.MaskedArray) for part in parts):
            raise InputError(
                f"{who} without masked entries, not as a masked array: choose the value of masked positions, such as "
                "maps.filled(maps.min())"
            )
        try:
            array, device = np.asarray(found), torch.device("cpu")
        except (TypeError, ValueError):
            array = np.array(None)
    if array.dtype.kind == "c":
        raise InputError(f"{who} with one real number per position, not complex numbers")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{who} as a tensor or a NumPy array of numbers, not {type(found).__name__}")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        narrow = array.astype(np.float64 if array.dtype.itemsize == 8 else np.float32)
    else:
        narrow = _narrowed(array.reshape(1, -1), np.float64).reshape(array.shape)
        narrow = narrow.astype(np.float32) if array.dtype.itemsize <= 2 else narrow
    return torch.from_numpy(narrow).to(device)


def in_float32(maps: Tensor) -> Tensor:
    """Maps ``(N, L, *positions)`` in float32, in the order that they have in their own precision.

    Values that float32 would round to the same number, to zero or to infinity become neighbouring numbers of float32. All other values are
    rounded as usual.

    >>> in_float32(torch.tensor([[[3e-80, 0.0, 1e-80, 0.5]]], dtype=torch.float64)).argsort().tolist()
    [[[1, 2, 0, 3]]]
    """
    if maps.dtype in (torch.float32, torch.float16, torch.bfloat16, torch.bool):
        return maps.float()
    flat = maps.detach().reshape(-1, math.prod(maps.shape[2:])).cpu()
    rows = flat.split(max(1, _AT_ONCE // max(1, flat.shape[1])))
    found = [torch.from_numpy(_narrowed(some.numpy(), np.float32)) for some in rows]
    return torch.cat(found).view(maps.shape).to(maps.device)


def _narrowed(maps: NDArray[Any], kind: type[np.floating[Any]]) -> NDArray[Any]:
    """Maps ``(P, n)`` as numbers of a floating-point type of 32 or 64 bits, with the same order and signs."""
    with np.errstate(all="ignore"):
        rounded: NDArray[Any] = maps.astype(kind)
    places = maps.argsort(axis=1, kind="stable")
    values, near = (np.take_along_axis(x, places, axis=1) for x in (maps, rounded))
    grows = values[:, 1:] != values[:, :-1]
    finite = np.isfinite(values)
    merged = grows & (near[:, 1:] == near[:, :-1])
    if not merged.any() and not (finite & (np.isinf(near) | ((near == 0) & (values != 0)))).any():
        return rounded
    # positive floating-point numbers are in the order of their bits: the next number has the next integer
    integer = np.int32 if kind is np.float32 else np.int64
    most = int(np.finfo(kind).max.view(integer))
    bits = np.minimum(np.abs(near).view(integer).astype(np.int64), most)
    number = np.concatenate([np.zeros_like(bits[:, :1]), grows.cumsum(axis=1)], axis=1)
    last = number[:, -1:]
    up = _spread(np.maximum(bits, 1), number, values > 0, most)
    down = _spread(np.maximum(bits, 1)[:, ::-1], (last - number)[:, ::-1], values[:, ::-1] < 0, most)
    sizes = np.where(values > 0, up, np.where(values < 0, down[:, ::-1], 0)).astype(integer).view(kind)
    signed = np.where(finite, np.where(values < 0, -sizes, sizes), near)
    found = np.empty_like(rounded)
    np.put_along_axis(found, places, signed, axis=1)
    return found


def _spread(bits: NDArray[Any], number: NDArray[Any], inside: NDArray[Any], most: int) -> NDArray[Any]:
    """The smallest integers that are at least ``bits`` and grow with ``number``, among the values ``inside``; at most ``most``."""
    grown = np.maximum.accumulate(np.where(inside, bits - number, -(2**62)), axis=1) + number
    found: NDArray[Any] = np.minimum(grown, most - (number[:, -1:] - number))
    return found


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
