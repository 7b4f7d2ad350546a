"""Charts with matplotlib (extra ``figures``): each is a small record first, then a drawing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from proofmap._files import whole_file
from proofmap.errors import require
from proofmap.evaluation import Evaluation


@dataclass(frozen=True)
class Line:
    """One method's mean probability along the insertion game."""

    method: str
    shares: tuple[float, ...]
    probabilities: tuple[float, ...]
    believed: float


@dataclass(frozen=True)
class Point:
    """One method as (completeness, soundness) with intervals, or (best effort, soundness)."""

    method: str
    label_free: bool
    x: tuple[float, float, float]
    y: tuple[float, float, float]


def insertion_lines(evaluation: Evaluation, place: int) -> list[Line]:
    """Mean insertion curves of the label in this place of the label table (0: the first, 1: the second)."""
    lines = []
    for result in evaluation.results:
        p = result.insertion.probabilities[:, place]
        counted = ~p.isnan().any(dim=1)
        shares = (result.insertion.counts / result.insertion.positions).tolist()
        mean = p[counted].mean(dim=0).tolist()
        believed = float(result.insertion.f[counted, place].mean())
        lines.append(Line(result.name, tuple(shares), tuple(mean), believed))
    return lines


def proof_points(evaluation: Evaluation, x: str = "completeness", y: str = "soundness") -> list[Point]:
    """Each method at two of its scores, with low and high ends."""
    points = []
    for r in evaluation.results:
        a, b = r.score(x), r.score(y)
        points.append(Point(r.name, r.label_free, (a.value, a.low, a.high), (b.value, b.low, b.high)))
    return points


def curve_titles(evaluation: Evaluation) -> list[str]:
    """What the first two places of the label table hold; labels that a person listed are in that person's order."""
    rule = str(evaluation.settings["labels"])
    by_probability = rule == "all" or rule.startswith(("top", "p>="))
    titles = ["the top label" if by_probability else "the first label", "the second label"]
    return titles[: evaluation.labels.shape[1]]


def scatter_panels(evaluation: Evaluation) -> list[str]:
    """The scores that can be drawn against soundness; none unless both halves of a proof were judged."""
    judged = {score.name for score in evaluation.results[0].scores}
    if not {"completeness", "soundness"} <= judged:
        return []
    return [x for x in ("completeness", "best-effort") if x in judged]


def draw_curves(evaluation: Evaluation, path: Path) -> Path:
    """Mean insertion curves, the first label beside the second one."""
    titles = curve_titles(evaluation)

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, len(titles), figsize=(4.6 * len(titles), 3.9), squeeze=False)
        for place, (axis, title) in enumerate(zip(axes[0], titles, strict=True)):
            lines = insertion_lines(evaluation, place)
            for line, style in zip(lines, _styles(len(lines)), strict=True):
                axis.plot([100 * s for s in line.shares], line.probabilities, label=line.method, **style)
            axis.axhline(lines[0].believed, color="0.35", linewidth=1, linestyle=(0, (1, 2)))
            axis.annotate(
                f"f on the whole image: {lines[0].believed:.2f}",
                (1, lines[0].believed),
                ha="left",
                va="bottom",
                fontsize=8,
                color="0.35",
            )
            axis.set(title=f"Maps of {title}", xlabel="pixels shown, best first (%)", xlim=(0, 100))
            axis.set_ylim(bottom=0)
        axes[0][0].set_ylabel("mean probability of that label")
        figure.legend(
            *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8
        )
        return figure

    return _save(draw, path)


def draw_scatter(evaluation: Evaluation, path: Path) -> Path:
    """Completeness and best effort against soundness, with 95 % intervals; upper right is best."""
    panels = scatter_panels(evaluation)
    titles = {
        "completeness": "All labels: upper right is best",
        "best-effort": "Best effort: was every label tried?",
    }

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(
            1, len(panels), figsize=(4.6 * len(panels), 4.4), sharey=True, squeeze=False
        )
        for axis, x in zip(axes[0], panels, strict=True):
            points = proof_points(evaluation, x)
            for point, style in zip(points, _styles(len(points)), strict=True):
                if not torch.isfinite(torch.tensor([point.x[0], point.y[0]])).all():
                    continue
                axis.errorbar(
                    point.x[0],
                    point.y[0],
                    xerr=[[point.x[0] - point.x[1]], [point.x[2] - point.x[0]]],
                    yerr=[[point.y[0] - point.y[1]], [point.y[2] - point.y[0]]],
                    marker="o",
                    markersize=7,
                    markerfacecolor="white" if point.label_free else style["color"],
                    color=style["color"],
                    elinewidth=0.9,
                    alpha=0.95,
                    linestyle="none",
                    label=point.method + (" (one map for all labels)" if point.label_free else ""),
                )
            axis.set(
                title=titles[x],
                xlabel=x if x == "best-effort" else f"{x} (worst case)",
                xlim=(-0.02, 1.02),
                ylim=(-0.02, 1.02),
            )
        axes[0][0].set_ylabel("soundness (worst case)")
        figure.legend(
            *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8
        )
        return figure

    return _save(draw, path)


def _styles(n: int) -> list[dict[str, Any]]:
    """Colours that colour-blind readers can tell apart (Okabe and Ito), then the same dashed."""
    colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
    dashes = ["-", "--", ":"]
    return [{"color": colours[i % 7], "linestyle": dashes[(i // 7) % 3]} for i in range(n)]


def _save(draw: Callable[[Any], Any], path: Path) -> Path:
    matplotlib = require("matplotlib", extra="figures", purpose="drawing charts")
    matplotlib.use("Agg")
    plt = require("matplotlib.pyplot", extra="figures", purpose="drawing charts")
    style = {"axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True}
    with plt.rc_context(style):
        figure = draw(plt)
        with whole_file(path) as part:
            figure.savefig(part, dpi=130)
        plt.close(figure)
    return path
