"""Maps on a coarse grid, enlarged, shrunk and blurred along each axis, mostly by one matrix for each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def upsampling(low: int, high: int, *, corners: bool = False, device: torch.device | None = None) -> Tensor:
    """The matrix ``(high, low)`` of linear interpolation along one axis from ``low`` cells to ``high`` positions, edges repeated.

    The product with this matrix is the interpolation, and the product with its transpose is the exact, deterministic gradient. With
    ``corners`` the first and last cells lie on the first and last positions (torch's ``align_corners=True``).

    >>> upsampling(2, 4)
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500],
            [0.2500, 0.7500],
            [0.0000, 1.0000]])
    """
    if corners:
        places = torch.linspace(0, low - 1, high, dtype=torch.float64)
    else:
        places = ((torch.arange(high, dtype=torch.float64) + 0.5) * low / high - 0.5).clamp(0, low - 1)
    left = places.floor().long().clamp_max(low - 1)
    right = (left + 1).clamp_max(low - 1)
    share = places - left
    matrix = torch.zeros(high, low, dtype=torch.float64)
    rows = torch.arange(high)
    matrix[rows, left] += 1 - share
    matrix[rows, right] += share
    return matrix.float().to(device)


def upsamplings(
    cells: Sequence[int],
    positions: Sequence[int],
    *,
    corners: bool = False,
    device: torch.device | None = None,
) -> tuple[Tensor, ...]:
    """One matrix of :func:`upsampling` for each axis of a grid, from ``cells`` to ``positions``."""
    sides = zip(cells, positions, strict=True)
    return tuple(upsampling(low, high, corners=corners, device=device) for low, high in sides)


def smoothing(side: int, sigma: float, *, device: torch.device | None = None) -> Tensor:
    """The matrix ``(side, side)`` of a Gaussian blur along one axis, cut at 4 sigma, edges repeated. With sigma 0 there is no blur.

    >>> smoothing(3, 0.5).sum(dim=1)
    tensor([1., 1., 1.])
    """
    radius = math.ceil(4 * sigma)
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / max(sigma, 1e-9)).square())
    places = (torch.arange(side)[:, None] + offsets.long()).clamp(0, side - 1)
    matrix = torch.zeros(side, side, dtype=torch.float64)
    matrix.scatter_add_(1, places, (kernel / kernel.sum()).expand(side, -1))
    return matrix.float().to(device)


def enlarged(low: Tensor, up: Sequence[Tensor]) -> Tensor:
    """Masks ``(..., *positions)``, enlarged from ``(..., *grid)`` by one matrix of :func:`upsampling` per axis.

    >>> enlarged(torch.tensor([[0.0, 1.0]]), [upsampling(2, 4)])
    tensor([[0.0000, 0.2500, 0.7500, 1.0000]])
    """
    if len(up) == 2:
        return up[0] @ low @ up[1].T
    for axis, matrix in enumerate(up, start=low.ndim - len(up)):
        low = torch.tensordot(low, matrix, dims=([axis], [1])).movedim(-1, axis)
    return low


def interpolated(maps: Tensor, positions: Sequence[int], *, corners: bool = False) -> Tensor:
    """Maps ``(N, L, *grid)`` of one to three axes, enlarged linearly along each axis by torch (``align_corners=corners``)."""
    return F.interpolate(maps, size=tuple(positions), mode=_MODES[len(positions)], align_corners=corners)


def shorter_side(positions: Sequence[int]) -> int:
    """The shortest side of a grid, without axes of a single position: a volume of one slice is a picture.

    >>> shorter_side((1, 8, 10))
    8
    """
    return min((side for side in positions if side > 1), default=1)


def draw_order(axes: int) -> list[int]:
    """For each axis, which of ``axes`` random numbers it gets: a volume of one slice draws those of a picture.

    >>> draw_order(2), draw_order(3)
    ([0, 1], [2, 0, 1])
    """
    return [(axis + 2) % axes for axis in range(axes)]
