"""The label matrix: the area under the insertion curve (AUC) of every label, while the map of every label decides what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core.labels import NO_LABEL, UNBELIEVED, LabelRule
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.tables import number


@dataclass(frozen=True, eq=False)
class LabelMatrices:
    """One label matrix per method. Cell (a, b), in row a and column b, is the mean over images of the AUC of label b under the map of label a.

    f is the net's probability of a label on the whole image. A sound proof has a diagonal near f, and columns that stay below f. A value
    above the f of its column means that pixels shown for one label prove another label more than the net believes it.
    """

    names: tuple[str, ...]
    """The names of rows and columns: the labels' names, or ``label 1`` for the first label of each image if images have different labels."""
    shared: bool
    """Whether all images have the same labels."""
    areas: Mapping[str, Tensor]
    """The matrix ``(L, L)`` of each method that has one; it is kept for up to 64 labels."""
    raised: Mapping[str, Tensor]
    """For each of them a tensor ``(L, L)``: the number of images on which the map of label a raises label b more than a itself."""
    f: Tensor
    """``(L,)``: the mean probability of each label."""
    images: str
    """The number of images, in words."""

    def answers(self) -> dict[str, str]:
        """For each method, a sentence that says whether its maps prove only their own label, with the worst cell.

        Cell (a, b) should not be larger than the diagonal cell (a, a) of its row: otherwise the map of label a raises label b more than a.
        The worst cell exceeds its diagonal cell by the most. Rows of labels that the net does not believe (mean f < .01) are left out,
        because their maps should prove nothing.
        """
        found: dict[str, str] = {}
        asked = self.f >= UNBELIEVED
        for method, areas in self.areas.items() if asked.any() else ():
            excess = (areas - areas.diagonal()[:, None]).nan_to_num(nan=-torch.inf).fill_diagonal_(-torch.inf)
            excess[~asked] = -torch.inf
            a, b = divmod(int(excess.argmax()), len(areas))
            if excess[a, b] <= 0:
                which = "" if asked.all() else "of a label that the net believes "
                found[method] = f"Yes: on average every map {which}raises its own label most."
            else:
                other, own = (number(float(areas[a, k])) for k in (b, a))
                found[method] = (
                    f"No: the map of {self.names[a]} raises {self.names[b]} to {other} and its own label to {own}; {self.names[b]} is higher on "
                    f"{int(self.raised[method][a, b])} of {self.images}."
                )
        return found


def label_matrices(evaluation: Evaluation) -> LabelMatrices:
    """The label matrices of all methods, averaged over images.

    If all images were judged for the same labels, a row or column is a label. Otherwise row 1 is the first label of each image, row 2 the
    second, and so on.
    """
    labels = evaluation.labels.cpu()
    order = labels.argsort(dim=1)
    ordered = labels.gather(1, order)
    shared = bool((ordered == ordered[:1]).all() and (labels != NO_LABEL).all())
    if shared:
        names = [evaluation.label_names[a] for a in ordered[0].tolist()]
    else:
        names, order = _place_names(evaluation), torch.arange(labels.shape[1]).expand_as(labels)
    matrices = {r.name: m.cpu() for r in evaluation.results if (m := r.insertion.matrix) is not None}
    kept = {name: _ordered(matrix, order) for name, matrix in matrices.items()}
    return LabelMatrices(
        tuple(names),
        shared,
        {name: matrix.nanmean(dim=0) for name, matrix in kept.items()},
        {name: _images_above_diagonal(matrix) for name, matrix in kept.items()},
        evaluation.f.cpu().gather(1, order).nanmean(dim=0),
        counted(len(labels), evaluation.inputs.singular),
    )


def _images_above_diagonal(matrix: Tensor) -> Tensor:
    """For each cell (a, b), the number of images ``(L, L)`` on which it is larger than cell (a, a), from matrices ``(N, L, L)``."""
    return (matrix > matrix.diagonal(dim1=1, dim2=2)[:, :, None]).sum(dim=0)


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
