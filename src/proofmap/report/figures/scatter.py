"""Completeness against soundness: a numbered mark per method, with its intervals, and a legend below."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import counted, shortened
from proofmap.report.figures.drawing import (
    COLOURS,
    MARKERS,
    SMALL,
    WIDTH,
    Figure,
    escaped,
    evaluation_settings,
    legend_below,
    legend_height,
)
from proofmap.report.scatter import mark_texts
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import best_effort_rule, only_the_rule_leaves_out
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS

LONGEST = 40
"""Characters of a method's name in a legend."""
_NEAR = (0.04, 0.04)  # marks closer than this, in shares of the axes, share the text with their numbers
_TITLES = {COMPLETENESS: "All labels", BEST_EFFORT: "Best effort"}
_AXES = {COMPLETENESS: "completeness (worst case)", BEST_EFFORT: "completeness of the other labels"}


@dataclass(frozen=True)
class Point:
    """One method as (completeness, soundness) with intervals, or (best effort, soundness)."""

    method: str
    label_free: bool
    x: tuple[float, float, float]
    y: tuple[float, float, float]


def proof_points(evaluation: Evaluation, x: str = COMPLETENESS, y: str = SOUNDNESS) -> list[Point]:
    """Each method at its first scores of two kinds, with low and high ends."""
    points = []
    for r in evaluation.results:
        a, b = r.first_score(x), r.first_score(y)
        if a is None or b is None:
            raise InputError(f"{r.name} was not judged by {x if a is None else y}")
        points.append(Point(r.name, r.label_free, (a.value, a.low, a.high), (b.value, b.low, b.high)))
    return points


def scatter_kinds(evaluation: Evaluation) -> list[str]:
    """The kinds of score that can be drawn against soundness; none unless completeness and soundness were judged."""
    judged = {score.kind for score in evaluation.results[0].scores}
    if not {COMPLETENESS, SOUNDNESS} <= judged:
        return []
    return [x for x in (COMPLETENESS, BEST_EFFORT) if x in judged]


@dataclass(frozen=True)
class ScatterFigure(Figure):
    """A panel per score on the horizontal axis; the points of all panels are the same methods in the same order."""

    name = "scatter"
    panels: tuple[str, ...]
    points: tuple[tuple[Point, ...], ...]
    settings: str
    tried: str = ""
    """The images that best effort counts, in words."""

    def caption(self) -> str:
        right = (
            f" Right: the same against the completeness of all labels but the top one, over {self.tried}: was every label tried?"
            if BEST_EFFORT in self.panels
            else ""
        )
        hollow = (
            " Hollow: one map for all labels."
            if any(p.label_free for row in self.points for p in row)
            else ""
        )
        return (
            "Worst-case completeness against worst-case soundness with 95 % intervals; upper right is best. Numbers beside the marks are those of the legend."
            f"{right}{hollow} {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        n = len(self.panels)
        height = 2.75 + legend_height(len(self.points[0]))
        figure, axes = plt.subplots(
            1, n, figsize=(WIDTH if n > 1 else 0.6 * WIDTH, height), sharey=True, squeeze=False
        )
        handles: dict[int, Any] = {}
        for axis, x, points in zip(axes[0], self.panels, self.points, strict=True):
            axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), title=_TITLES[x], xlabel=_AXES[x])
            axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
            axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
            axis.grid(linewidth=0.3, color="0.88")
            axis.set_axisbelow(True)
            shown = {k: point for k, point in enumerate(points) if _is_drawn(point)}
            handles |= {k: _mark(axis, point, k) for k, point in shown.items()}
            _write_numbers(axis, shown)
        axes[0][0].set_ylabel("soundness (worst case)")
        names = [f"{k + 1}  {escaped(shortened(self.points[0][k].method, LONGEST))}" for k in sorted(handles)]
        legend_below(figure, [handles[k] for k in sorted(handles)], names)
        return figure


def scatter_figure(evaluation: Evaluation) -> ScatterFigure:
    """Completeness, and best effort if it was judged, against soundness."""
    points = {x: tuple(proof_points(evaluation, x)) for x in scatter_kinds(evaluation)}
    points = {x: some for x, some in points.items() if any(_is_drawn(p) for p in some)}
    if not points:
        raise InputError("a scatter needs completeness and soundness, each counted for at least one image")
    settings = evaluation_settings(evaluation)
    return ScatterFigure(tuple(points), tuple(points.values()), settings, _tried(evaluation))


def _tried(evaluation: Evaluation) -> str:
    """The images that best effort counts, in words; with its rule if nothing else leaves images out."""
    scores = [score for r in evaluation.results if (score := r.first_score(BEST_EFFORT)) is not None]
    if not scores:
        return ""
    fewest, most = min(s.n for s in scores), max(s.n for s in scores)
    images = counted(len(evaluation), "image")
    if fewest == len(evaluation):
        return f"all {images}"
    if fewest < most:
        return f"{fewest:,} to {most:,} of {images}, by method"
    rule = best_effort_rule(scores[0]) if only_the_rule_leaves_out(evaluation) else ""
    return f"the {most:,} of {images} {rule or 'that it counts'}"


def _mark(axis: Any, point: Point, k: int) -> Any:
    """Draw one method's mark and intervals; returns the mark."""
    colour = COLOURS[k % len(COLOURS)]
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


def _write_numbers(axis: Any, points: Mapping[int, Point]) -> None:
    """Write the number of each mark beside it, to its left near the right edge."""
    places = [(p.x[0], p.y[0]) for p in points.values()]
    for (x, y), text in zip(places, mark_texts(places, [k + 1 for k in points], near=_NEAR), strict=True):
        left = x > 0.85
        axis.annotate(
            text,
            (x, y),
            xytext=(-4 if left else 4, 2),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=SMALL,
            zorder=5,
        )


def _is_drawn(point: Point) -> bool:
    return math.isfinite(point.x[0]) and math.isfinite(point.y[0])
