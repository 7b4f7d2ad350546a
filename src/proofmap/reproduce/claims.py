"""Statements of the paper about several rows of a table, and whether they hold for the results here. A row is a method with its settings.

[settings]
tolerance = 0.07                # how far a cell may be from the paper's

[[settings.trends]]             # a metric rises or falls along rows: contradicted if it goes back by more than chance allows
metric = "completeness, gray"
direction = "falls"
methods = ["TV 0", "TV .001"]

[[settings.orderings]]          # rows are better than others by a metric
says = "our method is more complete than the others"
metric = "completeness"         # a metric with several thresholds makes one claim for each
better = ["Ours"]
than = ["Gradient x Input", "iGOS++"]
margin = 0.0                    # above 0: better, or worse by no more than this
check = true                    # false: reported, but --check does not fail

[[settings.no_gains]]           # another form of a metric improves no row by more than the margin
says = "ties broken by a centered Gaussian do not help"
metric = "insertion, centered ties"
than = "insertion"
methods = ["Phang et al."]
margin = 0.01
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import torch
from torch import Tensor

from proofmap.core.text import counted
from proofmap.reproduce.findings import Claim, PaperTable, verdict_of
from proofmap.reproduce.rows import FLOORS, by_epsilons
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.statistics import fewest_images, mean_intervals
from proofmap.results.tables import cells_of, interval, number, signed


def claims_of(evaluation: Evaluation, settings: Mapping[str, Any]) -> tuple[list[Claim], list[PaperTable]]:
    """The claims of a recipe about an evaluation, and a list with the table of its orderings, if it has any."""
    orderings = orderings_of(evaluation, settings)
    return list(_claims(evaluation, settings, orderings)), [orderings_table(orderings)] if orderings else []


def _claims(
    evaluation: Evaluation, settings: Mapping[str, Any], compared: Sequence[Ordering]
) -> Iterator[Claim]:
    away = _distances(evaluation, settings)
    if away and "tolerance" in settings:
        largest, method, name = max(away)
        here, printed = len({row for _, row, _ in away}), len(settings["paper"])
        n = evaluation[method].score(name).n
        within = False if largest > settings["tolerance"] else True if here == printed else None
        yield Claim(
            f"every cell is within {settings['tolerance']:g} of the paper's",
            within if n >= fewest_images() else None,
            f"the largest difference is {largest:.3f}: {name} of {method}, {_counted(n)}{_lacking(printed - here, 'row')}",
        )
    trends = (_trend(evaluation, **trend) for trend in settings.get("trends", ()))
    yield from (claim for claim in trends if claim is not None)
    yield from (ordering.claim() for ordering in compared)


def _distances(evaluation: Evaluation, settings: Mapping[str, Any]) -> Sequence[tuple[float, str, str]]:
    """The distance of each printed number from the score found here, as (distance, row, metric), for metrics at a single threshold."""
    there = {result.name: result for result in evaluation.results}
    several = by_epsilons(settings)
    return [
        (abs(there[row].score(metric).value - printed), row, metric)
        for row, cells in settings.get("paper", {}).items()
        for metric, printed in cells.items()
        if row in there and metric not in several
    ]


def compared(says: str, differences: Tensor, what: str) -> Claim:
    """The claim ``says``: the mean of the differences ``(N,)``, one for each image, is above zero. With few images the claim is undecided.

    ``what`` is the text before the numbers.
    """
    (pair,) = _measured([Pair("", "", "")], [differences.double()])
    return Claim(says, pair.holds, f"{what} {pair.numbers}, {_counted(pair.n)}")


def _lacking(count: int, what: str) -> str:
    """The end of a sentence that says how many rows or comparisons of a statement are missing.

    >>> _lacking(2, "row"), _lacking(0, "row")
    ('; 2 rows are not here', '')
    """
    return f"; {counted(count, what)} {'is' if count == 1 else 'are'} not here" if count else ""


def _counted(n: int) -> str:
    """The number of images as text. If it is too small for a verdict, the text says so, because the interval alone could suggest one.

    >>> _counted(200), _counted(5)
    ('n = 200', 'n = 5, where fewer than 6 images decide nothing')
    """
    few = f", where fewer than {fewest_images()} images decide nothing" if n < fewest_images() else ""
    return f"n = {n}{few}"


def _trend(evaluation: Evaluation, *, metric: str, direction: str, methods: Sequence[str]) -> Claim | None:
    """The claim that the means of a metric rise, or fall, from row to row; None if fewer than two of the rows were judged.

    The claim is reproduced if every step goes in this direction, and the change from the first to the last row is more than chance allows. It
    is contradicted if a step, or the whole change, goes in the other direction by more than chance allows. Otherwise it is undecided.
    Differences are paired by image.
    """
    there = {r.name: r for r in evaluation.results}
    names = [method for method in methods if method in there]
    if len(names) < 2:
        return None
    sign = 1 if direction == "rises" else -1
    couples = list(dict.fromkeys([*pairwise(names), (names[0], names[-1])]))
    pairs = _measured(
        [Pair(metric, after, before) for before, after in couples],
        [
            sign * (there[after].values[metric] - there[before].values[metric]).double()
            for before, after in couples
        ],
    )
    against = [p for p in pairs if p.holds is False]
    not_on = [p for p in pairs if not p.difference >= 0 or p.n < fewest_images()]  # NaN is no step on
    on = not not_on and pairs[-1].holds
    shown = against or not_on or pairs[-1:]
    falls = ", above 0 where it falls" if sign < 0 else ""
    values = ", ".join(number(there[name].score(metric).value) for name in names)
    return Claim(
        f"{metric} {direction} from {names[0]} to {names[-1]}",
        False if against else True if on else None,
        f"{values}; {_in_words(shown)}{falls}, {_counted(min(p.n for p in shown))}",
    )


def _in_words(pairs: Sequence[Pair]) -> str:
    return "; ".join(str(pair) for pair in pairs[:3])


@dataclass(frozen=True)
class Pair:
    """The mean paired difference of two rows in a metric, with its 95 % interval. Above zero, row ``better`` is better."""

    metric: str
    better: str
    than: str
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    margin: float = 0.0
    paper: float | None = None
    """The difference between the two numbers that the paper prints; None unless it prints both."""

    @property
    def holds(self) -> bool | None:
        """True if the whole interval lies above -margin, False if it lies below, otherwise None; with few images always None."""
        if self.n < fewest_images():
            return None
        return True if self.low > -self.margin else False if self.high < -self.margin else None

    @property
    def verdict(self) -> str:
        return verdict_of(self.holds)

    @property
    def numbers(self) -> str:
        return f"{signed(self.difference)} {interval(self.low, self.high, self.n, signed)}"

    def __str__(self) -> str:
        return f"{self.better} against {self.than} {self.numbers}"


@dataclass(frozen=True)
class Ordering:
    """A statement that some rows are better than others, as pairs of rows. It is reproduced if every pair is, and contradicted if one is.

    ``lacking`` is the number of pairs that were not judged.
    """

    says: str
    pairs: tuple[Pair, ...]
    check: bool = True
    lacking: int = 0

    def claim(self) -> Claim:
        against = [p for p in self.pairs if p.holds is False]
        undecided = [p for p in self.pairs if p.holds is None]
        holds = False if against else None if undecided or self.lacking else True
        shown = against or undecided or [min(self.pairs, key=lambda p: p.low)]
        reproduced = len(self.pairs) - len(against) - len(undecided)
        several = f"{reproduced} of {len(self.pairs)} comparisons; " if len(self.pairs) > 1 else ""
        found = f"{several}{_in_words(shown)}, {_counted(min(p.n for p in shown))}{_lacking(self.lacking, 'comparison')}"
        return Claim(self.says, holds, found, self.check)


def orderings_of(evaluation: Evaluation, settings: Mapping[str, Any]) -> list[Ordering]:
    """The orderings of a recipe, for the rows that were judged. A metric with several thresholds gives one ordering for each."""
    there, several = {r.name: r for r in evaluation.results}, by_epsilons(settings)
    orderings: list[Ordering] = []
    columns: list[Tensor] = []
    for entry in settings.get("orderings", ()):
        couples = [(b, t) for b in entry["better"] for t in entry["than"] if b in there and t in there]
        metrics = several.get(entry["metric"], [entry["metric"]])
        for place, metric in enumerate(metrics if couples else ()):
            at = ""
            if len(metrics) > 1:
                preset, pair = list(settings["epsilons"].items())[place]
                floor = FLOORS[there[couples[0][0]].score(metric).kind]
                at = f", {floor} = {pair[floor]:g} ({preset})"
            pairs = []
            for better, than in couples:
                sign = _sign(there[better], metric)
                columns.append(sign * (there[better].values[metric] - there[than].values[metric]).double())
                paper = _printed(settings, better, than, entry["metric"], sign)
                pairs.append(Pair(metric, better, than, margin=entry.get("margin", 0.0), paper=paper))
            lacking = len(entry["better"]) * len(entry["than"]) - len(couples)
            orderings.append(Ordering(entry["says"] + at, tuple(pairs), entry.get("check", True), lacking))
    measured = iter(_measured([pair for ordering in orderings for pair in ordering.pairs], columns))
    found = [replace(one, pairs=tuple(islice(measured, len(one.pairs)))) for one in orderings]
    return [*found, *_no_gains(evaluation, settings)]


def _no_gains(evaluation: Evaluation, settings: Mapping[str, Any]) -> list[Ordering]:
    """Orderings that compare two forms of a metric on the same row, paired by image. A difference above zero means that the usual form gives
    the better score.
    """
    there, found = {r.name: r for r in evaluation.results}, []
    for entry in settings.get("no_gains", ()):
        metric, usual = entry["metric"], entry["than"]
        rows = [there[name] for name in entry["methods"] if name in there]
        if not rows:
            continue
        pairs = _measured(
            [Pair(usual, row.name, f"{row.name}, {metric}", margin=entry["margin"]) for row in rows],
            [_sign(row, usual) * (row.values[usual] - row.values[metric]).double() for row in rows],
        )
        found.append(Ordering(entry["says"], tuple(pairs), lacking=len(entry["methods"]) - len(rows)))
    return found


def _sign(result: MethodResult, metric: str) -> int:
    """1 if higher values of the metric are better, -1 if lower values are."""
    return 1 if result.score(metric).higher_is_better else -1


def _measured(pairs: Sequence[Pair], differences: Sequence[Tensor]) -> list[Pair]:
    """The pairs with mean, interval and n computed from differences ``(N,)``, which are NaN for images that do not count for both rows."""
    if not pairs:
        return []
    ends = mean_intervals(torch.stack(list(differences), dim=1)).tolist()
    return [
        replace(pair, difference=float(own.nanmean()), low=low, high=high, n=int((~own.isnan()).sum()))
        for pair, own, (low, high) in zip(pairs, differences, ends, strict=True)
    ]


def _printed(settings: Mapping[str, Any], better: str, than: str, metric: str, sign: int) -> float | None:
    """The difference between the numbers that the paper prints for two rows, above zero if row ``better`` is better; None if one is missing."""
    paper = settings.get("paper", {})
    cells = [paper.get(row, {}).get(metric) for row in (better, than)]
    if None in cells:
        return None
    return round(sign * (float(cells[0]) - float(cells[1])), 6) + 0.0  # no -0


def orderings_table(compared: Sequence[Ordering]) -> PaperTable:
    """A table with a line for each pair of rows. A difference above zero means that the paper is right."""
    pairs = list(dict.fromkeys(pair for ordering in compared for pair in ordering.pairs))
    shown = cells_of(
        pairs,
        ("metric", lambda p: p.metric),
        ("better, says the paper", lambda p: p.better),
        ("than", lambda p: p.than),
        ("difference", lambda p: signed(p.difference)),
        ("95 % interval", lambda p: interval(p.low, p.high, p.n, signed)),
        ("the paper's", lambda p: "-" if p.paper is None else signed(p.paper)),
        ("n", lambda p: str(p.n)),
        ("verdict", lambda p: f"margin {p.margin:g}: {p.verdict}" if p.margin else p.verdict),
    )
    records = [
        {
            "score": p.metric,
            "method": p.better,
            "than": p.than,
            "value": p.difference,
            "low": p.low,
            "high": p.high,
            "n": p.n,
            "paper": "" if p.paper is None else p.paper,
            "margin": p.margin,
            "verdict": p.verdict,
        }
        for p in pairs
    ]
    return PaperTable("Orderings: paired differences, above 0 where the paper is right", *shown, records)
