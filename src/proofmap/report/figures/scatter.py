"""Completeness against soundness: a point per method, with its intervals and its name beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from proofmap.core.errors import InputError
from proofmap.report.figures.drawing import (
    COLOURS,
    MARKERS,
    SMALL,
    SOFT,
    WIDTH,
    Figure,
    darker,
    draw,
    evaluation_settings,
    plain,
)
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS

Box = tuple[float, float, float, float]
_WAY = tuple(k / 12 for k in range(13))
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

    def caption(self) -> str:
        right = (
            " Right: the same against the completeness of all labels but the top one, over images whose second label "
            "has f of at least .01: was every label tried?"
            if BEST_EFFORT in self.panels
            else ""
        )
        hollow = (
            " Hollow: one map for all labels."
            if any(p.label_free for row in self.points for p in row)
            else ""
        )
        return (
            "Worst-case completeness against worst-case soundness with 95 % bootstrap intervals; upper right is best."
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
                if _known(point):
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
    points = {x: some for x, some in points.items() if any(_known(p) for p in some)}
    if not points:
        raise InputError("a scatter needs completeness and soundness, each counted for at least one image")
    return ScatterFigure(tuple(points), tuple(points.values()), evaluation_settings(evaluation))


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
    """Write each name where it covers the least: other marks, other names, intervals, the frame."""
    figure = axis.figure
    renderer = figure.canvas.get_renderer()
    known = [(k, p) for k, p in enumerate(points) if _known(p)]
    unit = figure.dpi / 72  # pixels per point
    places = [axis.transData.transform((p.x[0], p.y[0])) for _, p in known]
    taken: list[Box] = [(x - 4 * unit, y - 4 * unit, x + 4 * unit, y + 4 * unit) for x, y in places]
    bars = [box for _, p in known for box in _bars(axis, p, unit)]
    frame = axis.get_window_extent(renderer)
    for (k, point), (x, y) in zip(known, places, strict=True):
        text = axis.annotate(plain(point.method), (x, y), xycoords="figure pixels", fontsize=SMALL)
        extent = text.get_window_extent(renderer)
        text.remove()
        boxes = _candidates(x, y, extent.width, extent.height, unit)
        box = min(boxes, key=lambda box: _cost(box, (x, y), taken, bars, frame, unit))
        taken.append(box)
        _write(axis, point, box, (x, y), unit, COLOURS[k % len(COLOURS)])


def _cost(
    box: Box, place: tuple[float, float], taken: Sequence[Box], bars: Sequence[Box], frame: Any, unit: float
) -> float:
    """How bad a place for a name is: covering marks and names, leaving the frame, being far, covering intervals."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    covered = sum(_overlap(box, other) for other in taken) / area
    crossed = sum(_overlap(box, bar) for bar in bars) / area
    outside = max(0, frame.x0 - box[0]) + max(0, box[2] - frame.x1 - 3 * unit)
    outside += max(0, frame.y0 - box[1]) + max(0, box[3] - frame.y1 - 4 * unit)
    nearest = _nearest(box, place)
    far = math.dist(nearest, place) / unit
    way = [(place[0] + t * (nearest[0] - place[0]), place[1] + t * (nearest[1] - place[1])) for t in _WAY]
    through = sum(o[0] <= px <= o[2] and o[1] <= py <= o[3] for o in taken for px, py in way if far > 9)
    return float(40 * covered + 2 * crossed + 100 * outside + far / 6 + 2 * max(0, through - 2))


def _write(axis: Any, point: Point, box: Box, place: tuple[float, float], unit: float, colour: str) -> None:
    """The name in its box, given in points from the mark so that it holds at any resolution; a thin line if far."""
    x, y = place
    axis.annotate(
        plain(point.method),
        (point.x[0], point.y[0]),
        xytext=((box[0] - x) / unit, (box[1] - y) / unit),
        textcoords="offset points",
        fontsize=SMALL,
        color=darker(colour),
        ha="left",
        va="bottom",
        zorder=5,
    )
    nearest = _nearest(box, place)
    if math.dist(nearest, place) > 9 * unit:
        axis.annotate(
            "",
            (point.x[0], point.y[0]),
            xytext=((nearest[0] - x) / unit, (nearest[1] - y) / unit),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": SOFT, "shrinkA": 0, "shrinkB": 3},
        )


def _candidates(x: float, y: float, width: float, height: float, unit: float) -> list[Box]:
    """Boxes around a mark, near ones first."""
    found = []
    for far in (5, 9, 14, 20, 28, 38):
        d = far * unit
        for left, bottom in (
            (x + d, y - height / 2),
            (x - d - width, y - height / 2),
            (x - width / 2, y + d),
            (x - width / 2, y - d - height),
            (x + 0.7 * d, y + 0.7 * d),
            (x - 0.7 * d - width, y + 0.7 * d),
            (x + 0.7 * d, y - 0.7 * d - height),
            (x - 0.7 * d - width, y - 0.7 * d - height),
        ):
            found.append((left, bottom, left + width, bottom + height))
    return found


def _bars(axis: Any, point: Point, unit: float) -> list[Box]:
    """The intervals as thin boxes."""
    if any(math.isnan(v) for v in (*point.x, *point.y)):
        return []
    (x, x_low, x_high), (y, y_low, y_high) = point.x, point.y
    (left, low), (right, high) = axis.transData.transform([(x_low, y_low), (x_high, y_high)])
    px, py = axis.transData.transform((x, y))
    return [(left, py - unit, right, py + unit), (px - unit, low, px + unit, high)]


def _nearest(box: Box, place: tuple[float, float]) -> tuple[float, float]:
    return min(max(place[0], box[0]), box[2]), min(max(place[1], box[1]), box[3])


def _known(point: Point) -> bool:
    return math.isfinite(point.x[0]) and math.isfinite(point.y[0])


def _overlap(a: Box, b: Box) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, wide) * max(0.0, high)
