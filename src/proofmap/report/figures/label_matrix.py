"""The figure of the label x label matrix: the area under the insertion curve (AUC) of every label, for the map of every label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.report.figures.drawing import (
    SMALL,
    WIDTH,
    Figure,
    escaped_lines,
    evaluation_settings,
    registered,
)
from proofmap.results.evaluation import Evaluation
from proofmap.results.label_matrix import label_matrices
from proofmap.results.tables import number

MOST_LABELS, MOST_METHODS, MOST_WRITTEN = 10, 8, 5
_ACROSS = 4


@dataclass(frozen=True)
class Matrix:
    """The matrix of one method: ``areas[a][b]`` is the mean AUC of label b while the pixels of label a's map are shown."""

    method: str
    label_free: bool
    areas: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LabelMatrix(Figure):
    """The figure of one matrix per method, all on one colour scale, with f (the net's mean probability) of each label in the last row.

    ``by_place`` is True if row 1 is the first label of each image, and not the same label for all images.
    """

    name = "label-matrix"
    labels: tuple[str, ...]
    believed: tuple[float, ...]
    matrices: tuple[Matrix, ...]
    by_place: bool
    left_out: str
    settings: str
    positions: str = "pixels"

    def caption(self) -> str:
        order = "Label 1 is the most probable one of each, label 2 the next. " if self.by_place else ""
        return (
            "Mean AUC of every label (columns) under the map of every label (rows). The diagonal is a label's own proof and "
            f"should match f (bottom row); a column brighter than its f shows {self.positions} that prove what the net does not "
            f"believe. {order}{self.left_out}{self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        n, size = len(self.matrices), len(self.labels)
        across = min(n, _ACROSS)
        down = math.ceil(n / across)
        long = 0 if self._short() else 0.5
        side = min(1.5, (WIDTH - 1.0 - long) / across)
        tall = side * (size + 1) / size + 0.32
        figure, axes = plt.subplots(
            down, across, figsize=(side * across + 1.0 + long, tall * down + 0.3 + long), squeeze=False
        )
        for k, axis in enumerate(axes.flat):
            if k >= n:
                axis.set_visible(False)
                continue
            picture = self._matrix(axis, self.matrices[k], wide=int(side * 72 / 3.4))
            if k % across:
                axis.set_yticklabels([])
            if k + across < n:
                axis.set_xticklabels([])
        bar = figure.colorbar(picture, ax=axes, shrink=0.6, aspect=18, pad=0.02)
        bar.outline.set_linewidth(0.4)
        bar.ax.tick_params(labelsize=SMALL)
        bar.set_label("mean AUC")
        figure.supxlabel("probability of label", fontsize=8.5)
        figure.supylabel("map of label", fontsize=8.5)
        return figure

    def _short(self) -> bool:
        return all(len(name) <= 3 for name in self.labels)

    def _matrix(self, axis: Any, matrix: Matrix, wide: int) -> Any:
        """Draw the areas of one method, with f of each label below a white line."""
        size = len(self.labels)
        values = np.array([*matrix.areas, self.believed])
        everything = [*(row for m in self.matrices for row in m.areas), self.believed]
        largest = float(np.nanmax([*everything, np.full(size, 1e-3)]))
        picture = axis.imshow(values, vmin=0, vmax=largest, cmap="cividis")
        axis.axhline(size - 0.5, color="white", linewidth=3)
        names = [escaped_lines(name, 14, lines=1) for name in self.labels]
        title = matrix.method + ("*" if matrix.label_free else "")
        axis.set_title(escaped_lines(title, wide, lines=2), fontsize=7.5)
        how = {} if self._short() else {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        axis.set_xticks(range(size), names, fontsize=SMALL, **how)
        axis.set_yticks(range(size + 1), [*names, "f"], fontsize=SMALL)
        axis.tick_params(length=0, pad=1.5)
        axis.spines[:].set_visible(False)
        if size <= MOST_WRITTEN:
            for i, row in enumerate(values.tolist()):
                for j, value in enumerate(row):
                    colour = _ink_on(picture.to_rgba(value)[:3])
                    axis.text(j, i, number(value), ha="center", va="center", fontsize=6, color=colour)
        return picture


@registered("label-matrix", "every label's area under every label's map")
def label_matrix(evaluation: Evaluation) -> LabelMatrix:
    """The figure of each method's matrix, averaged over images. If images have different labels, row 1 is the first label of each image."""
    wide = evaluation.labels.shape[1]
    size = min(wide, MOST_LABELS)
    found = label_matrices(evaluation, by_label=wide <= MOST_LABELS)  # more names do not fit
    matrices = [
        Matrix(result.name, result.label_free, tuple(map(tuple, areas[:size, :size].tolist())))
        for result, areas in zip(evaluation.results, found.areas, strict=True)
        if areas is not None
    ][:MOST_METHODS]
    if not matrices:
        raise InputError("the label x label matrix was not kept; it is for up to 64 labels")
    names = (
        [str(k + 1) for k in range(size)]
        if found.labels is None
        else [evaluation.label_names[a] for a in found.labels]
    )
    left = []
    if size < wide:
        left.append(f"the first {size} of {counted(wide, 'label')}")
    if len(matrices) < len(evaluation.results):
        left.append(f"{len(matrices)} of {counted(len(evaluation.results), 'method')}")
    left_out = f"Shown: {', '.join(left)}. " if left else ""
    star = "* One map for all labels. " if any(m.label_free for m in matrices) else ""
    return LabelMatrix(
        labels=tuple(names),
        believed=tuple(found.f[:size].tolist()),
        matrices=tuple(matrices),
        by_place=found.labels is None,
        left_out=left_out + star,
        settings=evaluation_settings(evaluation, thresholds=False),
        positions=evaluation.inputs.position_noun,
    )


def _ink_on(colour: Sequence[float]) -> str:
    """``black`` or ``white``, whichever contrasts more with a colour (red, green, blue in [0, 1]), by WCAG's relative luminance.

    >>> _ink_on((1.0, 0.9, 0.2)), _ink_on((0.0, 0.1, 0.4))
    ('black', 'white')
    """
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"
