"""Random numbers that depend on a key, not on the order in which they are drawn.

Philox-4x32-10 (Salmon et al., SC 2011) has no state: the i-th number of a stream is computed from the stream's 64-bit key and i. A
key is a hash of (seed, image content, label, purpose), so an input gets the same numbers for every batch size, order, number of
workers and device.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
__all__ = [
    "content_keys",
    "image_keys",
    "integers",
    "key_of",
    "normal",
    "pair_keys",
    "permutations",
    "step_keys",
    "uniform",
]

_LOW = 0xFFFFFFFF
_FEW = 8192  # numbers up to which NumPy is faster
_Whole = TypeVar("_Whole", Tensor, NDArray[np.int64])


def key_of(*parts: object) -> int:
    """A 64-bit stream key from any printable parts, as a signed integer that fits a LongTensor.

    >>> key_of(0, "noise") == key_of(0, "noise"), key_of(0, "noise") == key_of(1, "noise")
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        encoded = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return int.from_bytes(digest.digest(), "little", signed=True)


def content_keys(images: Tensor) -> list[bytes]:
    """A digest of each image's content, the same on every device."""
    pixels = images.detach().to(device="cpu", dtype=torch.float32).contiguous()
    return [hashlib.blake2b(image.numpy().tobytes(), digest_size=16).digest() for image in pixels]


def image_keys(images: Tensor, *parts: object, contents: Sequence[bytes] | None = None) -> Tensor:
    """Stream keys ``(N,)``, one per image, on the images' device. A key is a hash of the image's content and ``parts``, such as the seed
    and a purpose.

    ``contents`` are the images' :func:`content_keys` if they are known already, which saves reading every pixel.
    """
    known = content_keys(images) if contents is None else contents
    keys = [key_of(content, *parts) for content in known]
    return torch.tensor(keys, dtype=torch.int64, device=images.device)


def pair_keys(images: Tensor, pairs: Iterable[tuple[int, int]], *parts: object) -> Tensor:
    """Stream keys ``(P,)``, one per (image index, label) pair. A key is a hash of the image's content, the label and ``parts``."""
    contents = content_keys(images)
    keys = [key_of(contents[i], label, *parts) for i, label in pairs]
    return torch.tensor(keys, dtype=torch.int64, device=images.device)


def _philox(keys: Tensor, counters: Tensor) -> tuple[Tensor, ...]:
    """Four 32-bit words (in int64 tensors) for each key and counter; shapes broadcast.

    For few numbers NumPy is six times as fast as torch, with the same bits.
    """
    numbers = torch.broadcast_tensors(keys, counters)[0].numel()
    few = numbers <= _FEW and keys.device.type == "cpu" and not torch.compiler.is_compiling()
    if few:
        return tuple(torch.from_numpy(lane) for lane in _rounds(keys.numpy(), counters.numpy()))
    return _rounds(keys, counters)


def _rounds(keys: _Whole, counters: _Whole) -> tuple[_Whole, _Whole, _Whole, _Whole]:
    """The four words that the ten rounds of Philox compute from int64 keys and counters, whose shapes broadcast.

    Only the 32 low bits of each value matter. Sums and products may wrap, but their low bits equal those of unsigned arithmetic.
    """
    k0, k1 = keys, keys >> 32
    c0, c1, c2, c3 = counters & _LOW, counters >> 32, counters & 0, counters & 0
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = ((p1 >> 32) ^ c1 ^ k0) & _LOW, p1, ((p0 >> 32) ^ c3 ^ k1) & _LOW, p0
        k0, k1 = k0 + _W0, k1 + _W1
    return c0, c1 & _LOW, c2, c3 & _LOW


def random_words(keys: Tensor, n: int, start: int = 0) -> Tensor:
    """The 32-bit words ``start .. start + n - 1`` of each stream: int64 ``(*keys.shape, n)`` in [0, 2^32)."""
    first, last = start // 4, -(-(start + n) // 4)
    counters = torch.arange(first, last, device=keys.device)
    blocks = torch.stack(_philox(keys[..., None], counters), dim=-1).flatten(-2)
    return blocks[..., start - 4 * first : start - 4 * first + n]


def step_keys(keys: Tensor, step: Tensor, n: int) -> Tensor:
    """``n`` new stream keys ``(P, n)`` for each of the P streams ``keys``, which is at step number ``step`` ``(P,)``."""
    place = torch.arange(2 * n, device=keys.device) + (2 * n * step + 4)[:, None]
    lanes = torch.stack(_philox(keys[:, None], place // 4), dim=-1)
    drawn = lanes.gather(-1, (place % 4)[..., None])[..., 0]
    return (drawn[:, :n] << 32) | drawn[:, n:]


def uniform(keys: Tensor, n: int, start: int = 0) -> Tensor:
    """``n`` uniform random numbers per stream, float32 ``(*keys.shape, n)`` in [0, 1), with 24 random bits each."""
    return (random_words(keys, n, start) >> 8).to(torch.float32) * 2.0**-24


def integers(keys: Tensor, n: int, high: int, start: int = 0) -> Tensor:
    """``n`` random integers per stream, ``(*keys.shape, n)`` in [0, high). They are random words times high / 2^32, so the bias of each
    probability is below high / 2^32."""
    return (random_words(keys, n, start) * high) >> 32


def normal(keys: Tensor, n: int) -> Tensor:
    """``n`` standard normal numbers per stream, float32 ``(*keys.shape, n)``, by the Box-Muller transform.

    >>> x = normal(torch.tensor([key_of("doc")]), 100_000)
    >>> abs(x.mean().item()) < 0.01, abs(x.std().item() - 1) < 0.01
    (True, True)
    """
    half = -(-n // 2)
    u = uniform(keys, 2 * half)
    radius = torch.sqrt(-2.0 * torch.log1p(-u[..., :half]))
    angle = 2.0 * math.pi * u[..., half:]
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)[..., :n]


def permutations(keys: Tensor, n: int) -> Tensor:
    """A random permutation of ``0 .. n-1`` for each key: int64 ``(*keys.shape, n)``.

    Entries are sorted by random numbers made of two 32-bit words. Equal numbers are very rare; their entries stay in the order of their index.
    """
    pairs = random_words(keys, 2 * n)
    wide = (pairs[..., :n] << 31) ^ pairs[..., n:]
    return torch.argsort(wide, dim=-1, stable=True)
