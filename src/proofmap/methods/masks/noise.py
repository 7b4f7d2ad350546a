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
    """Standard normal numbers shaped as ``values`` ``(*keys, ...)``, one draw for each of the keys, the same for the same key.

    >>> keys = torch.tensor([3, 4, 3])
    >>> noise = noise_like(torch.zeros(3, 5, 7), keys)
    >>> torch.equal(noise[0], noise[2]), torch.equal(noise[0], noise[1])
    (True, False)
    """
    pieces, signs = _drawn(values, keys)
    return pieces * signs


def add_noise_(values: Tensor, keys: Tensor, sigma: float) -> Tensor:
    """Add sigma times :func:`noise_like` to values, in place and in one pass; in half precision the noise is rounded, too.

    >>> keys = torch.tensor([3, 4])
    >>> values = add_noise_(torch.ones(2, 5), keys, 0.5)
    >>> torch.equal(values, 1 + 0.5 * noise_like(values, keys))
    True
    """
    return values.addcmul_(*_drawn(values, keys), value=sigma)


def _drawn(values: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """A piece of the line for each key, shaped as its values, and its sign."""
    shape = values.shape[keys.ndim :]
    pieces = _line(shape.numel(), values.device, values.dtype).unfold(0, shape.numel(), 1)
    drawn = streams.random_words(keys, 2)
    signs = (1 - 2 * (drawn[..., 1] & 1)).to(values.dtype)
    places = (drawn[..., 0] * _PLACES) >> 32
    return pieces[places].view(values.shape), signs.view(*keys.shape, *[1] * len(shape))


@cache
def _line(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    key = torch.tensor(streams.key_of("line of noise"), device=device)
    return streams.normal(key, _PLACES + length).to(dtype)
