"""The Pareto frontier of methods or settings: the methods that no other method dominates.

Settings trade completeness against soundness, so there is rarely a best one. Method A dominates method B if A's means, over the images that
both count, are at least as good as B's in all scores and better in one. B is *clearly* dominated if one of these advantages is statistically
decided (:mod:`proofmap.results.compare`). The frontier does not say which of its methods to take: that is a choice, not a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.results.compare import Comparison, compare
from proofmap.results.evaluation import Results, evaluation_of
from proofmap.results.notes import subject_words
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS
from proofmap.results.tables import Cells, Table


@dataclass(frozen=True)
class Place:
    """The place of one method: its means, the methods that dominate it, and those that clearly dominate it."""

    method: str
    means: tuple[float, ...]
    dominated_by: tuple[str, ...]
    clearly_by: tuple[str, ...]

    @property
    def on_frontier(self) -> bool:
        return not self.dominated_by


@dataclass(frozen=True)
class Frontier(Table):
    """All methods, each with the methods that dominate it. Prints as a table, with the frontier first."""

    scores: tuple[str, ...]
    places: tuple[Place, ...]
    notes: tuple[str, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods on the frontier: those that no other method dominates."""
        return tuple(place.method for place in self.places if place.on_frontier)

    def cells(self) -> Cells:
        """Header and one row of cells per method."""
        rows = [[p.method, *map(tables.number, p.means), _words(p)] for p in self.places]
        return ["method", *map(tables.metric_words, self.scores), "place"], rows

    def records(self) -> list[dict[str, object]]:
        return [
            {
                "method": place.method,
                **dict(zip(self.scores, place.means, strict=True)),
                "frontier": place.on_frontier,
                "dominated_by": "; ".join(place.dominated_by),
                "clearly_by": "; ".join(place.clearly_by),
            }
            for place in self.places
        ]


def frontier(results: Results, *, scores: Sequence[str] | None = None) -> Frontier:
    """The frontier of an evaluation's methods: which methods are dominated by another one, and which are not.

    Args:
        scores: names of the scores to compare; by default the first of completeness, soundness and best effort.
    """
    evaluation = evaluation_of(results)
    if len(evaluation.results) < 2:
        raise InputError("a frontier needs at least two methods or settings; judge another one, too")
    first = evaluation.results[0]
    if scores is None:
        usual = (first.first_score(kind) for kind in (COMPLETENESS, SOUNDNESS, BEST_EFFORT))
        scores = [score.name for score in usual if score is not None and score.n > 0]
    if not scores:
        raise InputError(
            "none of completeness, soundness and best-effort was judged; name others with --metrics (scores=)"
        )
    compared = compare(evaluation, metrics=list(scores))
    names = [result.name for result in evaluation.results]
    beaten: dict[str, list[str]] = {name: [] for name in names}
    clearly: dict[str, list[str]] = {name: [] for name in names}
    for one, other in permutations(names, 2):
        dominates, decided = _dominates(compared, scores, one, other)
        if dominates:
            beaten[other].append(one)
        if dominates and decided:
            clearly[other].append(one)
    places = [
        Place(
            result.name,
            tuple(result.score(name).value for name in scores),
            tuple(beaten[result.name]),
            tuple(clearly[result.name]),
        )
        for result in evaluation.results
    ]
    places.sort(key=lambda place: (not place.on_frontier, -place.means[0]))
    left = sum(place.on_frontier for place in places)
    notes = (
        f"{left} of {counted(len(places), 'method')} on the frontier: no other is at least as good in all of "
        f"{', '.join(scores)} and better in one; clearly dominated: one of these differences is decided by its paired interval and test",
        subject_words(evaluation),
    )
    return Frontier(tuple(scores), tuple(places), notes)


def _dominates(compared: Comparison, scores: Sequence[str], one: str, other: str) -> tuple[bool, bool]:
    """Whether method ``one`` dominates method ``other``, and whether a difference in at least one score is statistically decided."""
    better, decided = False, False
    for score in scores:
        gain, verdict = _gain(compared, score, one, other)
        if math.isnan(gain) or gain < 0:
            return False, False
        better |= gain > 0
        decided |= verdict
    return better, decided


def _gain(compared: Comparison, score: str, one: str, other: str) -> tuple[float, bool]:
    """By how much method ``one`` is better than method ``other``, and whether this difference is decided. Either may be the baseline."""
    for d in compared.differences:
        if d.metric == score and {d.method, d.baseline} == {one, other}:
            sign = (1 if d.higher_is_better else -1) * (1 if d.method == one else -1)
            return sign * d.difference, d.verdict != "undecided"
    return math.nan, False


def _words(place: Place) -> str:
    if place.on_frontier:
        return "frontier"
    sure = f"clearly dominated by {', '.join(place.clearly_by)}"
    return sure if place.clearly_by else f"dominated by {', '.join(place.dominated_by)}"
