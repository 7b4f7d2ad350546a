"""The figure of insertion curves: the mean probability of a label while the pixels of its map are shown, best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, Labels
from proofmap.core.outputs import in_words
from proofmap.core.progress import Progress
from proofmap.core.text import counted, one_line
from proofmap.fills import Fill, make_fill
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics.curves import Curves
from proofmap.metrics.playing import insertion
from proofmap.report.figures.drawing import (
    COLOURS,
    INK,
    SMALL,
    SOFT,
    WIDTH,
    Figure,
    escaped,
    evaluation_settings,
    legend_below,
    legend_height,
    place_title,
    registered,
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


@registered("curves", "probability along the insertion game, by method")
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


# ---- learned masks by total variation ------------------------------------------------------------


TVS = (0.0, 0.001, 0.01, 0.1)
"""The weights of the total variation in the paper's figures."""
_PLACES = ("Top label", "Second label")


@dataclass(frozen=True)
class TVCurves(Figure):
    """The figure of mean insertion curves of learned masks, with a row of panels per label, a panel per fill, and a line per weight of the
    total variation. The fill is what replaces hidden pixels."""

    name = "tv-curves"
    rows: tuple[tuple[Panel, ...], ...]
    settings: str
    positions: str = "pixels"

    @classmethod
    def of(cls, found: Mapping[str, Mapping[str, Curves]], settings: str, positions: str) -> TVCurves:
        """The figure of the curves ``found`` of the top two labels, first by the fill's name, then by the line's name."""
        rows = (
            tuple(
                Panel(
                    f"{label}, {fill} behind",
                    tuple(mean_line(name, curves, place) for name, curves in lines.items()),
                )
                for fill, lines in found.items()
            )
            for place, label in enumerate(_PLACES)
        )
        return cls(tuple(rows), settings, positions)

    def caption(self) -> str:
        return (
            f"Mean probability of a label while the {self.positions} of its learned mask are shown, best first, for several weights "
            "of the total variation. Top: the top label, where a large area (AUC) means completeness. Bottom: the second "
            f"label, where an area beyond f (dotted) means unsoundness. Columns: what hidden {self.positions} show. "
            f"{self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        n = len(self.rows[0][0].lines)
        colours = [plt.get_cmap("plasma")(0.7 * k / max(1, n - 1)) for k in range(n)]
        styles = [{"color": c} for c in colours]
        figure, axes = plt.subplots(
            len(self.rows),
            len(self.rows[0]),
            figsize=(WIDTH, 1.85 * len(self.rows)),
            sharex=True,
            sharey="row",
            squeeze=False,
        )
        for row, panels in zip(axes, self.rows, strict=True):
            for axis, panel in zip(row, panels, strict=True):
                draw_panel(axis, panel, styles, panel_top(*panels), self.positions)
                axis.set_title(escaped(panel.title), pad=13)
                axis.label_outer()
                _key(axis, panel, colours)
            row[0].set_ylabel("mean probability")
        return figure


def _key(axis: Any, panel: Panel, colours: Sequence[Any]) -> None:
    """Write the weight and the area of each line, in the line's colour, in a row above the panel."""
    words = ["TV (AUC)", *(f"{line.method} ({number(line.auc)})" for line in panel.lines)]
    letters = sum(len(word) + 3 for word in words) - 3
    x = 0.0
    for word, colour in zip(words, (INK, *colours), strict=True):
        axis.text(x, 1.03, word, transform=axis.transAxes, va="bottom", fontsize=SMALL, color=colour)
        x += (len(word) + 3) / letters


@registered("tv-curves", "probability curves by total variation, two labels, two fills", "images")
def tv_curves(
    classifier: Classifier,
    images: Tensor,
    *,
    tvs: Sequence[float] = TVS,
    fills: Sequence[str | Fill] = ("gray", "images"),
    method: LearnedMask | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TVCurves:
    """Learn masks of the top two labels with each weight of the total variation, and compute their insertion curves with each fill.

    Args:
        tvs: the weights of the total variation.
        fills: the fills of the insertion curves. The masks are learned with the method's own fill.
        method: the learned mask whose ``tv`` is varied; by default the preset ``fast``.
    """
    images = classifier.check_images(images)
    labels = chosen_labels("top2", classifier, images)
    if labels.shape[1] < 2:
        raise InputError("tv-curves shows the second label; the classifier has a label set of one")
    base = method or LearnedMask()
    backgrounds = [make_fill(fill) for fill in fills]
    found: dict[str, dict[str, Curves]] = {fill_name(fill): {} for fill in backgrounds}
    for tv in tvs:
        maps = replace(base, tv=tv)(classifier, images, labels, seed=seed, progress=progress)
        for fill in backgrounds:
            found[fill_name(fill)][f"{tv:g}"] = insertion(
                classifier.frozen(), images, maps, labels, fill=fill, seed=seed, progress=progress
            )
    settings = learned_settings(classifier, base, len(images), seed, varied=("tv",))
    return TVCurves.of(found, settings, classifier.inputs.position_noun)


def learned_settings(
    classifier: Classifier, method: LearnedMask, n: int, seed: int, varied: Sequence[str] = ()
) -> str:
    """One sentence for captions with the settings of learned masks. The settings named in ``varied`` are left out."""
    shown = ("steps", "distractors", "learning_rate", "scale", "tv", "objective", "masks")
    learning = ", ".join(
        f"{key.replace('_', ' ')} {value:g}"
        if isinstance(value := getattr(method, key), float)
        else f"{key} {value}"
        for key in shown
        if key not in varied and not (key == "masks" and method.masks == 1)
    )
    l1 = "1 / (H W)" if method.l1 is None else f"{method.l1:g}"
    return one_line(
        f"Settings: net {classifier.name} ({in_words(classifier.settings())}); {counted(n, 'image')}; learned mask with {learning}, l1 {l1}, on "
        f"{fill_name(method.fill)}; seed {seed}."
    )


def chosen_labels(labels: Labels, classifier: Classifier, images: Tensor) -> Tensor:
    table = classifier.choose_labels(images, labels)
    if bool((table == NO_LABEL).any()):
        raise InputError("this figure needs the same number of labels for every image")
    return table


def fill_name(fill: Fill) -> str:
    """The word for a fill in captions."""
    return {"images": "random images", "blur": "blurred", "noise": "noise"}.get(fill.name, fill.name)
