"""Split conformal bounds: a bound that a further image meets with probability at least 95 %, and the share of a holdout that met it.

For n images that are exchangeable with the next one (drawn in the same way), the k-th smallest of n values,
k = ceil((n + 1) level), is not exceeded by the next value with probability at least ``level``, whatever the values are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.metrics.metric import METRICS, RunMetric, RunValue, RunValues
from proofmap.plugins.settings import setting

REFERENCE = "Vovk et al. 2005; Lei et al. 2018 (split conformal)"


@dataclass(frozen=True, kw_only=True)
class Conformal(RunMetric):
    """Base class of the two conformal metrics. The settings are the level and the score that the bound is about."""

    reference = REFERENCE
    level: float = setting(
        0.95,
        "least probability that a further image meets the bound; larger gives a weaker bound",
        above=0,
        most=0.9999,
    )
    score: str = setting(
        "proof-size", "the score that the bound is about; all scores if the run does not have this one"
    )

    def _values(self, run: RunValues) -> Iterator[tuple[str, Tensor, bool]]:
        """For each method and score: a name for the pair, the values without NaN, and whether higher is better."""
        known = list(run.higher_is_better)
        chosen = [self.score] if self.score in known else known
        for method, scores in run.values.items():
            for name in chosen:
                if name in scores:
                    values = scores[name].double().cpu()
                    yield f"{name} of {method}", values[~values.isnan()], run.higher_is_better[name]


@METRICS.register
class ConformalBound(Conformal):
    """The bound that a further image of this kind meets with probability at least ``level``.

    It is an upper bound if lower is better (for ``proof-size``: showing this share of the pixels keeps the label), and a lower
    bound if higher is better. NaN with fewer than level / (1 - level) images: 19 for 95 %. The guarantee holds on average over
    calibration sets and images of the same kind. It says nothing about a single image, or about images of another kind.
    """

    name = "conformal-bound"
    higher_is_better = False
    description = (
        "a value that at least 95 % of such images keep to: of proof-size, the share of pixels that is enough"
    )

    def over_run(self, run: RunValues) -> Sequence[RunValue]:
        return [
            RunValue(f"{subject} at {self.level:g}", bound(values, self.level, higher), len(values))
            for subject, values, higher in self._values(run)
        ]


@METRICS.register
class ConformalCoverage(Conformal):
    """The share of images that meet the bound if it is computed on the other half of the images; the mean over ``splits`` random halves.

    A check of ``conformal-bound`` on the run itself: the value is near the level or above it if all images were drawn in the same way.
    """

    name = "conformal-coverage"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = "share of a holdout that keeps to the conformal bound of the other images"
    splits: int = setting(200, "number of random halves to average over", least=1)
    seed: int = setting(0, "seed for the random halves")

    def over_run(self, run: RunValues) -> Sequence[RunValue]:
        return [
            RunValue(f"{subject} at {self.level:g}", self._coverage(values, higher), len(values))
            for subject, values, higher in self._values(run)
        ]

    def _coverage(self, values: Tensor, higher_is_better: bool) -> float:
        n, half = len(values), len(values) // 2
        if half == 0 or math.isnan(bound(values[:half], self.level, higher_is_better)):
            return math.nan
        keys = torch.tensor([streams.key_of(self.seed, "conformal", r) for r in range(self.splits)])
        inside = []
        for order in streams.permutations(keys, n):
            limit = bound(values[order[:half]], self.level, higher_is_better)
            held = values[order[half:]]
            inside.append((held >= limit if higher_is_better else held <= limit).double().mean())
        return float(torch.stack(inside).mean())


def bound(values: Tensor, level: float, higher_is_better: bool) -> float:
    """The conformal bound of ``(n,)`` values: a lower bound if higher is better, else an upper bound; NaN if n is too small.

    >>> bound(torch.arange(1.0, 20.0), 0.95, False), bound(torch.arange(1.0, 20.0), 0.95, True)
    (19.0, 1.0)
    """
    n = len(values)
    k = math.ceil((n + 1) * level - 1e-9)
    if n == 0 or k > n:
        return math.nan
    return float(values.sort(descending=higher_is_better).values[k - 1])
