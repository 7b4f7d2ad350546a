"""Much noise for little work: every draw is a piece of one long line of normal numbers, which is made once.

Fresh numbers for a picture cost as much as a pass of a small net. A piece that starts at a random place of the line, with a
random sign, is as good to blur a gradient with, and is a copy.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from proofmap.core import streams

_PLACES = 1 << 18
"""Where a piece may start."""


def noise_like(values: Tensor, keys: Tensor) -> Tensor:
    """Standard normal numbers shaped as ``values`` ``(N, ...)``, one draw for each key ``(N,)``, the same for the same key.

    >>> keys = torch.tensor([3, 4, 3])
    >>> noise = noise_like(torch.zeros(3, 5, 7), keys)
    >>> torch.equal(noise[0], noise[2]), torch.equal(noise[0], noise[1])
    (True, False)
    """
    pieces, sign = _drawn(values, keys)
    return pieces * sign


def with_noise(values: Tensor, keys: Tensor, sigma: float) -> Tensor:
    """Values ``(N, ...)`` plus sigma times :func:`noise_like`, in one pass; in half precision the noise is rounded, too.

    >>> with_noise(torch.ones(2, 3), torch.tensor([1, 2]), 0.0)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    return torch.addcmul(values, *_drawn(values, keys), value=sigma)


def _drawn(values: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """A piece of the line for each key, shaped as the values, and its sign."""
    length = values[0].numel()
    pieces = _line(length, values.device, values.dtype).unfold(0, length, 1)
    drawn = streams.words(keys, 2)
    sign = (1 - 2 * (drawn[:, 1] & 1)).to(values.dtype)
    return pieces[(drawn[:, 0] * _PLACES) >> 32].view(values.shape), sign.view(-1, *[1] * (values.ndim - 1))


@cache
def _line(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    key = torch.tensor(streams.key_of("line of noise"), device=device)
    return streams.normal(key, _PLACES + length).to(dtype)
