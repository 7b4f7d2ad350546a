"""Scores: a mean over images with its interval and the settings that it depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from proofmap.results.intervals import NO_LIMITS, Limits, doubles, mean_interval


@dataclass(frozen=True)
class Score:
    """A mean over n images with its 95 % interval, direction and settings. If all n values are equal, both ends are the mean.

    >>> print(Score("soundness", 0.84, 0.80, 0.88, 20, True, {"e2": 0.001}))
    soundness 0.840 [0.800, 0.880], n = 20, higher is better (e2 = 0.001)
    """

    name: str
    value: float
    low: float
    high: float
    n: int
    higher_is_better: bool
    settings: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    """What the score measures, such as ``soundness``, whatever its name is. Tables and pages find scores by it. By default the name."""
    limits: Limits = NO_LIMITS
    """The smallest and the largest possible value of an image. The interval never goes beyond them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self.name)

    def __str__(self) -> str:
        better = "higher" if self.higher_is_better else "lower"
        how = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        return f"{self.name} {self.value:.3f}{self._interval()}, n = {self.n}, {better} is better" + (
            f" ({how})" if how else ""
        )

    def _repr_html_(self) -> str:
        """The score as one line of HTML for notebooks. The settings appear when the mouse is over the line."""
        settings = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        plain = str(replace(self, settings={}))
        return f'<span title="{escape(settings)}"><b>{escape(self.name)}</b>{escape(plain[len(self.name) :])}</span>'

    def _interval(self) -> str:
        if math.isnan(self.low) or self.low == self.high:
            return "" if math.isnan(self.low) else " (equal values)"
        return f" [{self.low:.3f}, {self.high:.3f}]"

    @classmethod
    def unmeasured(
        cls,
        name: str,
        higher_is_better: bool,
        settings: Mapping[str, object] | None = None,
        kind: str = "",
        limits: Limits = NO_LIMITS,
    ) -> Score:
        """A score whose numbers are NaN, with n = 0. :meth:`over` computes them from values."""
        numbers = (math.nan, math.nan, math.nan, 0)
        return cls(name, *numbers, higher_is_better, dict(settings or {}), kind, limits)

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
        return {"score": self.name, **score_numbers(self), "better": direction, "settings": settings}


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


def score_numbers(score: Score, *, n: bool = True) -> dict[str, float]:
    """The numbers of a score, for a record. ``n`` is False for a record that has the number of images elsewhere."""
    numbers = {"value": score.value, "low": score.low, "high": score.high}
    return {**numbers, "n": score.n} if n else numbers


def mean_score(
    name: str,
    values: ArrayLike,
    *,
    higher_is_better: bool,
    kind: str = "",
    limits: Limits = NO_LIMITS,
) -> Score:
    """The :class:`Score` with the mean of ``values`` ``(N,)``, one per image, and its interval inside ``limits``. NaN entries do not count."""
    return Score.unmeasured(name, higher_is_better, kind=kind, limits=limits).over(values)
