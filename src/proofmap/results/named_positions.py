"""Positions by name: the columns, or segments of time, that give the belief, in tables and files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import rank
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import ProofShape, shape_of
from proofmap.results.records import MethodResult

_SHOWN = 3
"""Number of names in a cell of a table."""


def positions_in_order(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> list[int]:
    """The positions of a map, best first; of equal ones the first."""
    heat = evaluation.map_of(result, index, place)
    order: list[int] = (
        rank(heat[None], ties="index", keys=torch.zeros(1, dtype=torch.int64))[0].argsort().tolist()
    )
    return order


def proof_count(evaluation: Evaluation, shape: ProofShape) -> int:
    """How many positions give the belief; 0 if the label is not believed."""
    return 0 if shape.reach is None else round(shape.reach * evaluation.inputs.count)


def curve_of(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> np.ndarray:
    """The probability of the label while 0, 1, ..., n positions are shown; between the steps of the curve it is interpolated."""
    points = result.insertion.probabilities[index, place].double().cpu().numpy()
    found: np.ndarray = np.interp(
        np.arange(evaluation.inputs.count + 1), result.insertion.counts.numpy(), points
    )
    return found


def proof_names(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> str:
    """``worst area, mean texture and 2 more``: the first positions of the map, which give the belief; ``-`` if none do."""
    count = proof_count(evaluation, shape_of(evaluation, result, index, place))
    if not count:
        return "-"
    names = evaluation.inputs.position_names
    first = [names[p] for p in positions_in_order(evaluation, result, index, place)[:count]]
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return ", ".join(first[:_SHOWN]) + more


def position_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, input with stored maps, label and position, in the order of the map.

    ``probability`` is that of the label while this position and those before it are shown; ``proves`` says whether it is among the
    first ones that give the belief.
    """
    inputs = evaluation.inputs
    names = inputs.position_names
    for result in evaluation.results:
        for i in evaluation.pictured:
            image = evaluation.image_of(i)
            for j, label in enumerate(evaluation.labels[i].tolist()):
                if label == NO_LABEL:
                    continue
                heat = evaluation.map_of(result, i, j).flatten().tolist()
                count = proof_count(evaluation, shape_of(evaluation, result, i, j))
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
