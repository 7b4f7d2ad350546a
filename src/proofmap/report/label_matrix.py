"""The label matrix: the area under the insertion curve (AUC) of every label, while the map of every label decides what is shown.

Cell (a, b), in row a and column b, is the mean over images of the AUC of label b under the map of label a. f is the net's probability of a
label on the whole image. Labels differ in f, so a cell is read as a multiple of the f of its column: more than 1.25 (1 / bar) means that
the part shown for label a proves label b more than the net believes it. Areas below 5 % are trifles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from proofmap.core.labels import NO_LABEL, UNBELIEVED, LabelRule
from proofmap.report.page_pictures import json_number
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import BAR, TRIFLE, percent


def mean_matrix(evaluation: Evaluation) -> dict[str, Any] | None:
    """The label matrix of each method for the page, with the names of the labels, f, and an answer to whether its maps prove only their own
    label; None if a matrix was not kept or there is one label.

    If all images were judged for the same labels (``shared``), a row or column is a label. Otherwise row 1 is the first label of each image,
    row 2 the second, and so on.
    """
    labels = evaluation.labels.cpu()
    matrices = [m.cpu() for r in evaluation.results if (m := r.insertion.matrix) is not None]
    if len(matrices) < len(evaluation.results) or labels.shape[1] < 2:
        return None
    order = labels.argsort(dim=1)
    ordered = labels.gather(1, order)
    shared = bool((ordered == ordered[:1]).all() and (labels != NO_LABEL).all())
    if shared:
        names = [evaluation.label_names[a] for a in ordered[0].tolist()]
    else:
        names, order = _place_names(evaluation), torch.arange(labels.shape[1]).expand_as(labels)
    f, kept = evaluation.f.cpu().gather(1, order).nanmean(dim=0), [_ordered(m, order) for m in matrices]
    return {
        "names": names,
        "shared": shared,
        "methods": [[[json_number(v) for v in row] for row in m.nanmean(dim=0).tolist()] for m in kept],
        "f": [json_number(v) for v in f.tolist()],
        "answers": [_answer(m.nanmean(dim=0), f, names, evaluation.inputs.singular) for m in kept],
        "images": len(evaluation),
    }


def _answer(areas: Tensor, f: Tensor, names: Sequence[str], noun: str) -> dict[str, Any]:
    """How much of its belief its ``own`` label gets while the maps of a method, with mean ``areas`` ``(L, L)``, are shown (a mean over the labels
    that the net believes), and how much an ``other`` label gets at most. ``yes`` says whether both are within the bar, and ``words`` why.

    Rows of labels that the net does not believe (mean f < .01) are left out, because their maps should prove nothing.
    """
    asked = f >= UNBELIEVED
    ratios = areas / f.clamp_min(1e-9)
    own = ratios.diagonal()[asked]
    others = ratios.masked_fill(
        ~asked[:, None] | (areas < TRIFLE) | areas.isnan(), -torch.inf
    ).fill_diagonal_(-torch.inf)
    a, b = divmod(int(others.argmax()), len(areas))
    mean, other = float(own.mean()), float(others[a, b])
    found = {"own": json_number(mean), "other": json_number(other), "yes": mean >= BAR and other <= 1 / BAR}
    said = f"{names[b]} gets {percent(float(areas[a, b]))} from the map of {names[a]}; the whole {noun} gives it {percent(float(f[b]))}."
    if not len(own):
        return {**found, "yes": None, "words": "The net believes none of the labels."}
    if mean < BAR:
        return {**found, "words": "No: not even its own label is proved."}
    if other == -torch.inf:
        return {**found, "words": f"Yes: no other label reaches {percent(TRIFLE)}."}
    return {**found, "words": f"{'Yes: at most, ' if found['yes'] else 'No: '}{said}"}


def _ordered(matrix: Tensor, order: Tensor) -> Tensor:
    """The matrices ``(N, L, L)`` with the rows and columns of image i rearranged by the indices ``order[i]``, from ``order`` ``(N, L)``."""
    rows = matrix.gather(1, order[:, :, None].expand_as(matrix))
    return rows.gather(2, order[:, None, :].expand_as(matrix))


def _place_names(evaluation: Evaluation) -> list[str]:
    """A name for each column of the label table, the same for all images: ``label 1``, ..., ``near wrong``, ``far wrong``."""
    width = evaluation.numpy("labels").shape[1]
    first = LabelRule.first_wrong(str(evaluation.settings.get("labels", "")))
    names = [f"label {k + 1}" for k in range(width)]
    return names if first is None else [*names[:first], *["near wrong", "far wrong"][: width - first]]
