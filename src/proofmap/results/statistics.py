"""From per-image values to a number one may quote: a mean with an interval, and all that it depends on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape

import torch
from torch import Tensor


@dataclass(frozen=True)
class Score:
    """A mean over images with its 95 % interval, direction and settings.

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
    """What it measures, whatever it is called: tables and pages go by this. Its name where nothing else is said."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self.name)

    def __str__(self) -> str:
        better = "higher" if self.higher_is_better else "lower"
        how = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        return f"{self.name} {self.value:.3f}{self._interval()}, n = {self.n}, {better} is better" + (
            f" ({how})" if how else ""
        )

    def _repr_html_(self) -> str:
        """One line, the settings when pointed at."""
        settings = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        plain = str(replace(self, settings={}))
        return f'<span title="{escape(settings)}"><b>{escape(self.name)}</b>{escape(plain[len(self.name) :])}</span>'

    def _interval(self) -> str:
        return "" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]"

    def record(self) -> dict[str, object]:
        """The score as plain data."""
        direction = "higher" if self.higher_is_better else "lower"
        numbers = {"value": self.value, "low": self.low, "high": self.high, "n": self.n}
        return {"score": self.name, **numbers, "better": direction, "settings": dict(self.settings)}


@dataclass(frozen=True)
class RunScore:
    """One number about a whole run: what it is about, and over how many images.

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


def bootstrap_interval(
    values: Tensor, *, level: float = 0.95, resamples: int | None = None, seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean of ``(n,)`` values; NaN for fewer than two, which tell no spread.

    Each resample draws n images with replacement; the interval is what the middle ``level`` of their means spans.

    Args:
        resamples: :func:`usual_resamples` of n when left out.
    """
    values = values[~values.isnan()].double().cpu()
    n = len(values)
    if n < 2:
        return (torch.nan, torch.nan)
    resamples = usual_resamples(n) if resamples is None else resamples
    means = [values[drawn].mean(dim=1) for drawn in _draws(n, resamples, seed)]
    return _middle(torch.cat(means), level)


def pooled_interval(values: Tensor, *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The same of the mean over all pairs of ``(N, L)`` values, where each resample draws images with all their labels.

    Labels of one image are not independent of one another, so drawing pairs would promise too much. Places with NaN do
    not count; NaN for fewer than two images that count, and where the mean is infinite.
    """
    values = values.double().cpu()
    sums, counts = values.nansum(dim=1), (~values.isnan()).sum(dim=1)
    sums, counts = sums[counts > 0], counts[counts > 0]
    n = len(sums)
    if n < 2 or not bool(sums.isfinite().all()):
        return (torch.nan, torch.nan)
    draws = _draws(n, usual_resamples(n), seed)
    return _middle(torch.cat([sums[d].sum(dim=1) / counts[d].sum(dim=1) for d in draws]), level)


def _draws(n: int, resamples: int, seed: int) -> Iterator[Tensor]:
    """Indices ``(R, n)`` of resamples of n things, so many at a time that memory holds them."""
    block = max(1, min(resamples, 2_000_000 // n))
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, resamples, block):
        yield torch.randint(n, (min(block, resamples - start), n), generator=generator)


def _middle(means: Tensor, level: float) -> tuple[float, float]:
    """What the middle ``level`` of the means spans."""
    tail = (1 - level) / 2
    low, high = torch.quantile(means, torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return low, high


def usual_resamples(n: int) -> int:
    """How many resamples an interval is made of: 10,000 up to 2,000 images, then fewer, and never below 1,000.

    So it takes 20 million draws at most up to 20,000 images. With 1,000 resamples an end of the interval moves by about
    2 % of its width from seed to seed.

    >>> usual_resamples(50), usual_resamples(2_000), usual_resamples(5_000), usual_resamples(50_000)
    (10000, 10000, 4000, 1000)
    """
    return min(10_000, max(1_000, 20_000_000 // n))


def mean_score(
    name: str,
    values: Tensor,
    *,
    higher_is_better: bool,
    settings: Mapping[str, object] | None = None,
    kind: str = "",
    seed: int = 0,
) -> Score:
    """The mean over images of ``(N,)`` values (NaN: not counted) with its bootstrap interval."""
    counted = values[~values.isnan()].double()
    low, high = bootstrap_interval(values, seed=seed)
    mean = counted.mean().item() if len(counted) else torch.nan
    return Score(name, mean, low, high, len(counted), higher_is_better, dict(settings or {}), kind)
