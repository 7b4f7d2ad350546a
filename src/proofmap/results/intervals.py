"""The interval of a mean over images. Its coverage is close to the stated level also for few images.

Of n values with the mean m, the standard deviation s (n - 1 degrees of freedom) and the skewness g, let t be the quantile of
Student's distribution with n - 1 degrees of freedom. Two intervals are known, m - s / sqrt(n) * h(t) to m - s / sqrt(n) * h(-t):

    Student's    h(t) = t                                                   exact for normal values
    Hall's       h(t) = 3 / a * (cbrt(1 + a (t - a / 6)) - 1),              a = g / sqrt(n)

Hall's (1992) removes the skewness, but overcorrects if values pile up at both ends. The interval used here lies halfway between the two. In simulations that covers between 92 and 99 % for all shapes of values that scores have from 10 images on; the bootstrap's
percentiles from some 50 on. docs/results/intervals.md has the table. Nothing is drawn, so there is no seed.

A sample may not show all values. If a share q = 1 - ((1 - level) / 2)^(1/n) of all images had values that the sample
does not show, n images would miss them with probability (1 - level) / 2. A sample shows what values are like within 20 standard
deviations of its mean; what a limit L allows beyond that is hidden. The ends therefore also reach at least

    m - q max(0, m - L - 20 s)      for a lower limit L,        m + q max(0, L - m - 20 s)      for an upper one

and no end goes beyond its limit. If 5 images all have the value 1, the lower end is .48; the same if they differ from 1 by a
ten-thousandth.
A side where the limit is within 20 s, or that has no limit, keeps the ends above.

The ends are continuous in the values: m and s are, s h is (h depends on g alone, which is bounded for a given n, so s h goes to 0 with s),
and so are minimum and maximum. Values that differ by rounding have intervals that differ by about as little.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import torch
from torch import Tensor

Limits = tuple[float, float]
NO_LIMITS: Limits = (-math.inf, math.inf)

_SHOWN = 20
"""A sample shows what values are like within this many standard deviations of its mean; docs/results/intervals.md compares others."""
_EQUAL = 1e-12  # values that differ by less than this share of their size differ by rounding: their skewness is noise


def mean_intervals(values: Tensor, *, level: float = 0.95, limits: Limits = NO_LIMITS) -> Tensor:
    """Intervals ``(K, 2)`` of the means of K columns of ``(N, K)`` values, one row per image; NaN entries do not count.

    NaN for a column that counts fewer than two images, or infinite values.

    Args:
        limits: the least and the greatest value that an image can have.

    >>> mean_intervals(torch.tensor([[0.1], [0.2], [0.6]]))
    tensor([[-0.2618,  1.8240]], dtype=torch.float64)
    >>> mean_intervals(torch.tensor([[0.1], [0.2], [0.6]]), limits=(0, 1))
    tensor([[0., 1.]], dtype=torch.float64)
    """
    values = values.double().cpu()
    counted = ~values.isnan()
    n = counted.sum(dim=0)
    mean = values.nanmean(dim=0)
    away = (values - mean).masked_fill(~counted, 0.0)
    farthest = away.abs().amax(dim=0) if len(values) else mean
    shape = away / farthest.masked_fill(farthest == 0, 1.0)  # squares and cubes of tiny numbers would be 0
    deviation = farthest * (shape.square().sum(dim=0) / (n - 1)).sqrt()
    size = values.nan_to_num(0.0).abs().amax(dim=0) if len(values) else mean
    equal = deviation <= _EQUAL * size
    population = (shape.square().sum(dim=0) / n).sqrt()
    skewness = (shape.pow(3).sum(dim=0) / n / population.pow(3)).masked_fill(equal, 0.0)
    t = torch.tensor([student_quantile((1 + level) / 2, k - 1) for k in n.tolist()], dtype=torch.float64)
    error, a = deviation / n.sqrt(), skewness / n.sqrt()
    ends = [mean - error * (h + _hall(h, a)) / 2 for h in (t, -t)]
    missed = 1 - ((1 - level) / 2) ** (1 / n)
    down, up = (missed * _hidden(mean, limit, deviation) for limit in limits)
    low = ends[0].minimum(mean - down).clamp_min(limits[0]).minimum(mean)
    high = ends[1].maximum(mean + up).clamp_max(limits[1]).maximum(mean)
    known = (n >= 2) & mean.isfinite()
    return torch.stack([low, high], dim=1).masked_fill(~known[:, None], torch.nan)


def mean_interval(values: Tensor, *, level: float = 0.95, limits: Limits = NO_LIMITS) -> tuple[float, float]:
    """The same of one column ``(N,)``."""
    low, high = mean_intervals(values[:, None], level=level, limits=limits)[0].tolist()
    return low, high


def pooled_interval(
    values: Tensor, *, level: float = 0.95, limits: Limits = NO_LIMITS
) -> tuple[float, float]:
    """The same of the mean R over all pairs of ``(N, L)`` values, where images are drawn with all their labels.

        R = sum_i s_i / sum_i c_i,      s_i the sum and c_i the number of image i's values that count

    Labels of one image are not independent of one another, so counting pairs would promise too much. A ratio is treated as
    the mean of R + (s_i - R c_i) / c, c the mean of c_i, which differs from it in the second order.
    """
    values = values.double().cpu()
    sums, counts = values.nansum(dim=1), (~values.isnan()).sum(dim=1)
    sums, counts = sums[counts > 0], counts[counts > 0].double()
    ratio = sums.sum() / counts.sum()
    return mean_interval(ratio + (sums - ratio * counts) / counts.mean(), level=level, limits=limits)


def _hall(t: Tensor, a: Tensor) -> Tensor:
    """Where Hall's transformed statistic has the value t."""
    base = 1 + a * (t - a / 6)
    found = 3 / a * (base.sign() * base.abs().pow(1 / 3) - 1)
    return torch.where(a.abs() < 1e-6, t - a * (1 / 6 + t.square() / 3), found)


def _hidden(mean: Tensor, limit: float, deviation: Tensor) -> Tensor:
    """How far values can lie beyond what the sample shows; 0 on a side without a limit, where nothing is known."""
    if math.isinf(limit):
        return torch.zeros_like(mean)
    return ((mean - limit).abs() - _SHOWN * deviation).clamp_min(0.0)


@cache
def student_quantile(p: float, freedom: int) -> float:
    """The point below which Student's distribution has the probability p, 1/2 < p < 1; NaN without a degree of freedom.

    By bisection of its distribution function, or beyond 1,000 degrees of freedom by the expansion around the normal one.

    >>> round(student_quantile(0.975, 4), 6), round(student_quantile(0.975, 5_000), 6)
    (2.776445, 1.960439)
    """
    if freedom < 1:
        return math.nan
    if freedom > 1_000:
        z = NormalDist().inv_cdf(p)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    low, high = 0.0, 1.0
    while _between(high, freedom) < 2 * p - 1:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _between(middle, freedom) < 2 * p - 1 else (low, middle)
    return (low + high) / 2


def _between(t: float, freedom: int) -> float:
    """The probability that Student's distribution gives to [-t, t]: a finite sum (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
