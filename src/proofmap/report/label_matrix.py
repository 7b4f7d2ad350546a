"""The label matrix: the area under the insertion curve (AUC) of every label, while the map of every label decides what is shown.

Cell (a, b), in row a and column b, is the mean over images of the AUC of label b under the map of label a. f is the net's probability of a
label on the whole image. A sound proof has a diagonal near f, and columns that stay below f. A value above the f of its column means that
pixels shown for one label prove another label more than the net believes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from proofmap.core.labels import NO_LABEL, UNBELIEVED, LabelRule
from proofmap.core.text import counted
from proofmap.report.page_pictures import json_number
from proofmap.results.evaluation import Evaluation
from proofmap.results.tables import number


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
    images = counted(len(labels), evaluation.inputs.singular)
    return {
        "names": names,
        "shared": shared,
        "methods": [[[json_number(v) for v in row] for row in m.nanmean(dim=0).tolist()] for m in kept],
        "f": [json_number(v) for v in f.tolist()],
        "answers": [_answer(m, f, names, images) for m in kept] if (f >= UNBELIEVED).any() else [],
        "images": len(evaluation),
    }


def _answer(matrix: Tensor, f: Tensor, names: Sequence[str], images: str) -> str:
    """A sentence that says whether the maps of a method, with matrices ``(N, L, L)``, prove only their own label, with the worst cell.

    Cell (a, b) should not be larger than the diagonal cell (a, a) of its row: otherwise the map of label a raises label b more than a.
    The worst cell exceeds its diagonal cell by the most. Rows of labels that the net does not believe (mean f < .01) are left out,
    because their maps should prove nothing.
    """
    areas, asked = matrix.nanmean(dim=0), f >= UNBELIEVED
    excess = (areas - areas.diagonal()[:, None]).nan_to_num(nan=-torch.inf).fill_diagonal_(-torch.inf)
    excess[~asked] = -torch.inf
    a, b = divmod(int(excess.argmax()), len(areas))
    if excess[a, b] <= 0:
        which = "" if asked.all() else "of a label that the net believes "
        return f"Yes: on average every map {which}raises its own label most."
    other, own = (number(float(areas[a, k])) for k in (b, a))
    raised = int((matrix[:, a, b] > matrix[:, a, a]).sum())
    return (
        f"No: the map of {names[a]} raises {names[b]} to {other} and its own label to {own}; {names[b]} is higher on "
        f"{raised} of {images}."
    )


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
