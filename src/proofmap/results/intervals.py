"""The confidence interval of a mean over images. Its coverage is close to the stated level even for few images.

Let m be the mean of n values, s their standard deviation (n - 1 degrees of freedom), g their skewness, and t the quantile of Student's
distribution with n - 1 degrees of freedom. Two well-known intervals have the form m - s / sqrt(n) * h(t) to m - s / sqrt(n) * h(-t):

    Student's    h(t) = t                                                   exact for normal values
    Hall's       h(t) = 3 / a * (cbrt(1 + a (t - a / 6)) - 1),              a = g / sqrt(n)

Hall's interval (1992) corrects for the skewness, but overcorrects if values pile up at both ends. The interval used here lies halfway
between the two. In simulations with 10 or more images it covers the mean in 92 to 99 % of cases, for all shapes of values that scores have.
Bootstrap percentiles need about 50 images for this coverage. docs/results/intervals.md has the table. No random numbers are used, so there
is no seed.

A sample may not show all values that images can have. Suppose that a share q = 1 - ((1 - level) / 2)^(1/n) of all images has values
that the sample does not show: n images miss all of them with probability (1 - level) / 2. A sample is assumed to show all values
within 20 standard deviations of its mean. Values between there and a limit L, the least or greatest possible value, may be missing. The
ends of the interval therefore reach at least

    m - q max(0, m - L - 20 s)      for a lower limit L,        m + q max(0, L - m - 20 s)      for an upper limit L

and no end goes beyond its limit. If 5 images all have the value 1, the lower end is .48; it is about the same if they differ from 1 by a
ten-thousandth. On a side without a limit, or with a limit within 20 s, the end stays as defined above.

The ends are continuous functions of the values. m and s are continuous, and so are minimum and maximum. s h is continuous because h depends
only on g, which is bounded for a given n, so s h goes to 0 with s. Values that differ by rounding therefore have nearly equal intervals.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
Limits = tuple[float, float]
NO_LIMITS: Limits = (-math.inf, math.inf)

_SHOWN = 20
"""A sample is assumed to show all values within this many standard deviations of its mean; docs/results/intervals.md compares other numbers."""
_EQUAL = 1e-12  # values that differ by less than this share of their size differ by rounding: their skewness is noise


def mean_intervals(values: ArrayLike, *, level: float = 0.95, limits: Limits = NO_LIMITS) -> Doubles:
    """Intervals ``(K, 2)`` of the means of the K columns of ``values`` ``(N, K)``, which has one row per image. NaN entries do not count.

    The interval of a column is NaN if fewer than two images count, or if a value is infinite.

    Args:
        values: an array, or a tensor on any device.
        limits: the least and the greatest value that an image can have.

    >>> mean_intervals([[0.1], [0.2], [0.6]]).round(4)
    array([[-0.2618,  1.824 ]])
    >>> mean_intervals([[0.1], [0.2], [0.6]], limits=(0, 1))
    array([[0., 1.]])
    """
    values = doubles(values)
    counted = ~np.isnan(values)
    n = counted.sum(axis=0)
    known = np.where(counted, values, 0.0)
    with np.errstate(all="ignore"):  # columns with too few or infinite values are NaN at the end
        mean = known.sum(axis=0) / n
        away = np.where(counted, values - mean, 0.0)
        farthest = np.abs(away).max(axis=0, initial=0.0)
        shape = away / np.where(farthest == 0, 1.0, farthest)  # squares and cubes of tiny numbers would be 0
        squares = (shape**2).sum(axis=0)
        deviation = farthest * np.sqrt(squares / (n - 1))
        equal = deviation <= _EQUAL * np.abs(known).max(axis=0, initial=0.0)
        skewness = np.where(equal, 0.0, (shape**3).sum(axis=0) / n / np.sqrt(squares / n) ** 3)
        t = np.array([student_quantile((1 + level) / 2, k - 1) for k in n.tolist()])
        error, a = deviation / np.sqrt(n), skewness / np.sqrt(n)
        lower, upper = (mean - error * (h + _hall(h, a)) / 2 for h in (t, -t))
        missed = 1 - ((1 - level) / 2) ** (1 / n)
        down, up = (missed * _hidden_range(mean, limit, deviation) for limit in limits)
        low = np.minimum(np.maximum(np.minimum(lower, mean - down), limits[0]), mean)
        high = np.maximum(np.minimum(np.maximum(upper, mean + up), limits[1]), mean)
        ends = np.stack([low, high], axis=1)
        ends[(n < 2) | ~np.isfinite(mean)] = np.nan
    return ends


def mean_interval(
    values: ArrayLike, *, level: float = 0.95, limits: Limits = NO_LIMITS
) -> tuple[float, float]:
    """The ends of the interval of the mean of ``values`` ``(N,)``, one per image; see :func:`mean_intervals`."""
    low, high = mean_intervals(doubles(values)[:, None], level=level, limits=limits)[0].tolist()
    return low, high


def pooled_interval(values: ArrayLike, *, limits: Limits = NO_LIMITS) -> tuple[float, float]:
    """The ends of the interval of the mean R over all (image, label) pairs, from ``values`` ``(N, L)``. The interval is over images, not
    over pairs.

        R = sum_i s_i / sum_i c_i,      s_i the sum and c_i the number of image i's values that count

    The labels of one image are not independent of one another, so an interval over pairs would be too narrow. The interval of the
    ratio R is computed as that of the mean of R + (s_i - R c_i) / c, where c is the mean of c_i. The two means differ only in
    second order.
    """
    values = doubles(values)
    sums, counts = np.nansum(values, axis=1), (~np.isnan(values)).sum(axis=1)
    sums, counts = sums[counts > 0], counts[counts > 0]
    if not len(counts):
        return math.nan, math.nan
    with np.errstate(invalid="ignore"):  # infinite values
        ratio = sums.sum() / counts.sum()
        return mean_interval(ratio + (sums - ratio * counts) / counts.mean(), limits=limits)


def doubles(values: ArrayLike) -> Doubles:
    """The values as a float64 NumPy array. A tensor may be on any device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, dtype=np.float64)


def _hall(t: Doubles, a: Doubles) -> Doubles:
    """The inverse of Hall's transformation at ``t``: h(t) in the docstring of the module, with ``a`` = g / sqrt(n)."""
    base = 1 + a * (t - a / 6)
    found = 3 / a * (np.sign(base) * np.abs(base) ** (1 / 3) - 1)
    return np.where(np.abs(a) < 1e-6, t - a * (1 / 6 + t**2 / 3), found)


def _hidden_range(mean: Doubles, limit: float, deviation: Doubles) -> Doubles:
    """How far the limit lies outside mean ± 20 standard deviations: the width of the range of values that a sample may miss.

    0 if the limit lies inside, or if there is no limit.
    """
    if math.isinf(limit):
        return np.zeros_like(mean)
    return np.maximum(np.abs(mean - limit) - _SHOWN * deviation, 0.0)


@cache
def student_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's distribution at ``p``, 1/2 < p < 1, with ``freedom`` degrees of freedom; NaN if ``freedom`` is 0.

    It is computed by bisection of the distribution function. Above 1,000 degrees of freedom, an expansion around the normal quantile is used.

    >>> round(student_quantile(0.975, 4), 6), round(student_quantile(0.975, 5_000), 6)
    (2.776445, 1.960439)
    """
    if freedom < 1:
        return math.nan
    if freedom > 1_000:
        z = NormalDist().inv_cdf(p)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < 2 * p - 1:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, freedom) < 2 * p - 1 else (low, middle)
    return (low + high) / 2


def _student_within(t: float, freedom: int) -> float:
    """The probability of [-t, t] under Student's distribution, as a finite sum (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
