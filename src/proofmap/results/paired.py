"""Tests for two methods on the same images: how likely a mean difference is by chance, and how many images are needed to decide.

Images differ far more than methods, so differences are taken image by image before they are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofmap.results.intervals import Doubles, doubles

_BLOCK = 2_000_000  # numbers drawn at once
_EXACT = 12
"""Up to this many images, all sign patterns are tried. For more images, ``resamples`` random patterns are tried."""


@np.errstate(over="ignore", invalid="ignore")  # sums of infinite values
def sign_flip_p(differences: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Doubles:
    """Two-sided p-values ``(K,)`` of the sign-flip test, one for each column of ``differences`` ``(N, K)``.

    A p-value is the share of sign patterns with which the mean is at least as far from zero as the observed mean. If two methods were
    equally good, each image's difference would have either sign with equal probability. For up to 12 images, all sign patterns are tried;
    for more, the observed one and ``resamples`` random ones. NaN entries do not count.

    >>> sign_flip_p([[1.0], [2.0], [3.0]])  # 2 of the 8 patterns
    array([0.25])
    """
    values = doubles(differences)
    nothing = np.isnan(values).all(axis=0)
    values = np.nan_to_num(values, nan=0.0)
    observed = np.abs(values.sum(axis=0)) * (1 - 1e-9)  # sums that differ by rounding alone are equal
    n, reached, tried = len(values), np.zeros(values.shape[1]), 0
    for signs in _sign_patterns(n, resamples, seed):
        reached += (np.abs(signs @ values) >= observed).sum(axis=0)
        tried += len(signs)
    sampled = int(n > _EXACT)
    return np.where(nothing, np.nan, (reached + sampled) / (tried + sampled))


def holm(p: ArrayLike) -> Doubles:
    """The p-values ``(K,)`` corrected for multiple comparisons by Holm's step-down rule. NaN entries stay NaN and do not count.

        corrected_(i) = max over j <= i of min(1, (K - j + 1) p_(j))        with p_(1) <= ... <= p_(K)

    If every comparison with a corrected p below .05 is called decided, the probability of at least one false call among all comparisons is
    at most 5 %, however the comparisons depend on one another.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    corrected = doubles(p).copy()
    counted = np.flatnonzero(~np.isnan(corrected))
    order = counted[corrected[counted].argsort(kind="stable")]
    times = np.arange(len(order), 0, -1)
    corrected[order] = np.maximum.accumulate(np.minimum(times * corrected[order], 1.0))
    return corrected


def smallest_p(n: int, resamples: int = 10_000) -> float:
    """The smallest p-value that :func:`sign_flip_p` can give for ``n`` images. Two of the 2^n sign patterns are always as extreme as the data:
    the observed one and its opposite.

    >>> smallest_p(5), smallest_p(6)
    (0.0625, 0.03125)
    """
    return min(1.0, 2.0 ** (1 - n)) if n <= _EXACT else max(2.0 ** (1 - n), 1 / (resamples + 1))


def fewest_images(comparisons: int = 1, *, level: float = 0.05) -> int:
    """The fewest images with which a p-value below ``level`` is possible after correction for ``comparisons`` comparisons.

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
    """The number of images needed to tell two methods apart with probability ``power``; None if no number is enough.

    The methods' means differ by ``difference``, and the differences on single images have the standard deviation ``spread``.

        n = (z_{1 - a/2} + z_power)^2 (spread / difference)^2 + z_{1 - a/2}^2 / 2,      a = level / comparisons

    z_p is the normal quantile at p. This is the usual normal formula with Guenther's term for few images. The result is never below
    :func:`fewest_images`.

    >>> images_needed(0.5, 1.0), images_needed(0.05, 1.0), images_needed(0.0, 1.0)
    (34, 3142, None)
    """
    if math.isnan(difference) or math.isnan(spread) or difference == 0:
        return None
    z = NormalDist().inv_cdf(1 - level / comparisons / 2)
    both = z + NormalDist().inv_cdf(power)
    n = (both * spread / difference) ** 2 + z**2 / 2
    return max(math.ceil(n), fewest_images(comparisons, level=level))


def _sign_patterns(n: int, resamples: int, seed: int) -> Iterator[Doubles]:
    """Blocks ``(R, n)`` of sign patterns, one row of +1 and -1 per pattern. Random signs are the lowest bits of a Mersenne Twister, as in
    ``torch.randint(2, ...)``."""
    if n <= _EXACT:
        numbers = np.arange(2**n)[:, None]
        yield 2.0 * doubles((numbers >> np.arange(n)) & 1) - 1
        return
    generator = np.random.RandomState(seed & 0xFFFFFFFF)
    block = max(1, min(resamples, _BLOCK // n))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        words: NDArray[np.uint32] = generator.randint(0, 2**32, (rows, n), dtype=np.uint32)
        yield 2.0 * doubles(words & 1) - 1
