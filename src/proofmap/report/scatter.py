"""Scatter plots of scores: which there are, the numbers of their marks, and where the page draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from proofmap.results.evaluation import Evaluation
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS
from proofmap.results.statistics import Score

Ends = tuple[float, float, float]
"""A value and the low and high ends of its interval."""
WIDTH, HEIGHT = 420, 404
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 52
SHAPES = (
    "M0,-5.5A5.5,5.5 0 1 1 0,5.5A5.5,5.5 0 1 1 0,-5.5Z",
    "M-5,-5H5V5H-5Z",
    "M0,-6.5L6,4.5H-6Z",
    "M0,-7L7,0L0,7L-7,0Z",
    "M0,6.5L6,-4.5H-6Z",
    "M-2,-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
)
COLOURS = 7
"""A method's mark is its colour and its shape: 42 methods have different marks."""
_NEAR = (12, 12)  # marks closer than this, across and down, share the text with their numbers


@dataclass(frozen=True)
class ScatterPoint:
    """One method: two scores, each with the ends of its interval. Missing values are NaN."""

    method: str
    label_free: bool
    x: Ends
    y: Ends

    @property
    def is_drawn(self) -> bool:
        return math.isfinite(self.x[0]) and math.isfinite(self.y[0])


@dataclass(frozen=True)
class ScatterPanel:
    """All methods by two scores: one of a kind (completeness or best effort) across, soundness up."""

    kind: str
    points: tuple[ScatterPoint, ...]
    x: str = field(default="", compare=False)
    """The name of the score, which may differ from its kind."""
    y: str = field(default="", compare=False)


def scatter_panels(evaluation: Evaluation) -> list[ScatterPanel]:
    """Completeness and best effort against soundness, for each of their settings.

    A panel for which no method has both values is left out.
    """
    scores = evaluation.results[0].scores
    names = {
        kind: [s.name for s in scores if s.kind == kind] for kind in (COMPLETENESS, BEST_EFFORT, SOUNDNESS)
    }
    panels: list[ScatterPanel] = []
    for k in range(max(map(len, names.values()))):
        y = _nth_or_first(names[SOUNDNESS], k)
        for kind in (COMPLETENESS, BEST_EFFORT):
            x = _nth_or_first(names[kind], k)
            if x is None or y is None or any((p.x, p.y) == (x, y) for p in panels):
                continue
            points = tuple(
                ScatterPoint(r.name, r.label_free, _ends(r.score(x)), _ends(r.score(y)))
                for r in evaluation.results
            )
            if any(point.is_drawn for point in points):
                panels.append(ScatterPanel(kind, points, x, y))
    return panels


def _nth_or_first(names: Sequence[str], k: int) -> str | None:
    """The k-th name, or the first if there are fewer: scores of two kinds are matched by their order."""
    return next(iter(names[k : k + 1] or names[:1]), None)


def _ends(score: Score) -> Ends:
    return score.value, score.low, score.high


@dataclass(frozen=True)
class Mark:
    """One method in the plot; coordinates in the drawing's units, with y downwards. ``text`` is empty if another mark already shows the same number."""

    method: int
    x: float
    y: float
    x_ends: tuple[float, float] | None
    y_ends: tuple[float, float] | None
    hollow: bool
    text: str


def across(share: float) -> float:
    """The horizontal coordinate of a value in [0, 1]."""
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1), 1)


def down(share: float) -> float:
    """The vertical coordinate of a value in [0, 1]."""
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0), 1), 1)


def marks(points: Sequence[ScatterPoint], first: int | None = None) -> list[Mark]:
    """The points that have both values. The ``first`` of them, or all, have their intervals and numbers."""
    drawn = {k: point for k, point in enumerate(points) if point.is_drawn}
    places = [(across(p.x[0]), down(p.y[0])) for p in drawn.values()]
    texts = mark_texts(places[:first], [k + 1 for k in drawn][:first], near=_NEAR)
    return [
        Mark(k, *place, _span(p.x, across), _span(p.y, down), p.label_free, texts[i])
        if i < len(texts)
        else Mark(k, *place, None, None, p.label_free, "")
        for i, ((k, p), place) in enumerate(zip(drawn.items(), places, strict=True))
    ]


def mark_texts(
    places: Sequence[tuple[float, float]], numbers: Sequence[int], *, near: tuple[float, float]
) -> list[str]:
    """The text beside each mark: its number. Marks closer than ``near`` share one text, beside the first of them.

    >>> mark_texts([(0, 0), (50, 0), (1, 2)], [1, 2, 3], near=(9, 9))
    ['1, 3', '2', '']
    """
    texts: list[str] = []
    for k, ((x, y), number) in enumerate(zip(places, numbers, strict=True)):
        texts.append("")
        first = next(
            j
            for j, (left, top) in enumerate(places)
            if j == k or (texts[j] and abs(x - left) < near[0] and abs(y - top) < near[1])
        )
        texts[first] += f", {number}" if texts[first] else str(number)
    return texts


def _span(value: Ends, place: Callable[[float], float]) -> tuple[float, float] | None:
    _, low, high = value
    return (place(low), place(high)) if math.isfinite(low) and math.isfinite(high) else None
