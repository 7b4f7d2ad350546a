"""The names of the positions that prove a label, for tables and files. A position is, for example, a column of a table or a segment of time.

In this module, f is the net's probability of a label, and a label *reaches the belief* when its probability is at least .9 f. ``index`` is the
index of an input, and ``place`` the index of a label in the input's row of labels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofmap.core.deferred import torch
from proofmap.core.labels import NO_LABEL
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import ProofShape, shape_of
from proofmap.results.records import MethodResult

_SHOWN = 3
"""Number of names in a cell of a table."""


def positions_in_order(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> list[int]:
    """The indices of an input's positions, sorted by the map, best first. Positions with equal values keep their order. Padding is left
    out."""
    from proofmap.core.ranking import rank

    heat = evaluation.map_of(result, index, place)
    if evaluation.count_of(index) < evaluation.inputs.count:
        heat = heat[: evaluation.count_of(index)]
    order: list[int] = (
        rank(heat[None], ties="index", keys=torch.zeros(1, dtype=torch.int64))[0].argsort().tolist()
    )
    return order


def proof_count(evaluation: Evaluation, shape: ProofShape, count: int | None = None) -> int:
    """The number of top positions that must be shown until the label reaches the belief (.9 f). 0 if the net does not believe the label.

    ``count`` is the input's own number of positions, by default that of all inputs.
    """
    if shape.reach is None:
        return 0
    return max(1, round(shape.reach * (count or evaluation.inputs.count)))


def curve_of(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> np.ndarray:
    """The probability of the label while 0, 1, ..., n positions are shown, as an array ``(n + 1,)``. Values between the points of the
    insertion curve are interpolated."""
    points = result.insertion.probabilities[index, place].double().cpu().numpy()
    count = evaluation.count_of(index)
    own, first = np.unique(result.insertion.counts_of(count).numpy(), return_index=True)
    found: np.ndarray = np.interp(np.arange(count + 1), own, points[first])
    return found


def proof_names(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> str:
    """The names of the top positions that together reach the belief, as text: ``worst area, mean texture and 2 more``. ``-`` if the
    net does not believe the label."""
    count = proof_count(evaluation, shape_of(evaluation, result, index, place), evaluation.count_of(index))
    if not count:
        return "-"
    names = evaluation.inputs.names_of(evaluation.image_of(index))
    first = [names[p] for p in positions_in_order(evaluation, result, index, place)[:count]]
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return ", ".join(first[:_SHOWN]) + more


def position_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, input, label and position, in the order of the map. Inputs whose maps were not kept are left out.

    ``probability`` is the label's probability while this position and those before it are shown. ``proves`` says whether the position is
    among the top positions that together reach the belief.
    """
    inputs = evaluation.inputs
    for result in evaluation.results:
        for i in evaluation.pictured:
            image = evaluation.image_of(i)
            names, own = inputs.names_of(image), evaluation.count_of(i)
            for j, label in enumerate(evaluation.labels[i].tolist()):
                if label == NO_LABEL:
                    continue
                heat = evaluation.map_of(result, i, j).flatten().tolist()
                count = proof_count(evaluation, shape_of(evaluation, result, i, j), own)
                along = curve_of(evaluation, result, i, j).tolist()
                for k, p in enumerate(positions_in_order(evaluation, result, i, j), 1):
                    yield {
                        "method": result.name,
                        inputs.singular: evaluation.image_names[i],
                        "label": evaluation.label_names[label],
                        "place": k,
                        "position": names[p],
                        "value": inputs.value_text(image, p),
                        "map": heat[p],
                        "probability": along[k],
                        "proves": k <= count,
                    }
