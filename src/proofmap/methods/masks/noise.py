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
    pieces = _line(values[0].numel(), values.device).unfold(0, values[0].numel(), 1)
    drawn = streams.words(keys, 2)
    sign = 1.0 - 2.0 * (drawn[:, 1] & 1)
    noise = pieces[(drawn[:, 0] * _PLACES) >> 32] * sign[:, None].to(pieces.dtype)
    return noise.view(values.shape).to(values.dtype)


@cache
def _line(length: int, device: torch.device) -> Tensor:
    return streams.normal(torch.tensor(streams.key_of("line of noise"), device=device), _PLACES + length)
