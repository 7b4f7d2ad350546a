"""Some images of an evaluation alone: the page of one image is about that image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.metrics.curves import Curves
from proofmap.results.records import EvaluationRecord, MethodResult
from proofmap.results.statistics import mean_score

Record = TypeVar("Record", bound=EvaluationRecord)


def of_images(evaluation: Record, places: Sequence[int]) -> Record:
    """The evaluation of the images in these places, in this order; means and intervals are over them.

    Numbers about the run as a whole are not of these images, and are left out.
    """
    outside = [place for place in places if not 0 <= place < len(evaluation)]
    if outside or not places:
        which = f"no image {outside[0]}" if outside else "no image asked for"
        raise InputError(f"there is {which}: the evaluation has 0 to {len(evaluation) - 1}")
    names = tuple(evaluation.image_names[place] for place in places)
    kept = [place for place in places if place in evaluation.pictured]
    rows = [evaluation.pictured.index(place) for place in kept]
    return replace(
        evaluation,
        results=tuple(_result(r, places, rows, names) for r in evaluation.results),
        images=evaluation.images[rows],
        image_names=names,
        labels=evaluation.labels[list(places)],
        f=evaluation.f[list(places)],
        pictured=tuple(k for k, place in enumerate(places) if place in kept),
        run_scores=(),
    )


def _result(
    result: MethodResult, places: Sequence[int], rows: Sequence[int], names: Sequence[str]
) -> MethodResult:
    values = {name: column[list(places)] for name, column in result.values.items()}
    scores = tuple(
        mean_score(
            s.name,
            values[s.name],
            higher_is_better=s.higher_is_better,
            settings=s.settings,
            kind=s.kind,
            limits=s.limits,
        )
        for s in result.scores
    )
    return replace(
        result,
        scores=scores,
        values=values,
        pairs={name: table[list(places)] for name, table in result.pairs.items()},
        maps=result.maps[list(rows)],
        insertion=_curves(result.insertion, list(places)),
        image_names=names,
    )


def _curves(curves: Curves, places: list[int]) -> Curves:
    def part(table: Tensor | None) -> Tensor | None:
        return None if table is None else table[places]

    return replace(
        curves,
        labels=curves.labels[places],
        f=curves.f[places],
        probabilities=curves.probabilities[places],
        auc=curves.auc[places],
        error=curves.error[places],
        matrix=part(curves.matrix),
        whole=part(curves.whole),
    )
