"""A unit's result as rows of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from proofmap.metrics.curves import Curves
from proofmap.study.store.records import CurveRow, ImageRow, Registered, UnitRow
from proofmap.study.unit import Unit, UnitResult


def unit_row(
    unit: Unit,
    result: UnitResult,
    images: Sequence[ImageRow],
    method: Registered,
    metrics: Mapping[str, Registered],
    environment: int,
    game: str,
) -> UnitRow:
    """What the store keeps of a unit on these images; its file of maps is added by the caller.

    ``game`` is the key of the note with the steps and settings of its curves.
    """
    image_scores: list[tuple[int, int, float]] = []
    label_scores: list[tuple[int, int, int, float]] = []
    curves: dict[int, CurveRow] = {}
    for part in result.parts:
        members = [images[place] for place in part.places]
        for name, values in part.result.values.items():
            pairs = zip(members, values.tolist(), strict=True)
            image_scores += [(metrics[name].id, image.id, value) for image, value in pairs]
        for name, table in part.result.pairs.items():
            for image, row in zip(members, table.tolist(), strict=True):
                own = row[: len(image.labels)]
                label_scores += [
                    (metrics[name].id, image.id, place, value) for place, value in enumerate(own)
                ]
        if part.result.insertion is not None:
            arrays = _arrays(part.result.insertion)
            curves |= {
                image.id: _curve_row(game, arrays, k, len(image.labels)) for k, image in enumerate(members)
            }
    return UnitRow(
        method=method.id,
        block=unit.block,
        metrics=tuple(metrics[name].id for name in unit.metrics),
        key=unit.key,
        environment=environment,
        batches=result.batches,
        seconds=result.seconds,
        passes=result.passes,
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        image_scores=image_scores,
        label_scores=label_scores,
        curves=curves,
        failures={images[place].id: reason for place, reason in result.failures.items()},
    )


def _arrays(curves: Curves) -> tuple[np.ndarray | None, ...]:
    """Curves as numpy, which cuts them up faster than torch."""
    tensors = (curves.probabilities, curves.f, curves.auc, curves.error, curves.matrix)
    return tuple(None if tensor is None else tensor.numpy() for tensor in tensors)


def _curve_row(game: str, arrays: Sequence[Any], k: int, labels: int) -> CurveRow:
    probabilities, f, auc, error, matrix = arrays
    return CurveRow(
        game=game,
        probabilities=probabilities[k, :labels],
        f=f[k, :labels],
        auc=auc[k, :labels],
        error=error[k, :labels],
        matrix=None if matrix is None else matrix[k, :labels, :labels],
    )
