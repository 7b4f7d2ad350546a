"""How reliable are the metrics of a run, and which method ranks first over all metrics? Tables for any methods and metrics.

:mod:`proofmap.metrics.reliability` defines the numbers. Intervals come from the jackknife over images: each number is computed again with
one image left out, for every image. With more than a hundred images, one of a hundred groups of images is left out at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, permutations

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.metrics.metric import RunValues
from proofmap.metrics.reliability import (
    concordance,
    images_by_methods,
    inter_rater,
    mean_correlation,
    shared_scores,
    two_scores,
)
from proofmap.metrics.similarity import mean_ranks
from proofmap.results import tables
from proofmap.results.evaluation import Results, evaluation_of
from proofmap.results.tables import Cells, Tables

RELIABLE = 0.65
"""The inter-rater alpha from which on Tomsett et al. call a metric reliable."""
_GROUPS = 100


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval: ``what`` was computed for ``subject`` (a metric, a pair of metrics, or methods)."""

    what: str
    subject: str
    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        ends = "" if math.isnan(self.low) else f" [{tables.number(self.low)}, {tables.number(self.high)}]"
        return tables.number(self.value) + ends


@dataclass(frozen=True)
class Reliability(Tables):
    """The reliability of a run's metrics, and the ranking of its methods. Prints as four tables.

    Attributes:
        metrics: ``inter-rater`` (alpha), ``kendall-w`` and ``inter-method`` of each metric.
        consistency: ``internal-consistency`` of each pair of metrics.
        ranks: ``rank`` of each method: its mean rank over images and metrics, where 1 is the best (Borda's rule). ``rank by METRIC`` is
            the mean rank for one metric.
        wins: ``wins`` of ``A over B``: the share of images on which method A is better than method B, averaged over the metrics; a tie
            counts as half. ``wins by METRIC`` is the share for one metric.
        agreement: Kendall's W between the metrics. Each metric orders the methods by their mean ranks.
    """

    methods: tuple[str, ...]
    scores: tuple[str, ...]
    metrics: tuple[Number, ...]
    consistency: tuple[Number, ...]
    ranks: tuple[Number, ...]
    wins: tuple[Number, ...]
    agreement: float
    notes: tuple[str, ...]

    def find(self, what: str, subject: str) -> Number:
        for number in (*self.metrics, *self.consistency, *self.ranks, *self.wins):
            if (number.what, number.subject) == (what, subject):
                return number
        raise InputError(f"there is no {what} of {subject!r}")

    @property
    def order(self) -> tuple[str, ...]:
        """The methods, best first, by mean rank."""
        return tuple(sorted(self.methods, key=lambda m: (self.find("rank", m).value, self.methods.index(m))))

    def tables(self) -> list[Cells]:
        """Header and rows of four tables: metrics, pairs of metrics, ranks of methods, and wins of one method over another."""
        columns = ("inter-rater", "kendall-w", "inter-method")
        by_metric = [
            [name, *(str(self.find(what, name)) for what in columns), str(self.find(columns[0], name).n)]
            for name in self.scores
        ]
        pairs = [[number.subject, str(number), str(number.n)] for number in self.consistency]
        by_method = [
            [
                m,
                str(self.find("rank", m)),
                *(tables.number(self.find(f"rank by {s}", m).value) for s in self.scores),
            ]
            for m in self.order
        ]
        duels = [
            [a, *("" if a == b else str(self.find("wins", f"{a} over {b}")) for b in self.order)]
            for a in self.order
        ]
        return [
            (["metric", "inter-rater alpha", "Kendall's W", "inter-method", "n"], by_metric),
            *([(["two metrics", "internal consistency", "n"], pairs)] if pairs else []),
            (["method", "mean rank", *(f"by {name}" for name in self.scores)], by_method),
            (["wins over", *self.order], duels),
        ]

    def records(self) -> list[dict[str, object]]:
        numbers = (*self.metrics, *self.consistency, *self.ranks, *self.wins)
        return [asdict(number) for number in numbers]

    def record(self) -> dict[str, object]:
        found = {"order": self.order, "agreement": self.agreement, "numbers": self.records()}
        return {**found, "notes": self.notes}


def reliability(
    results: Results, *, methods: Sequence[str] | None = None, metrics: Sequence[str] | None = None
) -> Reliability:
    """The reliability of an evaluation's metrics, and the ranking of its methods. By default all methods and metrics are used."""
    evaluation = evaluation_of(results)
    chosen = evaluation.results if methods is None else [evaluation[name] for name in methods]
    names = tuple(dict.fromkeys(result.name for result in chosen))
    if len(names) < 2:
        raise InputError(
            "reliability needs two methods or more, which images can rank; judge another method, too"
        )
    higher = {score.name: score.higher_is_better for score in evaluation.results[0].scores}
    for name in metrics or ():
        if name not in higher:
            raise InputError(f"the run was not judged by {name!r}; there are {', '.join(higher)}")
    kept = {name: better for name, better in higher.items() if metrics is None or name in metrics}
    run = RunValues({name: evaluation[name].values for name in names}, kept)
    scores = tuple(shared_scores(run))
    if not scores:
        raise InputError("the methods share no metric")
    by_score = {name: images_by_methods(run, name) for name in scores}
    ranks, by_metric = _ranks(names, by_score)
    return Reliability(
        names,
        scores,
        tuple(_metric_numbers(by_score)),
        tuple(_consistency(run, scores)),
        tuple(ranks),
        tuple(_wins(names, by_score)),
        concordance(by_metric),
        tuple(_notes(names, by_score, concordance(by_metric))),
    )


def jackknife(statistic: Callable[[Tensor], float], table: Tensor) -> tuple[float, float, float]:
    """The statistic of a table ``(n, ...)`` with one row per image, and the ends of its 95 % interval, value -+ 1.96 sd, where

        sd^2 = (G - 1) / G  sum over g of (v_g - mean of all v_g)^2,        v_g = the statistic without group g of G groups

    Up to a hundred images, each image is a group; with more, group g has every hundredth image. The ends are NaN if there are fewer than
    three groups, or if the statistic cannot be computed without a group.
    """
    value, groups = statistic(table), min(len(table), _GROUPS)
    if groups < 3 or math.isnan(value):
        return value, math.nan, math.nan
    group = torch.arange(len(table)) % groups
    without = torch.tensor([statistic(table[group != g]) for g in range(groups)], dtype=torch.float64)
    spread = 1.96 * math.sqrt((groups - 1) * float(without.var(correction=0)))
    return value, value - spread, value + spread


def _number(what: str, subject: str, statistic: Callable[[Tensor], float], table: Tensor) -> Number:
    """The statistic, a correlation or a probability, with its jackknife interval clipped to the possible range."""
    value, low, high = jackknife(statistic, table)
    least = 0.0 if statistic in (_mean, concordance) else -1.0
    if not math.isnan(low):
        low, high = max(low, least), min(high, 1.0)
    return Number(what, subject, value, low, high, len(table))


def _metric_numbers(by_score: dict[str, Tensor]) -> list[Number]:
    asked = {"inter-rater": inter_rater, "kendall-w": concordance, "inter-method": mean_correlation}
    return [
        _number(what, name, statistic, table)
        for name, table in by_score.items()
        for what, statistic in asked.items()
    ]


def _consistency(run: RunValues, scores: Sequence[str]) -> list[Number]:
    found = []
    for a, b in combinations(scores, 2):
        each = [two_scores(values, a, b, run) for values in run.values.values()]
        if len({len(table) for table in each}) == 1:  # all methods count the same images: drop them together
            stacked = torch.stack(each, dim=1)
            found.append(_number("internal-consistency", f"{a} and {b}", _mean_over_methods, stacked))
        else:
            value = float(torch.tensor([mean_correlation(t) for t in each], dtype=torch.float64).nanmean())
            n = min(map(len, each))
            found.append(Number("internal-consistency", f"{a} and {b}", value, math.nan, math.nan, n))
    return found


def _mean_over_methods(table: Tensor) -> float:
    """The correlation between two scores, averaged over methods, from a table ``(n, methods, 2)``."""
    each = [mean_correlation(table[:, k]) for k in range(table.shape[1])]
    return float(torch.tensor(each, dtype=torch.float64).nanmean())


def _ranks(names: Sequence[str], by_score: dict[str, Tensor]) -> tuple[list[Number], Tensor]:
    """Two results: the mean ranks of each method (1 is the best), over all metrics and by each metric; and the ranks by each metric
    as a table ``(metrics, methods)``, negated so that larger is better."""
    ranked = {score: mean_ranks(-table) for score, table in by_score.items()}
    found = []
    for k, method in enumerate(names):
        each = [
            Number(f"rank by {score}", method, *jackknife(_mean, table[:, k]), len(table))
            for score, table in ranked.items()
        ]
        counts = [number for number in each if number.n]
        value = sum(number.value for number in counts) / len(counts) if counts else math.nan
        found += [_overall("rank", method, value, [table[:, k] for table in ranked.values()]), *each]
    rows = [table.mean(dim=0) for table in ranked.values() if len(table)]
    return found, -torch.stack(rows) if rows else torch.zeros(0, len(names))


def _wins(names: Sequence[str], by_score: dict[str, Tensor]) -> list[Number]:
    found = []
    for (i, a), (j, b) in permutations(enumerate(names), 2):
        won = [_won(table[:, i], table[:, j]) for table in by_score.values()]
        means = [float(w.mean()) for w in won if len(w)]
        value = sum(means) / len(means) if means else math.nan
        found.append(_overall("wins", f"{a} over {b}", value, won))
        found += [
            _number(f"wins by {score}", f"{a} over {b}", _mean, w)
            for score, w in zip(by_score, won, strict=True)
        ]
    return found


def _won(a: Tensor, b: Tensor) -> Tensor:
    return (a > b).double() + 0.5 * (a == b).double()


def _overall(what: str, subject: str, value: float, columns: Sequence[Tensor]) -> Number:
    """The mean over metrics, from one column ``(n,)`` per metric. It has an interval only if all columns have the same number of images,
    because the jackknife drops an image from all columns at once. Otherwise ``value`` is used as the mean.
    """
    n = min(map(len, columns))
    if n == max(map(len, columns)):
        return Number(what, subject, *jackknife(_mean, torch.stack(list(columns), dim=1)), n)
    return Number(what, subject, value, math.nan, math.nan, n)


def _mean(table: Tensor) -> float:
    return float(table.mean()) if len(table) else math.nan


def _notes(names: Sequence[str], by_score: dict[str, Tensor], agreement: float) -> list[str]:
    alphas = {score: inter_rater(table) for score, table in by_score.items()}
    low = [score for score, alpha in alphas.items() if not alpha >= RELIABLE]
    notes = [
        f"{counted(len(names), 'method')}, {counted(len(by_score), 'metric')}; 95 % jackknife intervals over images; rank 1 is the best; "
        "wins: the probability that the method of the row is better on an image, over the metrics"
    ]
    if not math.isnan(agreement):
        notes.append(
            f"the metrics agree on the order of the methods with Kendall's W = {tables.number(agreement)}"
        )
    if low:
        notes.append(
            f"images do not rank the methods alike by {', '.join(low)} (alpha below {tables.number(RELIABLE)}): a single image says little; "
            "quote means over many images, with intervals"
        )
    return notes
