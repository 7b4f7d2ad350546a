"""Which columns of a table carry the proofs of its rows? For each label, every row has a dot for each column, at the column's rank in the
row's map."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from proofmap.core.ranking import rank
from proofmap.core.text import counted, short_names
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import shape_of
from proofmap.results.records import MethodResult

_MOST_COLUMNS, _MOST_LABELS, _LONGEST = 12, 3, 24
_LEFT, _STEP, _LINE, _TOP = 210, 16, 22, 8
"""Distances in the page's drawing: the width of the names, the distance between two ranks, the distance between two columns, and the margin at
the top."""


def proof_columns(evaluation: Evaluation) -> dict[str, Any] | None:
    """The data of the drawing: a panel for each label, with a line for each column and a dot for each row. Only rows for which the net believes
    the label count; columns that are most often part of a proof come first.

    None if the inputs are not rows with named columns, if fewer than two maps were kept, or if the net believes no label.
    """
    inputs, result = evaluation.inputs, evaluation.results[0]
    if inputs.shown_as != "columns" or len(evaluation.pictured) < 2:
        return None
    pairs: dict[int, list[tuple[int, int]]] = {}
    for i in evaluation.pictured:
        for j in evaluation.places_of(i):
            if float(evaluation.f[i, j]) >= result.threshold("e1"):
                pairs.setdefault(int(evaluation.labels[i, j]), []).append((i, j))
    if not pairs:
        return None
    labels = sorted(pairs, key=lambda label: -len(pairs[label]))[:_MOST_LABELS]
    panels = [_panel(evaluation, result, label, pairs[label]) for label in labels]
    rows = "; ".join(f"{panel['label']}: {counted(panel['rows'], 'row')}" for panel in panels)
    return {
        "method": result.name,
        "panels": panels,
        "count": inputs.count,
        "left": _LEFT,
        "last": _across(inputs.count - 1),
        "width": _across(inputs.count),
        "caption": f"Columns in the order of the maps by {result.name}, for rows whose belief in a label is at least e1 ({rows}). A dot is a row; "
        "its place is that of the column in the row's map, first on the left. Full dots: the column is among the first ones that give "
        "the belief; hollow dots: it is not. Dark: a large value among these rows, light: a small one. Columns that are most often "
        "part of a proof come first.",
    }


def _panel(
    evaluation: Evaluation, result: MethodResult, label: int, pairs: list[tuple[int, int]]
) -> dict[str, Any]:
    inputs = evaluation.inputs
    maps = torch.stack([evaluation.map_of(result, i, j).flatten() for i, j in pairs])
    ranks = rank(maps, ties="index", keys=torch.zeros(len(maps), dtype=torch.int64)).numpy()
    enough = np.array([shape_of(evaluation, result, i, j).enough for i, j in pairs])
    proves = ranks < enough[:, None]
    images = torch.stack([evaluation.image_of(i) for i, _ in pairs]).cpu()
    values = inputs.merged_channels(images, "mean").numpy()
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    scaled = np.nan_to_num((values - low) / np.where(high > low, high - low, 1), nan=0.5)
    order = sorted(range(inputs.count), key=lambda p: (-proves[:, p].mean(), ranks[:, p].mean(), p))
    short = short_names(inputs.position_names, _LONGEST)
    columns = []
    for line, p in enumerate(order[:_MOST_COLUMNS]):
        y = _TOP + _LINE * (line + 0.5)
        places = ranks[:, p].tolist()
        dots = [
            {
                "place": place,
                "proves": bool(own),
                "x": _across(place),
                "y": y + _LINE * offset,
                "opacity": 0.35 + 0.65 * float(value),
            }
            for place, own, value, offset in zip(
                places, proves[:, p], scaled[:, p], swarm(places), strict=True
            )
        ]
        share = float(proves[:, p].mean())
        columns.append(
            {"name": inputs.position_names[p], "short": short[p], "share": share, "y": y, "dots": dots}
        )
    height = _TOP + _LINE * (len(columns) + 0.5)
    return {"label": evaluation.label_names[label], "rows": len(pairs), "columns": columns, "height": height}


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


def _across(place: float) -> float:
    """The horizontal coordinate of a rank in the map (0 is first)."""
    return _LEFT + _STEP * (place + 0.5)
