"""Which columns carry the proofs: for each label, a dot per row and column at the column's place in the map."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from proofmap.core.errors import InputError
from proofmap.core.ranking import rank
from proofmap.core.text import counted, shortened
from proofmap.report.figures.drawing import SMALL, WIDTH, Figure, escaped, evaluation_settings
from proofmap.report.ranked_columns import is_ranked
from proofmap.results.evaluation import Evaluation
from proofmap.results.named_positions import proof_count
from proofmap.results.proof_shape import shape_of
from proofmap.results.records import MethodResult

MOST_COLUMNS, MOST_LABELS = 12, 3
_LONGEST = 24


@dataclass(frozen=True)
class Dot:
    """One column of one row: its place in the map (0 is first), whether it is needed for the proof, and its value from 0 to 1."""

    place: int
    proves: bool
    value: float


@dataclass(frozen=True)
class LabelPanel:
    """The rows of one label; columns that are most often part of a proof come first."""

    label: str
    rows: int
    columns: tuple[tuple[str, tuple[Dot, ...]], ...]


@dataclass(frozen=True)
class ColumnsFigure(Figure):
    """A panel for each label."""

    name = "columns"
    method: str
    panels: tuple[LabelPanel, ...]
    count: int
    settings: str

    def caption(self) -> str:
        rows = "; ".join(f"{panel.label}: {counted(panel.rows, 'row')}" for panel in self.panels)
        return (
            f"Columns in the order of the maps by {self.method}, for rows whose belief in a label is at least e1 ({rows}). A dot is a row; "
            "its place is that of the column in the row's map, first on the left. Full dots: the column is among the first ones that give "
            "the belief; hollow dots: it is not. Dark: a large value among these rows, light: a small one. Columns that are most often "
            f"part of a proof come first. {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        tallest = max(len(panel.columns) for panel in self.panels)
        size = (WIDTH, 0.6 + len(self.panels) * (0.35 + 0.2 * tallest))
        figure, axes = plt.subplots(len(self.panels), 1, figsize=size, squeeze=False, sharex=True)
        for axis, panel in zip(axes[:, 0], self.panels, strict=True):
            for y, (_, dots) in enumerate(panel.columns):
                for dot, offset in zip(dots, swarm([dot.place for dot in dots]), strict=True):
                    colour = plt.get_cmap("viridis_r")(0.1 + 0.8 * dot.value)
                    face = colour if dot.proves else "white"
                    axis.plot(dot.place + 1, y + offset, "o", ms=2.6, mfc=face, mec=colour, mew=0.6)
            names = [escaped(shortened(name, _LONGEST)) for name, _ in panel.columns]
            axis.set_yticks(range(len(names)), names, fontsize=SMALL)
            axis.set(
                ylim=(len(names) - 0.4, -0.6), title=f"{escaped(panel.label)} ({counted(panel.rows, 'row')})"
            )
            axis.grid(axis="y", linewidth=0.3, color="0.88")
            axis.set_axisbelow(True)
        axes[-1, 0].set_xlabel(f"place of the column in the map, of {self.count}")
        return figure


def columns_figure(evaluation: Evaluation, method: str | None = None) -> ColumnsFigure:
    """The columns of one method's maps, by default the first method; only rows whose maps were kept."""
    if not is_ranked(evaluation.inputs) or not evaluation.pictured:
        raise InputError(
            "the figure columns is about rows of a table with names of columns, and needs stored maps"
        )
    result = evaluation.results[0] if method is None else evaluation[method]
    pairs: dict[int, list[tuple[int, int]]] = {}
    for i in evaluation.pictured:
        for j, label in enumerate(evaluation.labels[i].tolist()):
            if label >= 0 and float(evaluation.f[i, j]) >= result.threshold("e1"):
                pairs.setdefault(label, []).append((i, j))
    if not pairs:
        raise InputError("no label of these rows is believed, so there is no proof to show")
    labels = sorted(pairs, key=lambda label: -len(pairs[label]))[:MOST_LABELS]
    panels = tuple(_panel(evaluation, result, label, pairs[label]) for label in labels)
    return ColumnsFigure(result.name, panels, evaluation.inputs.count, evaluation_settings(evaluation))


def _panel(
    evaluation: Evaluation, result: MethodResult, label: int, pairs: list[tuple[int, int]]
) -> LabelPanel:
    inputs = evaluation.inputs
    maps = torch.stack([evaluation.map_of(result, i, j).flatten() for i, j in pairs])
    ranks = rank(maps, ties="index", keys=torch.zeros(len(maps), dtype=torch.int64)).numpy()
    enough = np.array([proof_count(evaluation, shape_of(evaluation, result, i, j)) for i, j in pairs])
    proves = ranks < enough[:, None]
    values = inputs.merged_channels(
        torch.stack([evaluation.image_of(i) for i, _ in pairs]).cpu(), "mean"
    ).numpy()
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    scaled = np.nan_to_num((values - low) / np.where(high > low, high - low, 1), nan=0.5)
    order = sorted(range(inputs.count), key=lambda p: (-proves[:, p].mean(), ranks[:, p].mean(), p))[
        :MOST_COLUMNS
    ]
    columns = tuple(
        (
            inputs.position_names[p],
            tuple(
                Dot(int(r), bool(y), float(v))
                for r, y, v in zip(ranks[:, p], proves[:, p], scaled[:, p], strict=True)
            ),
        )
        for p in order
    )
    return LabelPanel(evaluation.label_names[label], len(pairs), columns)


def swarm(places: list[int]) -> list[float]:
    """How far each dot moves from its line so that dots at one place do not cover each other, at most .4.

    >>> swarm([3, 0, 3])
    [-0.05, 0.0, 0.05]
    """
    total, seen = Counter(places), Counter[int]()
    found = []
    for place in places:
        k, seen[place] = seen[place], seen[place] + 1
        step = min(0.1, 0.8 / max(1, total[place] - 1))
        found.append(round(step * (k - (total[place] - 1) / 2), 6) + 0.0)
    return found
