"""Texts, rows and series with segments of a page as data: the words, columns or lines, and for each map the shade and the rank of each, and the probability after each.

The slider of such a page shows words or columns one by one: at step k it shows the first k of a map, or all if there are fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from proofmap.core.inputs import Inputs, Series
from proofmap.report.colours import displayed
from proofmap.report.ranked_columns import is_ranked
from proofmap.report.series_lines import drawn_series, is_lined
from proofmap.report.word_proof import is_worded, words_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.named_positions import curve_of, positions_in_order, proof_count
from proofmap.results.proof_shape import shape_of
from proofmap.results.records import MethodResult


def is_listed(inputs: Inputs) -> bool:
    """Whether the page shows inputs as words, as columns with names, or as lines with segments."""
    return is_worded(inputs) or is_ranked(inputs) or is_lined(inputs)


def list_counts(evaluation: Evaluation, shown: Sequence[int]) -> list[int]:
    """The counts of the slider: 0 to the largest number of words or columns."""
    return list(range(1 + max(evaluation.count_of(i) for i in shown)))


def listed(evaluation: Evaluation, index: int) -> dict[str, Any]:
    """What a list is made of: the words of a ``text``, the names and values of ``columns``, or the drawing of a ``series``; the others are None."""
    inputs, image = evaluation.inputs, evaluation.image_of(index)
    none: dict[str, Any] = {"text": None, "columns": None, "series": None}
    if is_worded(inputs):
        return {**none, "text": list(words_of(evaluation, index))}
    if isinstance(inputs, Series) and is_lined(inputs):
        return {**none, "series": asdict(drawn_series(image, inputs))}
    if not is_ranked(inputs):
        return none
    named = enumerate(inputs.position_names)
    return {
        **none,
        "columns": [{"name": name, "value": inputs.value_text(image, k)} for k, name in named],
    }


def list_maps(
    evaluation: Evaluation, result: MethodResult, index: int, places: Sequence[int]
) -> dict[str, Any]:
    """For each label: the shade 0..255 of each position, its rank in the map (0 first), the number of positions that suffice for the
    belief, and the probability of the label while 0, 1, 2, ... positions are shown.
    """
    count = evaluation.count_of(index)
    found: dict[str, Any] = {"heat": [], "order": [], "enough": [], "curve": []}
    for j in places:
        heat = displayed(evaluation.map_of(result, index, j)[:count], signed=result.signed)
        order = positions_in_order(evaluation, result, index, j)
        found["heat"].append([round(255 * value) for value in heat.tolist()])
        found["order"].append(sorted(range(count), key=order.__getitem__))
        found["enough"].append(proof_count(evaluation, shape_of(evaluation, result, index, j), count))
        found["curve"].append([float(f"{p:.9g}") for p in curve_of(evaluation, result, index, j).tolist()])
    return found
