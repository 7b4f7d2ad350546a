"""Scores: a mean over images with its interval and the settings that it depends on; and intervals of means.

*Intervals.* Their coverage is close to the stated level even for few images.

Let m be the mean of n values, s their standard deviation (n - 1 degrees of freedom), g their skewness, and t the quantile of Student's
distribution with n - 1 degrees of freedom. Two well-known intervals have the form m - s / sqrt(n) * h(t) to m - s / sqrt(n) * h(-t):

    Student's    h(t) = t                                                   exact for normal values
    Hall's       h(t) = 3 / a * (cbrt(1 + a (t - a / 6)) - 1),              a = g / sqrt(n)

Hall's interval (1992) corrects for the skewness, but overcorrects if values pile up at both ends. The interval used here lies halfway
between the two, cut at the least and the greatest possible value. It is the same rule for scores and for paired differences. Its width is
proportional to the spread of the values, so that more spread never makes a shorter interval. In simulations with 10 or more images it covers
the mean in 92 to 98 % of cases, for the usual shapes of scores. notes/intervals.md has the table. No random numbers are used, so there
is no seed.

Values that are all equal show no spread. Their interval has width zero, and tables print *n equal values* in its place: n images miss a share of
up to 1 - .025^(1/n) of images with other values with a probability of 2.5 % (about 3 / n), which no formula can see in the values. The same holds for
values that are equal up to rare exceptions which the sample does not contain.

The ends are continuous functions of the values: s h is continuous because h depends only on g, which is bounded for a given n, so s h goes to
0 with s. Values that differ by rounding therefore have nearly equal intervals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
Limits = tuple[float, float]
NO_LIMITS: Limits = (-math.inf, math.inf)

_EQUAL = 1e-6  # values that differ by less than this share of their size differ by the rounding of float32


@dataclass(frozen=True)
class Score:
    """A mean over n images with its 95 % interval, direction and settings. If all n values are equal, both ends are the mean.
    Without numbers, it is a score to be computed by :meth:`over`.

    >>> print(Score("soundness", 0.84, 0.80, 0.88, 20, True, {"e2": 0.001}))
    soundness 0.840 [0.800, 0.880], n = 20, higher is better (e2 = 0.001)
    """

    name: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    higher_is_better: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    """What the score measures, such as ``soundness``, whatever its name is. Tables and pages find scores by it. By default the name."""
    limits: Limits = NO_LIMITS
    """The smallest and the largest possible value of an image. The interval never goes beyond them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self.name)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        better = "higher" if self.higher_is_better else "lower"
        how = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        ends = "" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]"
        ends = " (equal values)" if self.low == self.high else ends
        settings = f" ({how})" if how else ""
        return f"{self.name} {self.value:.3f}{ends}, n = {self.n}, {better} is better{settings}"

    @property
    def fill(self) -> str:
        """The name of the score's fill, with its settings if the score's name has them: ``blur:sigma=3``. Empty if the score uses no fill."""
        fill = str(self.settings.get("fill", ""))
        titled = re.search(r" \((.+)\)$", self.name)
        return titled[1] if fill and titled and titled[1].startswith(fill) else fill

    def over(self, values: ArrayLike) -> Score:
        """The same score with mean, interval and n computed from ``values`` ``(N,)``, an array or a tensor. NaN entries do not count."""
        counted = doubles(values)
        counted = counted[~np.isnan(counted)]
        low, high = mean_interval(counted, limits=self.limits)
        mean = float(counted.mean()) if len(counted) else math.nan
        return replace(self, value=mean, low=low, high=high, n=len(counted))

    def record(self) -> dict[str, object]:
        """The score as plain data."""
        direction = "higher" if self.higher_is_better else "lower"
        settings = dict(self.settings)
        return {"metric": self.name, **self.numbers(), "better": direction, "settings": settings}

    def numbers(self, *, n: bool = True) -> dict[str, float]:
        """The numbers of a score, for a record. ``n`` is False for a record that has the number of images elsewhere."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {**numbers, "n": self.n} if n else numbers


@dataclass(frozen=True)
class RunScore:
    """One number about a run as a whole. ``subject`` says what it is about, such as a metric; ``n`` is the number of images.

    >>> print(RunScore("ranking-agreement", "soundness", 0.731, 20, True))
    ranking-agreement of soundness 0.731, n = 20, higher is better
    """

    name: str
    subject: str
    value: float
    n: int
    higher_is_better: bool
    settings: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""

    def __str__(self) -> str:
        better = "higher" if self.higher_is_better else "lower"
        return f"{self.name} of {self.subject} {self.value:.3f}, n = {self.n}, {better} is better"

    def record(self) -> dict[str, object]:
        """The number as plain data."""
        return {**asdict(self), "settings": dict(self.settings)}


def mean_intervals(values: ArrayLike, *, level: float = 0.95, limits: Limits = NO_LIMITS) -> Doubles:
    """Intervals ``(K, 2)`` of the means of the K columns of ``values`` ``(N, K)``, which has one row per image. NaN entries do not count.

    The interval of a column is NaN if fewer than two images count, or if a value is infinite. If all values are equal, both ends are the mean.

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
        most, least = (
            np.where(counted, sign * values, -np.inf).max(axis=0, initial=-np.inf) for sign in (1, -1)
        )
        equal = most + least <= _EQUAL * np.maximum(np.abs(most), np.abs(least))
        skewness = np.where(equal, 0.0, (shape**3).sum(axis=0) / n / np.sqrt(squares / n) ** 3)
        t = np.array([student_quantile((1 + level) / 2, k - 1) for k in n.tolist()])
        error, a = np.where(equal, 0.0, deviation) / np.sqrt(n), skewness / np.sqrt(n)
        lower, upper = (mean - error * (h + _hall(h, a)) / 2 for h in (t, -t))
        low = np.minimum(np.maximum(lower, limits[0]), mean)
        high = np.maximum(np.minimum(upper, limits[1]), mean)
        ends = np.stack([low, high], axis=1)
        ends[(n < 2) | ~np.isfinite(mean)] = np.nan
    return ends


def mean_interval(
    values: ArrayLike, *, level: float = 0.95, limits: Limits = NO_LIMITS
) -> tuple[float, float]:
    """The ends of the interval of the mean of ``values`` ``(N,)``, one per image; see :func:`mean_intervals`."""
    low, high = mean_intervals(doubles(values)[:, None], level=level, limits=limits)[0].tolist()
    return low, high


def doubles(values: ArrayLike) -> Doubles:
    """The values as a float64 NumPy array. A tensor may be on any device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, dtype=np.float64)


def _hall(t: Doubles, a: Doubles) -> Doubles:
    """The inverse of Hall's transformation at ``t``: h(t) in the docstring of the module, with ``a`` = g / sqrt(n)."""
    base = 1 + a * (t - a / 6)
    found = 3 / a * (np.sign(base) * np.abs(base) ** (1 / 3) - 1)
    return np.where(np.abs(a) < 1e-6, t - a * (1 / 6 + t**2 / 3), found)


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


def fewest_images(comparisons: int = 1, *, level: float = 0.05) -> int:
    """The fewest images with which a p-value below ``level`` is possible after correction for ``comparisons`` comparisons.

    >>> fewest_images(), fewest_images(10)
    (6, 9)
    """
    return (
        math.floor(1 - math.log2(level / comparisons)) + 1
    )  # the first n with 2^(1 - n) comparisons < level
