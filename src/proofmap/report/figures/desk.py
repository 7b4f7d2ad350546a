"""The figure of the paper's worked example: a photo of a desk, two labels, and how strongly each method proves each label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.progress import Progress
from proofmap.judging import evaluate
from proofmap.methods.method import MethodLike
from proofmap.metrics.proof_scores import default_metrics
from proofmap.report.figures.drawing import (
    COLOURS,
    MARKERS,
    SMALL,
    SOFT,
    WIDTH,
    Figure,
    escaped,
    escaped_lines,
    evaluation_settings,
    registered,
)
from proofmap.report.pictures import hidden_of, masked_photo, picture_ratio
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import other_curve_note, proof_values
from proofmap.results.tables import number
from proofmap.theory import desk as paper

SHARE = 0.3


@dataclass(frozen=True, eq=False)
class Desk(Figure):
    """The figure of a worked example: ``f`` of each label, and for each method the ``areas`` (AUC) and ``judged``, the completeness and soundness
    of each label's map. If there is a photo, the figure also shows the photo and a picture per label and method.

    ``pictures`` is indexed by method, then by label. ``ratio`` is the height of a picture divided by its width.
    """

    name = "desk"
    labels: tuple[str, ...]
    f: tuple[float, ...]
    areas: Mapping[str, Sequence[float]]
    judged: Sequence[Sequence[tuple[float, float]]]
    settings: str
    photo: np.ndarray | None = None
    pictures: tuple[tuple[np.ndarray, ...], ...] = ()
    noun: str = "photo"
    positions: str = "pixels"
    ratio: float = 1.0

    def caption(self) -> str:
        shown = (
            f"Top: the {self.noun}, and the top {100 * SHARE:.0f} % of {self.positions} of each map. "
            if self.photo is not None
            else ""
        )
        return (
            f"{shown}How strongly each method's map proves a label (AUC, marks) against what the net believes of it (f, "
            "line). Left of the line a proof is incomplete, right of it unsound; numbers are completeness and soundness "
            f"where they are below 1. {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        labels, methods = self.labels, list(self.areas)
        tall = 0.42 + 0.24 * len(methods)
        if self.photo is None:
            figure, axes = plt.subplots(
                1, len(labels), figsize=(WIDTH, tall + 0.35), sharey=True, squeeze=False
            )
            charts = axes[0]
        else:
            seen = 1.25 * self.ratio * len(labels) + 0.2
            figure = plt.figure(figsize=(WIDTH, seen + tall + 0.35))
            above, below = figure.subfigures(2, 1, height_ratios=[seen, tall + 0.35])
            self._pictures(above)
            charts = below.subplots(1, len(labels), sharey=True, squeeze=False)[0]
        for place, axis in enumerate(charts):
            self._chart(axis, place)
        charts[0].set_yticks(range(len(methods)), [_name(method) for method in methods])
        charts[0].set_ylim(len(methods) - 0.5, -0.75)
        return figure

    def _chart(self, axis: Any, place: int) -> None:
        f = self.f[place]
        axis.axvline(f, color=SOFT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        axis.annotate(
            f"f = {number(f)}",
            (f, 1),
            xycoords=("data", "axes fraction"),
            xytext=(3, -1),
            textcoords="offset points",
            va="top",
            fontsize=SMALL,
            color=SOFT,
        )
        for k, areas in enumerate(self.areas.values()):
            auc = areas[place]
            colour = COLOURS[k % len(COLOURS)]
            axis.plot([f, auc], [k, k], color=colour, linewidth=1)
            axis.plot(auc, k, marker=MARKERS[k % len(MARKERS)], color=colour, markersize=5)
            axis.annotate(
                _words(*self.judged[k][place]),
                (max(auc, f), k),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=SMALL,
            )
        axis.set(title=escaped(self.labels[place]), xlabel="AUC of the map", xlim=(0, 1))
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)

    def _pictures(self, figure: Any) -> None:
        axes = figure.subplots(len(self.labels), 1 + len(self.areas), squeeze=False)
        for j, row in enumerate(axes):
            cells = [self.photo if j == 0 else None, *(self.pictures[k][j] for k in range(len(self.areas)))]
            titles = ["", *(_name(method) if j == 0 else "" for method in self.areas)]
            for axis, pixels, title in zip(row, cells, titles, strict=True):
                axis.set(xticks=[], yticks=[])
                axis.set_title(title, fontsize=7.5)
                axis.spines[:].set_visible(False)
                if pixels is None:
                    axis.set_visible(False)
                    continue
                axis.imshow(pixels, interpolation="none")
            row[1].set_ylabel(escaped(self.labels[j]), fontsize=SMALL)


def _name(method: str) -> str:
    return escaped_lines(method, 24, lines=2)


def _words(completeness: float, soundness: float) -> str:
    if math.isnan(completeness) or math.isnan(soundness):
        return "not judged"
    named = {"complete": completeness, "sound": soundness}
    parts = [f"{word} {number(value)}" for word, value in named.items() if value < 0.995]
    return ", ".join(parts) or "complete and sound"


@registered("desk", "the paper's worked example, as it prints it", "nothing")
def desk() -> Desk:
    """The figure of the worked example with the numbers printed in the paper. It needs no net and no photo."""
    settings = f"Settings: the paper's section 3.3, net {paper.NET}, {paper.PHOTO}; e1 = e2 = 0."
    judged = [paper.scores(paper.F, areas) for areas in paper.AREAS.values()]
    return Desk(paper.LABELS, paper.F, paper.AREAS, judged, settings)


def desk_of(evaluation: Evaluation, index: int = 0, places: Sequence[int] = (0, 1)) -> Desk:
    """The figure of one image of an evaluation, with pictures. ``places`` are indices in the image's row of labels."""
    there = [j for j in places if j in evaluation.places_of(index)]
    image, inputs, results = evaluation.image_of(index), evaluation.inputs, evaluation.results
    hidden = hidden_of(evaluation)
    pictures = tuple(
        tuple(
            np.asarray(masked_photo(image, evaluation.map_of(result, index, j), inputs, SHARE, hidden.colour))
            for j in there
        )
        for result in results
    )
    return Desk(
        tuple(evaluation.label_name(index, j) for j in there),
        tuple(float(evaluation.f[index, j]) for j in there),
        {result.name: [float(result.insertion.auc[index, j]) for j in there] for result in results},
        [[proof_values(evaluation, result, index, j) for j in there] for result in results],
        " ".join(filter(None, [hidden.words, other_curve_note(evaluation), evaluation_settings(evaluation)])),
        inputs.picture(image),
        pictures,
        inputs.singular,
        inputs.position_noun,
        picture_ratio(inputs),
    )


@registered("desk-photo", "the same on a photo of yours", "images")
def desk_of_photo(
    classifier: Classifier,
    images: Tensor,
    *,
    labels: Sequence[int | str] | str = "top2",
    methods: Sequence[MethodLike] = (
        "learned-mask",
        "learned-mask:tv=0.001,scale=4",
        "top-label:learned-mask",
    ),
    seed: int = 0,
    progress: Progress | None = None,
) -> Desk:
    """The figure of the paper's example for the first of ``images``. By default it has the top two labels and three methods: the learned mask,
    the same with less smoothing, and one map for both labels."""
    return desk_of(
        evaluate(
            classifier,
            images[:1],
            methods=methods,
            labels=labels,
            metrics=[m for m in default_metrics((0.0, 0.0)) if m.name in ("completeness", "soundness")],
            seed=seed,
            progress=progress,
        )
    )
