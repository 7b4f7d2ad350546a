"""Gaussian blur of maps and inputs: the kernel is cut at the border, and its rest weighs one again."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def blurred(values: Tensor, sigma: float, axes: int) -> Tensor:
    """Values ``(..., *positions)`` blurred along their last ``axes`` axes; ``sigma`` is in positions.

    >>> blurred(torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]), 1.0, 1)
    tensor([[0.0772, 0.2571, 0.4026, 0.2571, 0.0772]])
    """
    for axis in range(values.ndim - axes, values.ndim):
        kernel = gaussian_matrix(values.shape[axis], sigma, values.device)
        values = torch.tensordot(values, kernel, dims=([axis], [1])).movedim(-1, axis)
    return values


def gaussian_matrix(side: int, sigma: float, device: torch.device) -> Tensor:
    """The matrix ``(side, side)`` of a Gaussian blur along one axis, cut at four sigma; every row sums to one.

    >>> gaussian_matrix(3, 1.0, torch.device("cpu"))
    tensor([[0.5741, 0.3482, 0.0777],
            [0.2741, 0.4519, 0.2741],
            [0.0777, 0.3482, 0.5741]])
    """
    line = torch.arange(side, device=device)
    distance = (line[:, None] - line).abs()
    weights = torch.exp(-0.5 * (distance / sigma) ** 2).masked_fill(distance > math.ceil(4 * sigma), 0.0)
    return weights / weights.sum(dim=1, keepdim=True)
