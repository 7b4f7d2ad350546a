"""Scatter plots of scores as data: the points of each plot, and the coordinates of marks and numbers in the page's drawing.

A *mark* is the symbol of a method in a plot. The number beside a mark is the method's number in the legend.

The figure of completeness against soundness: a numbered mark per method, with its intervals, and a legend below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import counted, short_names
from proofmap.report.figures import drawing
from proofmap.report.figures.drawing import (
    MARKERS,
    SMALL,
    Figure,
    escaped,
    evaluation_settings,
    legend_below,
    legend_height,
    registered,
)
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
"""Number of colours. A mark has one of seven colours and one of six shapes, so 42 methods have different marks."""
_NEAR = (12, 12)  # marks closer than this, across and down, share the text with their numbers
_LETTER, _LINE, _MARK = 7, 13, 6
"""Width of a letter, height of a text, and half the width of a mark."""
_PLACES = [(side * out, up) for out in (9, 24) for up in (-4, 14, -18, 28) for side in (1, -1)]
"""Possible offsets of a mark's text from the mark, across and down; earlier ones are preferred. A text to the left of its mark ends there."""


@dataclass(frozen=True)
class ScatterPoint:
    """One method in a scatter plot: two scores, each with the ends of its interval. Missing values are NaN."""

    method: str
    label_free: bool
    x: Ends
    y: Ends

    @property
    def is_drawn(self) -> bool:
        return math.isfinite(self.x[0]) and math.isfinite(self.y[0])


@dataclass(frozen=True)
class ScatterPanel:
    """One scatter plot of all methods: completeness or best effort (``kind``) on the horizontal axis, soundness on the vertical axis."""

    kind: str
    points: tuple[ScatterPoint, ...]
    x: str = field(default="", compare=False)
    """The name of the score on the horizontal axis, which may differ from its kind; ``y`` is that of the vertical axis."""
    y: str = field(default="", compare=False)


def scatter_panels(evaluation: Evaluation) -> list[ScatterPanel]:
    """The scatter plots of an evaluation: completeness against soundness, and best effort against soundness.

    If there are several scores of a kind, with different settings, each has its own plot. A plot is left out if no method has both values.
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
    """The k-th name, or the first name if there are fewer, or None if there are none. So scores of two kinds are matched by their order."""
    return next(iter(names[k : k + 1] or names[:1]), None)


def _ends(score: Score) -> Ends:
    return score.value, score.low, score.high


@dataclass(frozen=True)
class Mark:
    """The mark of one method in the page's drawing. Coordinates are in the drawing's units, with y downwards.

    ``text`` is the number beside the mark; it is empty if the text of a nearby mark already includes this number. ``text_at`` is the offset of
    the text from the mark, to the right and down. The text starts at this point, or ends at it if the text is to the left of the mark.
    """

    method: int
    x: float
    y: float
    x_ends: tuple[float, float] | None
    y_ends: tuple[float, float] | None
    hollow: bool
    text: str
    text_at: tuple[int, int] = (0, 0)


def across(share: float) -> float:
    """The horizontal coordinate of a value in [0, 1]."""
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1), 1)


def down(share: float) -> float:
    """The vertical coordinate of a value in [0, 1]."""
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0), 1), 1)


def place(x: float, y: float) -> tuple[float, float]:
    """The coordinates of a point with both values in [0, 1]."""
    return across(x), down(y)


def marks(points: Sequence[ScatterPoint], first: int | None = None, *, named: bool = False) -> list[Mark]:
    """The marks of the points that have both values. Only the first ``first`` marks (by default all) have intervals and texts: numbers, or the
    ``named`` methods' names."""
    drawn = {k: point for k, point in enumerate(points) if point.is_drawn}
    places = [place(p.x[0], p.y[0]) for p in drawn.values()]
    texts = mark_texts(places[:first], [k + 1 for k in drawn][:first], near=_NEAR)
    if named:
        texts = short_names([p.method for p in drawn.values()], 24)
    at = text_places(places, texts)
    return [
        Mark(k, *place, _span(p.x, across), _span(p.y, down), p.label_free, texts[i], at[i])
        if i < len(texts)
        else Mark(k, *place, None, None, p.label_free, "")
        for i, ((k, p), place) in enumerate(zip(drawn.items(), places, strict=True))
    ]


def mark_texts(
    places: Sequence[tuple[float, float]], numbers: Sequence[int], *, near: tuple[float, float]
) -> list[str]:
    """The text beside each mark, which is the mark's number. Marks closer than ``near`` (across, down) share one text beside the first of
    them; the others have an empty text.

    >>> mark_texts([(0, 0), (50, 0), (1, 2)], [1, 2, 3], near=(9, 9))
    ['1, 3', '2', '']
    """
    shared: list[list[int]] = []
    for k, ((x, y), number) in enumerate(zip(places, numbers, strict=True)):
        shared.append([])
        first = next(
            j
            for j, (left, top) in enumerate(places)
            if j == k or (shared[j] and abs(x - left) < near[0] and abs(y - top) < near[1])
        )
        shared[first].append(number)
    return [_in_ranges(own) for own in shared]


def _in_ranges(numbers: Sequence[int]) -> str:
    """Increasing numbers as text. Three or more consecutive numbers are written as a range.

    >>> _in_ranges([1, 3, 4, 6, 7, 8])
    '1, 3, 4, 6–8'
    """
    words: list[str] = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        own = [str(number) for _, number in run]
        words += own if len(own) < 3 else [f"{own[0]}–{own[-1]}"]
    return ", ".join(words)


def text_places(places: Sequence[tuple[float, float]], texts: Sequence[str]) -> list[tuple[int, int]]:
    """The offset of each text from its mark, across and down. Offsets are chosen so that texts are inside the drawing and cover as few other
    texts and marks as possible."""
    written: list[tuple[float, float, float, float]] = []
    found: list[tuple[int, int]] = []
    marks_at = [(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in places]
    for place, text in zip(places, texts, strict=False):

        def cost(
            at: tuple[int, int], place: tuple[float, float] = place, text: str = text
        ) -> tuple[int, int, int]:
            box = _box(place, at, text)
            outside = box[0] < LEFT or box[2] > WIDTH or box[1] < 0 or box[3] > HEIGHT - BOTTOM
            return (
                outside,
                sum(_overlap(box, other) for other in written),
                sum(_overlap(box, m) for m in marks_at),
            )

        found.append(min(_PLACES, key=cost))
        if text:
            written.append(_box(place, found[-1], text))
    return found


def _box(place: tuple[float, float], at: tuple[int, int], text: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text with the offset ``at`` from its mark at ``place``."""
    (x, y), (over, below), wide = place, at, _LETTER * len(text)
    left = x + over - (wide if over < 0 else 0)
    return left, y + below - _LINE + 3, left + wide, y + below + 3


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _span(value: Ends, place: Callable[[float], float]) -> tuple[float, float] | None:
    _, low, high = value
    return (place(low), place(high)) if math.isfinite(low) and math.isfinite(high) else None


_LONGEST = 40
"""Largest number of characters of a method's name in a legend."""
_POINTS = 0.58  # of a figure, for one unit of the page's drawing: both panels are then equally wide
_TITLES = {COMPLETENESS: "All labels", BEST_EFFORT: "Best effort"}
_AXES = {COMPLETENESS: "completeness (worst case)", BEST_EFFORT: "completeness of the other labels"}


@dataclass(frozen=True)
class ScatterFigure(Figure):
    """The figure of one or two scatter plots, whose points are the same methods in the same order."""

    name = "scatter"
    panels: tuple[ScatterPanel, ...]
    settings: str
    tried: str = ""
    """The images that best effort counts, in words."""

    def caption(self) -> str:
        right = (
            f" Right: the same against the completeness of all labels but the top one, over {self.tried}: was every label tried?"
            if any(panel.kind == BEST_EFFORT for panel in self.panels)
            else ""
        )
        hollow = (
            " Hollow: one map for all labels." if any(p.label_free for p in self.panels[0].points) else ""
        )
        return (
            "Worst-case completeness against worst-case soundness with 95 % intervals; upper right is best. Numbers beside the marks are those of the legend."
            f"{right}{hollow} {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        n, methods = len(self.panels), [point.method for point in self.panels[0].points]
        size = (drawing.WIDTH if n > 1 else 0.6 * drawing.WIDTH, 2.75 + legend_height(len(methods)))
        figure, axes = plt.subplots(1, n, figsize=size, sharey=True, squeeze=False)
        handles: dict[int, Any] = {}
        for axis, panel in zip(axes[0], self.panels, strict=True):
            axis.set(
                xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), title=_TITLES[panel.kind], xlabel=_AXES[panel.kind]
            )
            axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
            axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
            axis.grid(linewidth=0.3, color="0.88")
            axis.set_axisbelow(True)
            shown = {k: point for k, point in enumerate(panel.points) if point.is_drawn}
            handles |= {k: _mark(axis, point, k) for k, point in shown.items()}
            _write_numbers(axis, panel.points)
        axes[0][0].set_ylabel("soundness (worst case)")
        short = short_names(methods, _LONGEST)
        names = [f"{k + 1}  {escaped(short[k])}" for k in sorted(handles)]
        legend_below(figure, [handles[k] for k in sorted(handles)], names)
        return figure


@registered("scatter", "completeness and best effort against soundness")
def scatter_figure(evaluation: Evaluation) -> ScatterFigure:
    """The figure of the first completeness score against soundness. If best effort was judged, a second plot shows it against soundness."""
    first = {panel.kind: panel for panel in reversed(scatter_panels(evaluation))}
    panels = tuple(first[kind] for kind in (COMPLETENESS, BEST_EFFORT) if kind in first)
    if not panels:
        raise InputError("a scatter needs completeness and soundness, each counted for at least one image")
    return ScatterFigure(panels, evaluation_settings(evaluation), _best_effort_images(evaluation))


def _best_effort_images(evaluation: Evaluation) -> str:
    """The images that best effort counts, in words."""
    scores = [score for r in evaluation.results if (score := r.first_score(BEST_EFFORT)) is not None]
    if not scores:
        return ""
    fewest, most = min(s.n for s in scores), max(s.n for s in scores)
    images = counted(len(evaluation), evaluation.inputs.singular)
    if fewest == len(evaluation):
        return f"all {images}"
    if fewest < most:
        return f"{fewest:,} to {most:,} of {images}, by method"
    return f"the {most:,} of {images} that it counts"


def _mark(axis: Any, point: ScatterPoint, k: int) -> Any:
    """Draw the mark and the intervals of method number ``k``, and return the mark."""
    colour = drawing.COLOURS[k % len(drawing.COLOURS)]
    (x, x_low, x_high), (y, y_low, y_high) = point.x, point.y
    drawn = axis.errorbar(
        x,
        y,
        xerr=None if math.isnan(x_low) else [[x - x_low], [x_high - x]],
        yerr=None if math.isnan(y_low) else [[y - y_low], [y_high - y]],
        marker=MARKERS[k % len(MARKERS)],
        markersize=5,
        markerfacecolor="white" if point.label_free else colour,
        markeredgewidth=1,
        color=colour,
        ecolor=(colour, 0.35),
        elinewidth=0.9,
        linestyle="none",
    )
    return drawn[0]


def _write_numbers(axis: Any, points: Sequence[ScatterPoint]) -> None:
    """Write the number of each mark at the same offset as on the HTML page: inside the drawing, over as few other numbers and marks as
    possible."""
    for mark in marks(points):
        over, below = mark.text_at
        x, y = points[mark.method].x[0], points[mark.method].y[0]
        axis.annotate(
            mark.text,
            (x, y),
            xytext=(over * _POINTS, -below * _POINTS),
            textcoords="offset points",
            ha="right" if over < 0 else "left",
            fontsize=SMALL,
            zorder=5,
        )
