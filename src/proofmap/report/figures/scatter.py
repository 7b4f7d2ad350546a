"""The figure of completeness against soundness: a numbered mark per method, with its intervals, and a legend below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import counted, short_names
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
from proofmap.report.scatter import ScatterPanel, ScatterPoint, marks, scatter_panels
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import BEST_EFFORT, COMPLETENESS

LONGEST = 40
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
        size = (WIDTH if n > 1 else 0.6 * WIDTH, 2.75 + legend_height(len(methods)))
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
        short = short_names(methods, LONGEST)
        names = [f"{k + 1}  {escaped(short[k])}" for k in sorted(handles)]
        legend_below(figure, [handles[k] for k in sorted(handles)], names)
        return figure


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
