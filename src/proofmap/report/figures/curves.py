"""The figure of insertion curves: the mean probability of a label while the pixels of its map are shown, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from proofmap.metrics.curves import Curves
from proofmap.report.figures.drawing import (
    COLOURS,
    SMALL,
    SOFT,
    WIDTH,
    Figure,
    escaped,
    evaluation_settings,
    legend_below,
    legend_height,
    place_title,
)
from proofmap.results.evaluation import Evaluation
from proofmap.results.tables import number


@dataclass(frozen=True)
class Line:
    """The mean insertion curve of one method.

    ``probabilities`` are the label's mean probabilities while the ``shares`` of the pixels are shown, ``auc`` is the area under the curve, and
    ``believed`` is f, the mean probability on the whole image.
    """

    method: str
    shares: tuple[float, ...]
    probabilities: tuple[float, ...]
    believed: float
    auc: float
    label_free: bool = False


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: the lines of all methods for one label and one fill (what replaces hidden pixels)."""

    title: str
    lines: tuple[Line, ...]


def mean_line(name: str, curves: Curves, place: int, *, label_free: bool = False) -> Line:
    """The mean curve of the labels at index ``place`` of each image's row of labels, over the images that have a label there."""
    p = curves.probabilities[:, place]
    counted = ~p.isnan().any(dim=1)
    shares = (curves.counts / curves.positions).tolist()
    return Line(
        name,
        tuple(shares),
        tuple(p[counted].mean(dim=0).tolist()),
        _mean(curves.f[counted, place]),
        _mean(curves.auc[counted, place]),
        label_free,
    )


@dataclass(frozen=True)
class CurvesFigure(Figure):
    """The figure of insertion curves: a row of panels, each with a line per method in the same order."""

    name = "curves"
    panels: tuple[Panel, ...]
    settings: str
    positions: str = "pixels"

    def caption(self) -> str:
        titles = " and of ".join(panel.title for panel in self.panels)
        dashed = "Dashed: one map for all labels. " if any(x.label_free for x in self.panels[0].lines) else ""
        tops = [number(panel_top(panel)) for panel in self.panels]
        scales = f"The vertical axes end at {' and '.join(tops)}. " if len(set(tops)) > 1 else ""
        return (
            f"Mean probability of {titles} while the {self.positions} of that label's map are shown, best first. Dotted: f, "
            f"with all {self.positions} shown. The area under a curve (AUC, in brackets) should match f: less is incomplete, more is "
            f"unsound. {dashed}{scales}{self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        lines = self.panels[0].lines
        styles = [line_style(k, line) for k, line in enumerate(lines)]
        size = (WIDTH if len(self.panels) > 1 else 0.6 * WIDTH, 2.15 + legend_height(len(lines)))
        figure, axes = plt.subplots(1, len(self.panels), figsize=size, squeeze=False)
        for axis, panel in zip(axes[0], self.panels, strict=True):
            draw_panel(axis, panel, styles, panel_top(panel), self.positions)
            axis.set_title(f"Maps of {panel.title}")
        axes[0][0].set_ylabel("mean probability")
        names = [
            f"{escaped(line.method)} ({', '.join(number(panel.lines[k].auc) for panel in self.panels)})"
            for k, line in enumerate(lines)
        ]
        handles = axes[0][0].get_lines()[: len(lines)]
        legend_below(figure, handles, names)
        return figure


def curves_figure(evaluation: Evaluation) -> CurvesFigure:
    """The figure of the mean insertion curves of all methods, with a panel for the first label and one for the second."""
    panels = [
        Panel(
            place_title(evaluation, place),
            tuple(mean_line(r.name, r.insertion, place, label_free=r.label_free) for r in evaluation.results),
        )
        for place in range(min(2, evaluation.labels.shape[1]))
    ]
    settings = evaluation_settings(evaluation, thresholds=False)
    return CurvesFigure(tuple(panels), settings, evaluation.inputs.position_noun)


def panel_top(*panels: Panel) -> float:
    """The upper end of the vertical axis of these panels: 1, or less if all probabilities are small."""
    highest = max(max(line.probabilities) for panel in panels for line in panel.lines)
    return next(top for top in (0.1, 0.2, 0.3, 0.5, 1.0) if highest <= top or top == 1.0)


def draw_panel(axis: Any, panel: Panel, styles: Sequence[dict[str, Any]], top: float, positions: str) -> None:
    """Draw the lines of a panel, and f as a dotted line with its value at the right end. ``top`` is the upper end of the vertical axis."""
    for line, style in zip(panel.lines, styles, strict=True):
        axis.plot([100 * s for s in line.shares], line.probabilities, **style)
    believed = panel.lines[0].believed
    axis.axhline(believed, color=SOFT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axis.set(
        xlabel=f"{positions} shown (%)", xlim=(0, 100), ylim=(0, 1.02 * top), xticks=[0, 25, 50, 75, 100]
    )
    axis.annotate(
        f"f {number(believed)}",
        (100, believed),
        xytext=(2, 0),
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=SMALL,
        color=SOFT,
        annotation_clip=False,
    )


def line_style(k: int, line: Line) -> dict[str, Any]:
    """The matplotlib style of the k-th line. There are seven colours, and lines that repeat a colour are thinner. The line of a method with
    one map for all labels is dashed.
    """
    width = 1.2 / (1 + 0.4 * (k // len(COLOURS)))
    return {
        "color": COLOURS[k % len(COLOURS)],
        "linewidth": width,
        "linestyle": (0, (3, 2)) if line.label_free else "-",
    }


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if len(values) else float("nan")
