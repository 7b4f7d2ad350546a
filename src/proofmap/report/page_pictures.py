"""The pictures of the report page as data: for each image the photo, and for each map one byte per pixel.

A *position* is a part of an input that is shown or hidden as a whole, such as a pixel. The page has a slider that shows only the top
``counts[k]`` positions of a map at step k. With K steps it can show K + 1 different pictures of a map. A position's *level* is the first step
at which the position is shown: ``level <= k`` if and only if ``rank < counts[k]``. So one byte per pixel, the level of its position, holds
everything that the slider can show, and the bands of the heat map. Of a signed map, a table has the value of each level. The bytes of a method's
maps are stored as the gray values of one picture without loss.

Texts, rows of a table and series with segments are shown as lists instead: the words, columns or segments, and for each map their shades,
their ranks and the probability after each one. At step k the slider shows the first k of them, or all if there are fewer.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Inputs, Pictures, Series
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import Ties, rank
from proofmap.core.text import short_names
from proofmap.report.listed import ListedProof, words_of
from proofmap.report.pictures import (
    data_uri,
    displayed,
    drawn_series,
    per_pixel,
    photo,
    view_of,
)
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import proof_values, shape_of
from proofmap.results.records import MethodResult

LONGEST_COLUMN = 28
"""Largest number of letters of a column's name in a list of columns. The full name appears when the mouse is over it."""


def _listed(evaluation: Evaluation, index: int) -> dict[str, Any]:
    """The content of an input as a list, under one of three keys: the words of a ``text``, the names and values of ``columns``, or the drawing
    of a ``series``. The other keys are None; all three are None for pictures.
    """
    inputs, image = evaluation.inputs, evaluation.image_of(index)
    none: dict[str, Any] = {"text": None, "columns": None, "series": None}
    if inputs.shown_as == "words":
        return {**none, "text": list(words_of(evaluation, index))}
    if isinstance(inputs, Series) and inputs.shown_as == "line":
        return {**none, "series": drawn_series(image, inputs)}
    if inputs.shown_as != "columns":
        return none
    names = inputs.position_names
    short = short_names(names, LONGEST_COLUMN)
    columns = [
        {"name": name, "short": short[k], "value": inputs.value_text(image, k)}
        for k, name in enumerate(names)
    ]
    return {**none, "columns": columns}


def _list_maps(
    evaluation: Evaluation, result: MethodResult, index: int, places: Sequence[int]
) -> dict[str, Any]:
    """Four lists with one entry per label in ``places``: ``heat``, the shade 0..255 of each position; ``order``, the rank of each position
    in the map (0 is first); ``enough``, the number of positions of the proof; and ``curve``, the probability of the label while
    0, 1, 2, ... positions are shown.
    """
    proofs = [ListedProof.of(evaluation, result, index, j) for j in places]
    return {
        "heat": [proof.painted for proof in proofs],
        "order": [list(proof.places) for proof in proofs],
        "enough": [len(proof.proving) for proof in proofs],
        "curve": [[json_number(p) for p in proof.along] for proof in proofs],
    }


SHARES = (*range(10), *range(10, 20, 2), *range(20, 40, 4), 40, 47.5, 55, 62.5, 70, 77.5, 85, 92.5, 100)
"""The shares of the positions, in percent, at the steps of the slider. Fewer levels make smaller pages: the levels of noise cannot be compressed."""
_FEW = 100
"""Inputs with at most this number of positions have a step for each."""
_LOSSLESS = 128  # pixels: smaller photos are drawn enlarged, which would show the blocks of a JPEG


@dataclass(frozen=True)
class Picture:
    """One image that the page shows in full.

    ``record`` is plain data. ``photo`` is the data URI of the photo, and ``levels`` has a data URI of the maps' levels for each method.
    Rows and texts have only a record.
    """

    record: dict[str, Any]
    photo: str
    levels: list[str]


def slider_counts(positions: int) -> list[int]:
    """The number of positions that each step of the slider shows, rounded as in :func:`proofmap.core.ranking.keep_top`.

    >>> slider_counts(4)
    [0, 1, 2, 3, 4]
    """
    return (
        list(range(positions + 1))
        if positions <= _FEW
        else sorted({round(share / 100 * positions) for share in SHARES})
    )


def levels_of(ranks: Tensor, counts: Sequence[int]) -> np.ndarray:
    """The level of each position, the first k with ``rank < counts[k]``, from ranks ``(maps, n)``.

    >>> levels_of(torch.tensor([[2, 0, 3, 1]]), [0, 2, 4])
    array([[2, 1, 2, 1]], dtype=uint8)
    """
    return np.searchsorted(np.array(counts), ranks.cpu().numpy(), side="right").astype(np.uint8)


def heat_table(heat: Tensor, levels: np.ndarray, steps: int) -> list[int]:
    """The value 0..255 of each level 0..steps of a signed map, 128 is zero: the mean of :func:`displayed` over the positions of the level."""
    bright = 255 * displayed(heat, signed=True).reshape(-1)
    sums = np.bincount(levels, weights=bright, minlength=steps + 1)
    sizes = np.bincount(levels, minlength=steps + 1).clip(min=1)
    return [int(v) for v in np.rint(sums / sizes)]


def shown_places(evaluation: Evaluation, index: int, most: int) -> list[int]:
    """The indices in the image's row of labels of those that the page draws, in increasing order.

    If there are more than ``most`` labels, these are the most probable ones and, of the rest, the one with the lowest soundness of any
    method, because readers look for proofs of labels that the net does not believe.
    """
    places = evaluation.places_of(index)
    if len(places) <= most:
        return places
    f = evaluation.f[index].tolist()
    by_belief = sorted(places, key=lambda j: -f[j])
    chosen = by_belief[: max(1, most - 1)]
    if most > 1:
        rest = [j for j in places if j not in chosen]
        lowest = {j: min(proof_values(evaluation, r, index, j)[1] for r in evaluation.results) for j in rest}
        chosen.append(min(rest, key=lambda j: lowest[j]))
    return sorted(chosen)


def picture_of(evaluation: Evaluation, index: int, places: Sequence[int], counts: Sequence[int]) -> Picture:
    """The :class:`Picture` of one image: everything that the page shows of it, for the labels at ``places``."""
    image, inputs = evaluation.image_of(index), view_of(evaluation, index)
    height, width = inputs.picture_size()
    order = evaluation.f[index].nan_to_num(-1).argsort(descending=True).tolist()
    levels, methods = [], []
    for result in () if inputs.has_names else evaluation.results:
        own = places[:1] if result.label_free else places
        maps = torch.stack([evaluation.map_of(result, index, j) for j in own]).to(image.device)
        ranks = rank(maps, ties=_ties(result), keys=_tie_keys(evaluation, result, image, len(maps)))
        found = levels_of(ranks, counts)
        methods.append(
            {
                "maps": [0 if result.label_free else k for k in range(len(places))],
                "heat": [
                    base64.b64encode(bytes(heat_table(m, v, len(counts) - 1))).decode()
                    for m, v in zip(maps, found, strict=True)
                    if result.signed
                ],
                "labels": [_label_record(evaluation, result, index, j) for j in places],
                "curve": _curves(result, index, places, counts),
            }
        )
        levels.append(levels_uri(np.stack([per_pixel(level, inputs, len(counts)) for level in found])))
    if inputs.has_names:
        methods = [
            {
                "listed": _list_maps(evaluation, result, index, places),
                "labels": [_label_record(evaluation, result, index, j) for j in places],
            }
            for result in evaluation.results
        ]
    record = {
        "index": index,
        **_listed(evaluation, index),
        "name": evaluation.image_names[index],
        "height": height,
        "width": width,
        "labels": [
            {
                "name": evaluation.label_name(index, j),
                "label": int(evaluation.labels[index, j]),
                "f": json_number(float(evaluation.f[index, j])),
                "place": order.index(j) + 1,
                "wrong": evaluation.wrong_kind(index, j),
            }
            for j in places
        ],
        "left_out": int((evaluation.labels[index] != NO_LABEL).sum()) - len(places),
        "methods": methods,
    }
    return Picture(record, "" if inputs.has_names else photo_uri(image, inputs), levels)


def pictures_of(
    evaluation: Evaluation, shown: Sequence[int], most_labels: int
) -> tuple[list[Picture], dict[str, Any]]:
    """The pictures of the images ``shown``, and the numbers of shown positions at the steps of the slider (``counts``) and at the points of
    each method's curves (``curve_counts``), which are the same for all images."""
    if not shown:
        return [], {"counts": [], "curve_counts": []}
    lists = evaluation.inputs.has_names
    if lists:  # 0 to the largest number of positions
        counts = list(range(1 + max(evaluation.count_of(i) for i in shown)))
    else:
        counts = slider_counts(evaluation.results[0].insertion.positions)
    found = [picture_of(evaluation, i, shown_places(evaluation, i, most_labels), counts) for i in shown]
    return found, {
        "counts": counts,
        "curve_counts": [] if lists else [curve_counts(r, counts) for r in evaluation.results],
    }


def curve_counts(result: MethodResult, counts: Sequence[int]) -> list[int]:
    """The numbers of shown positions at which the page stores a curve: those of the curve or those of the slider, whichever are fewer."""
    own = result.insertion.counts.tolist()
    return own if len(own) <= len(counts) else [c for c in counts if own[0] <= c <= own[-1]]


def json_number(value: float) -> float | None:
    """The value rounded to nine digits, as pages contain it; None for NaN and infinity.

    Nine digits distinguish any two float32 values, so the page prints the same numbers as every other table.
    """
    return float(f"{value:.9g}") if math.isfinite(value) else None


def _label_record(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> dict[str, object]:
    drawn = ListedProof.of if evaluation.inputs.has_names else shape_of
    return drawn(evaluation, result, index, place).record(evaluation.inputs.position_noun)


def _curves(
    result: MethodResult, index: int, places: Sequence[int], counts: Sequence[int]
) -> list[list[float | None]]:
    """For each label at ``places``, its probabilities along the insertion curve of its map, at the counts of :func:`curve_counts`."""
    at, own = curve_counts(result, counts), result.insertion.counts.numpy()
    curves = [np.interp(at, own, result.insertion.probabilities[index, j].cpu().numpy()) for j in places]
    return [[json_number(float(p)) for p in curve] for curve in curves]


def _ties(result: MethodResult) -> Ties:
    return cast(Ties, str(result.insertion.settings.get("ties", "index")))


def _tie_keys(evaluation: Evaluation, result: MethodResult, image: Tensor, n: int) -> Tensor | None:
    """The keys of the random stream that broke ties between equal values in the curves; None unless ties are broken at random."""
    if _ties(result) != "random":
        return None
    seed = int(str(evaluation.settings["seed"]))
    return streams.image_keys(image[None], seed, "ties").expand(n)


def levels_uri(levels: np.ndarray) -> str:
    """The data URI of a lossless picture with the levels ``(maps, h, w)`` as gray values, one map below the other."""
    return data_uri(
        Image.fromarray(levels.reshape(-1, levels.shape[-1])), "WEBP", lossless=True, quality=75, method=4
    )


def photo_uri(image: Tensor, inputs: Inputs) -> str:
    """The data URI of the image as a picture: a PNG if it is small or a drawing, a JPEG if it is a larger photo."""
    picture = photo(image, inputs)
    if max(picture.size) <= _LOSSLESS or not isinstance(inputs, Pictures):
        return data_uri(picture, "PNG", optimize=True)
    return data_uri(picture, "JPEG", quality=90, subsampling=0)
