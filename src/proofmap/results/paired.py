"""Two methods on the same images: how likely a mean difference of this size is by chance, and how many images are needed to decide.

Images differ far more than methods, so differences are taken image by image before they are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import torch
from torch import Tensor

_BLOCK = 2_000_000  # numbers drawn at once
_EXACT = 12
"""Up to this many images all sign patterns are tried; for more images, ``resamples`` random ones."""


def sign_flip_p(differences: Tensor, *, resamples: int = 10_000, seed: int = 0) -> Tensor:
    """Two-sided p-values ``(K,)`` for columns of ``(N, K)``: how often a mean at least this far from zero arises by chance.

    If two methods were equally good, each image's difference would have either sign with equal probability. All sign patterns
    are tried for up to 12 images, else the observed one and ``resamples`` random ones. NaN entries do not count.

    >>> sign_flip_p(torch.tensor([[1.0], [2.0], [3.0]]))  # 2 of the 8 patterns
    tensor([0.2500], dtype=torch.float64)
    """
    values = differences.double().cpu()
    nothing = values.isnan().all(dim=0)
    values = values.nan_to_num(0.0)
    observed = values.sum(dim=0).abs() * (1 - 1e-9)  # sums that differ by rounding alone are equal
    n, reached, tried = len(values), values.new_zeros(values.shape[1]), 0
    for signs in _sign_patterns(n, resamples, seed):
        reached += ((signs @ values).abs() >= observed).sum(dim=0)
        tried += len(signs)
    sampled = int(n > _EXACT)
    p: Tensor = (reached + sampled) / (tried + sampled)
    return p.masked_fill(nothing, torch.nan)


def holm(p: Tensor) -> Tensor:
    """p-values ``(K,)`` corrected for their number by Holm's step-down rule; NaN entries do not count.

        corrected_(i) = max over j <= i of min(1, (K - j + 1) p_(j))        with p_(1) <= ... <= p_(K)

    If every line with a corrected p below .05 is called decided, the chance of at least one false call among all lines is at most
    5 %, however the lines depend on one another.

    >>> holm(torch.tensor([0.01, 0.04, 0.03]))
    tensor([0.0300, 0.0600, 0.0600])
    """
    counted = (~p.isnan()).nonzero()[:, 0]
    order = counted[p[counted].argsort(stable=True)]
    times = torch.arange(len(order), 0, -1, device=p.device, dtype=p.dtype)
    corrected = p.clone()
    if len(order):
        corrected[order] = (times * p[order]).clamp_max(1.0).cummax(dim=0).values
    return corrected


def smallest_p(n: int, resamples: int = 10_000) -> float:
    """The smallest p that :func:`sign_flip_p` can give for ``n`` images: two of the 2^n sign patterns are always as extreme.

    >>> smallest_p(5), smallest_p(6)
    (0.0625, 0.03125)
    """
    return min(1.0, 2.0 ** (1 - n)) if n <= _EXACT else max(2.0 ** (1 - n), 1 / (resamples + 1))


def fewest_images(comparisons: int = 1, *, level: float = 0.05) -> int:
    """The fewest images with which a p below ``level``, corrected for this number of comparisons, is possible.

    >>> fewest_images(), fewest_images(10)
    (6, 9)
    """
    n = 1
    while 2.0 ** (1 - n) * comparisons >= level:
        n += 1
    return n


def images_needed(
    difference: float, spread: float, *, comparisons: int = 1, level: float = 0.05, power: float = 0.8
) -> int | None:
    """The number of images needed to tell two methods apart with probability ``power``, if their means differ by ``difference`` and the
    differences of single images have the standard deviation ``spread``; None if no number suffices.

        n = (z_{1 - a/2} + z_power)^2 (spread / difference)^2 + z_{1 - a/2}^2 / 2,      a = level / comparisons

    the usual normal formula with Guenther's term for few images, and never below :func:`fewest_images`.

    >>> images_needed(0.5, 1.0), images_needed(0.05, 1.0), images_needed(0.0, 1.0)
    (34, 3142, None)
    """
    if math.isnan(difference) or math.isnan(spread) or difference == 0:
        return None
    z = NormalDist().inv_cdf(1 - level / comparisons / 2)
    both = z + NormalDist().inv_cdf(power)
    n = (both * spread / difference) ** 2 + z**2 / 2
    return max(math.ceil(n), fewest_images(comparisons, level=level))


def _sign_patterns(n: int, resamples: int, seed: int) -> Iterator[Tensor]:
    """Rows of +1 and -1, ``(R, n)`` at a time."""
    if n <= _EXACT:
        numbers = torch.arange(2**n)[:, None]
        yield 2.0 * ((numbers >> torch.arange(n)) & 1).double() - 1
        return
    generator = torch.Generator().manual_seed(seed)
    block = max(1, min(resamples, _BLOCK // n))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        yield 2.0 * torch.randint(2, (rows, n), generator=generator).double() - 1
