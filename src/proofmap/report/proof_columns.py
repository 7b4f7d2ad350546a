"""Which columns of a table carry the proofs of its rows? Two kinds of picture answer this.

The first shows many rows: for each label, every row has a dot for each column, at the column's rank in the row's map. The dots are data
(:class:`ProofColumns`), which the figure ``columns`` and the HTML page draw.

The second is part of a sheet and shows one row (:func:`ranked_columns`). Its columns are listed in the order of the map. Line k has the name
and the value of the k-th column, and the probability of the label while the first k columns are shown. A dark vertical line marks the net's
belief on the whole row. The lines up to the first that reaches the belief have the colour of the verdict: green for a proof, orange if the map
is too strong, blue if it is too weak.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows
from proofmap.core.ranking import rank
from proofmap.core.text import counted, short_names, shortened
from proofmap.report.colours import INK, STRENGTHS
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import curve_of, positions_in_order, proof_count, shape_of
from proofmap.results.records import MethodResult

_SOFT, _PAPER = (120, 120, 128), (250, 250, 250)
_LINE = 19
_TEXT = 0.6
"""Share of the picture's width that names and values take."""


def is_ranked(inputs: Inputs) -> bool:
    """Whether inputs are shown as a ranked list. This is so for rows of a table whose columns have names."""
    return isinstance(inputs, Rows) and bool(inputs.names)


def ranked_columns(
    evaluation: Evaluation, result: MethodResult, index: int, place: int, *, side: int, most: int
) -> Image.Image:
    """A picture, ``side`` pixels wide, of the first ``most`` columns of a map, best first, with the probability after each column."""
    inputs, image = evaluation.inputs, evaluation.image_of(index)
    order = positions_in_order(evaluation, result, index, place)
    along = curve_of(evaluation, result, index, place)
    belief = float(evaluation.f[index, place])
    shape = shape_of(evaluation, result, index, place)
    enough, colour = proof_count(evaluation, shape), STRENGTHS[shape.strength.word] or _SOFT
    lines = min(most, inputs.count)
    page = Image.new("RGB", (side, _LINE * (lines + 2)), _PAPER)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(12)
    left, wide = round(_TEXT * side), round((1 - _TEXT) * side) - 8
    drawn, all_names = order[:lines], inputs.position_names
    values = [shortened(inputs.value_text(image, p), 16) for p in drawn]
    room = left - max(draw.textlength(value, font) for value in values) - 20
    names = short_names([all_names[p] for p in drawn], room, measure=lambda t: draw.textlength(t, font))

    def at(p: float) -> int:
        return left + round(min(max(float(p), 0.0), 1.0) * wide)

    for k in range(lines + 1):
        y, proves = _LINE * k, 0 < k <= enough
        if k == 0:
            draw.text((4, y + 2), "nothing shown", _SOFT, font)
        else:
            draw.text((4, y + 2), names[k - 1], colour if proves else INK, font)
            draw.text((left - 8, y + 2), values[k - 1], _SOFT, font, anchor="ra")
        draw.rectangle((left, y + 4, at(1.0), y + _LINE - 5), (236, 238, 242))
        draw.rectangle((left, y + 4, at(along[k]), y + _LINE - 5), colour if proves else (150, 158, 170))
    end = _LINE * (lines + 1)
    draw.line((at(belief), 0, at(belief), end), INK, 2)
    left_out = inputs.count - lines
    draw.text((4, end + 2), f"and {left_out} more" if left_out else "", _SOFT, font)
    draw.text((left, end + 2), "0", _SOFT, font)
    draw.text((at(1.0), end + 2), "1", _SOFT, font, anchor="ra")
    return page


MOST_COLUMNS, MOST_LABELS = 12, 3
LONGEST = 24
LEFT, STEP, LINE, TOP = 210, 16, 22, 8
"""Distances in the page's drawing: the width of the names, the distance between two ranks, the distance between two columns, and the margin at
the top."""


@dataclass(frozen=True)
class Dot:
    """One column of one row.

    ``place`` is the column's rank in the row's map (0 is first), ``proves`` says whether the column is part of the proof, and ``value`` is the
    column's value, scaled to 0..1 over the rows.
    """

    place: int
    proves: bool
    value: float


@dataclass(frozen=True)
class ColumnLine:
    """One column with a dot for each row. ``short`` is the column's name in at most ``LONGEST`` letters."""

    name: str
    short: str
    dots: tuple[Dot, ...]

    @property
    def share(self) -> float:
        """Share of rows for which the column is part of the proof."""
        return sum(dot.proves for dot in self.dots) / len(self.dots)

    @property
    def placed(self) -> list[tuple[float, float, Dot]]:
        """For each dot: its horizontal coordinate, its distance from the line of the column, and the dot."""
        offsets = swarm([dot.place for dot in self.dots])
        return [
            (across(dot.place), LINE * offset, dot) for dot, offset in zip(self.dots, offsets, strict=True)
        ]


@dataclass(frozen=True)
class LabelPanel:
    """The columns of one label, over all rows for which the net believes it. Columns that are most often part of a proof come first."""

    label: str
    rows: int
    columns: tuple[ColumnLine, ...]


@dataclass(frozen=True)
class ProofColumns:
    """The panels of one method, one per label. ``count`` is the number of columns of the table."""

    method: str
    panels: tuple[LabelPanel, ...]
    count: int

    @property
    def caption(self) -> str:
        rows = "; ".join(f"{panel.label}: {counted(panel.rows, 'row')}" for panel in self.panels)
        return (
            f"Columns in the order of the maps by {self.method}, for rows whose belief in a label is at least e1 ({rows}). A dot is a row; "
            "its place is that of the column in the row's map, first on the left. Full dots: the column is among the first ones that give "
            "the belief; hollow dots: it is not. Dark: a large value among these rows, light: a small one. Columns that are most often "
            "part of a proof come first."
        )


def proof_columns(evaluation: Evaluation, method: str | None = None) -> ProofColumns:
    """The panels of one method, by default the first, over the rows whose maps were kept.

    Raises :class:`InputError` if the inputs are not rows with named columns, if no maps were kept, or if the net believes no label.
    """
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
    return ProofColumns(result.name, panels, evaluation.inputs.count)


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
    short = short_names(inputs.position_names, LONGEST)
    columns = tuple(
        ColumnLine(
            inputs.position_names[p],
            short[p],
            tuple(
                Dot(int(r), bool(y), float(v))
                for r, y, v in zip(ranks[:, p], proves[:, p], scaled[:, p], strict=True)
            ),
        )
        for p in order
    )
    return LabelPanel(evaluation.label_names[label], len(pairs), columns)


def swarm(places: list[int]) -> list[float]:
    """The vertical offset of each dot from its column's line, at most .4, so that dots at the same place do not overlap.

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


def if_several(evaluation: Evaluation) -> ProofColumns | None:
    """:func:`proof_columns` if there are at least two rows with named columns and kept maps, and a label that the net believes; otherwise
    None."""
    try:
        return proof_columns(evaluation) if len(evaluation.pictured) > 1 else None
    except InputError:
        return None


def across(place: float) -> float:
    """The horizontal coordinate of a rank in the map (0 is first)."""
    return LEFT + STEP * (place + 0.5)


def down(line: float) -> float:
    """The vertical coordinate of the column in line number ``line``."""
    return TOP + LINE * (line + 0.5)
