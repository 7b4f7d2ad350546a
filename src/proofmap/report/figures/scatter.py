"""Completeness against soundness: a point per method, with its intervals and its name beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from proofmap.core.errors import InputError
from proofmap.core.text import counted, shortened
from proofmap.report.figures.drawing import (
    COLOURS,
    MARKERS,
    SMALL,
    SOFT,
    WIDTH,
    Figure,
    darker,
    draw,
    escaped,
    evaluation_settings,
)
from proofmap.report.name_places import Box, Place, interval_boxes, place_names
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS
from proofmap.results.tables import best_effort_rule, only_the_rule_leaves_out

LONGEST = 40
"""Letters of a method's name beside its mark."""
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


def scatter_panels(evaluation: Evaluation) -> list[str]:
    """The kinds of score that can be drawn against soundness; none unless both halves of a proof were judged."""
    judged = {score.kind for score in evaluation.results[0].scores}
    if not {COMPLETENESS, SOUNDNESS} <= judged:
        return []
    return [x for x in (COMPLETENESS, BEST_EFFORT) if x in judged]


@dataclass(frozen=True)
class ScatterFigure(Figure):
    """A panel per score on the horizontal axis; the points of all panels are the same methods in the same order."""

    name: ClassVar[str] = "scatter"
    panels: tuple[str, ...]
    points: tuple[tuple[Point, ...], ...]
    settings: str
    tried: str = ""
    """Which images best effort counts."""

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
            "Worst-case completeness against worst-case soundness with 95 % intervals; upper right is best."
            f"{right}{hollow} {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        n = len(self.panels)
        figure, axes = plt.subplots(
            1, n, figsize=(WIDTH if n > 1 else 0.6 * WIDTH, 2.75), sharey=True, squeeze=False
        )
        for axis, x, points in zip(axes[0], self.panels, self.points, strict=True):
            axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), title=_TITLES[x], xlabel=_AXES[x])
            axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
            axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
            axis.grid(linewidth=0.3, color="0.88")
            axis.set_axisbelow(True)
            for k, point in enumerate(points):
                if _is_drawn(point):
                    _mark(axis, point, k)
        axes[0][0].set_ylabel("soundness (worst case)")
        figure.canvas.draw()  # places are known only now
        figure.set_layout_engine("none")
        for axis, points in zip(axes[0], self.points, strict=True):
            _name_points(axis, points)
        return figure


def scatter_figure(evaluation: Evaluation) -> ScatterFigure:
    """Completeness, and where it was judged best effort, against soundness."""
    points = {x: tuple(proof_points(evaluation, x)) for x in scatter_panels(evaluation)}
    points = {x: some for x, some in points.items() if any(_is_drawn(p) for p in some)}
    if not points:
        raise InputError("a scatter needs completeness and soundness, each counted for at least one image")
    settings = evaluation_settings(evaluation)
    return ScatterFigure(tuple(points), tuple(points.values()), settings, _tried(evaluation))


def _tried(evaluation: Evaluation) -> str:
    """The images that best effort counts, in words: by its rule, where nothing else leaves images out."""
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


def draw_scatter(evaluation: Evaluation, path: str | Path) -> Path:
    """Write :func:`scatter_figure`."""
    return draw(scatter_figure(evaluation), path)


def _mark(axis: Any, point: Point, k: int) -> None:
    colour = COLOURS[k % len(COLOURS)]
    (x, x_low, x_high), (y, y_low, y_high) = point.x, point.y
    axis.errorbar(
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


def _name_points(axis: Any, points: Sequence[Point]) -> None:
    """Write each name where it covers the least."""
    drawn = [(k, p) for k, p in enumerate(points) if _is_drawn(p)]
    unit = axis.figure.dpi / 72  # pixels per point
    lines = [
        box
        for _, p in drawn
        for box in interval_boxes(tuple(axis.transData.transform((p.x[0], p.y[0]))), *_ends(axis, p), unit)
    ]
    write_names(
        axis,
        [(p.x[0], p.y[0]) for _, p in drawn],
        [escaped(shortened(p.method, LONGEST)) for _, p in drawn],
        [darker(COLOURS[k % len(COLOURS)]) for k, _ in drawn],
        over=(3 * unit, 4 * unit),
        lines=lines,
    )


def write_names(
    axis: Any,
    marks: Sequence[Place],
    names: Sequence[str],
    colours: Sequence[Any],
    *,
    size: float = SMALL,
    over: Place = (0.0, 0.0),
    lines: Sequence[Box] = (),
    taken: Sequence[Box] = (),
) -> None:
    """Write a name beside each mark, given by its values, where it covers the least; a thin line ties one that is far to its mark.

    The figure must have been drawn, for places are known only then. ``over`` is how far names may stand out to the right and at the top, and
    ``lines`` and ``taken`` are as in :func:`~proofmap.report.name_places.place_names`: all in pixels.
    """
    figure = axis.figure
    renderer, unit = figure.canvas.get_renderer(), figure.dpi / 72
    at = [tuple(axis.transData.transform(mark)) for mark in marks]
    frame = axis.get_window_extent(renderer)
    places = place_names(
        at,
        [_size(axis, name, size, renderer) for name in names],
        frame=(frame.x0, frame.y0, frame.x1 + over[0], frame.y1 + over[1]),
        lines=lines,
        taken=taken,
        unit=unit,
    )
    for mark, name, colour, place, (x, y) in zip(marks, names, colours, places, at, strict=True):
        # in points from the mark, so that it holds at any resolution
        shared = {"xy": mark, "textcoords": "offset points"}
        axis.annotate(
            name,
            **shared,
            xytext=((place.box[0] - x) / unit, (place.box[1] - y) / unit),
            fontsize=size,
            color=colour,
            ha="left",
            va="bottom",
            zorder=5,
        )
        if place.line_end is not None:
            axis.annotate(
                "",
                **shared,
                xytext=((place.line_end[0] - x) / unit, (place.line_end[1] - y) / unit),
                arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": SOFT, "shrinkA": 0, "shrinkB": 3},
            )


def _size(axis: Any, name: str, size: float, renderer: Any) -> Place:
    """Width and height of a name in pixels."""
    text = axis.annotate(name, (0, 0), xycoords="figure pixels", fontsize=size)
    extent = text.get_window_extent(renderer)
    text.remove()
    return extent.width, extent.height


def _ends(axis: Any, point: Point) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of the intervals in pixels; the mark itself where there is none."""
    (x, *x_ends), (y, *y_ends) = point.x, point.y
    low, high = (
        [x if math.isnan(a) else a, y if math.isnan(b) else b] for a, b in zip(x_ends, y_ends, strict=True)
    )
    (left, bottom), (right, top) = axis.transData.transform([low, high])
    return (left, right), (bottom, top)


def _is_drawn(point: Point) -> bool:
    return math.isfinite(point.x[0]) and math.isfinite(point.y[0])
