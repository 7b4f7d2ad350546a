"""The label matrix: the area under the insertion curve (AUC) of every label, while the map of every label decides what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, UNBELIEVED, first_wrong
from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.tables import Cells, Tables


@dataclass(frozen=True, eq=False)
class LabelMatrices(Tables):
    """One label matrix per method. Cell (a, b), in row a and column b, is the mean over images of the AUC of label b under the map of label a.

    f is the net's probability of a label on the whole image. A sound proof has a diagonal near f, and columns that stay below f. A value
    above the f of its column means that pixels shown for one label prove another label more than the net believes it. Prints as one table
    per method, with f in the last row.
    """

    labels: tuple[int, ...] | None
    """The labels of rows and columns if all images have the same labels; None if row 1 is the first label of each image, and so on."""
    names: tuple[str, ...]
    """The names of rows and columns: the labels' names, or ``label 1`` for the first label of each image."""
    areas: Mapping[str, Tensor]
    """The matrix ``(L, L)`` of each method that has one."""
    raised: Mapping[str, Tensor]
    """For each of them a tensor ``(L, L)``: the number of images on which the map of label a raises label b more than a itself."""
    f: Tensor
    """``(L,)``: the mean probability of each label."""
    images: str
    """The number of images, in words."""
    notes: tuple[str, ...]

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
                other, own = (tables.number(float(areas[a, k])) for k in (b, a))
                found[method] = (
                    f"No: the map of {self.names[a]} raises {self.names[b]} to {other} and its own label to {own}; {self.names[b]} is higher on "
                    f"{int(self.raised[method][a, b])} of {self.images}."
                )
        return found

    def footer(self) -> list[str]:
        return [
            f"does a map of {method} prove its own label only? {words}"
            for method, words in self.answers().items()
        ]

    def tables(self) -> list[Cells]:
        if not self.areas:
            raise InputError(
                "the label x label matrix was not kept; it is kept for up to 64 labels: judge fewer, such as --labels top10"
            )
        last = ["f", *map(tables.number, self.f.tolist())]
        return [
            (
                [f"{method}: map of", *self.names],
                [
                    *(
                        [name, *map(tables.number, row)]
                        for name, row in zip(self.names, m.tolist(), strict=True)
                    ),
                    last,
                ],
            )
            for method, m in self.areas.items()
        ]

    def records(self) -> list[dict[str, object]]:
        return [
            {"method": method, "map_of": a, "probability_of": b, "auc": auc, "f": f}
            for method, areas in self.areas.items()
            for a, row in zip(self.names, areas.tolist(), strict=True)
            for b, auc, f in zip(self.names, row, self.f.tolist(), strict=True)
        ]

    def record(self) -> dict[str, object]:
        methods = {method: areas.tolist() for method, areas in self.areas.items()}
        about = {"labels": self.names, "indices": self.labels, "f": self.f.tolist()}
        return {**about, "methods": methods, "own_label_only": self.answers(), "notes": self.notes}


def label_matrices(results: Results, *, methods: Sequence[str] | None = None) -> LabelMatrices:
    """The label matrices of all methods, or of the named ones, averaged over images.

    If all images were judged for the same labels, a row or column is a label. Otherwise row 1 is the first label of each image, row 2 the
    second, and so on.
    """
    evaluation = evaluation_of(results)
    chosen = evaluation.results if methods is None else [evaluation[name] for name in dict.fromkeys(methods)]
    labels, inputs = evaluation.labels.cpu(), evaluation.inputs
    order = labels.argsort(dim=1)
    ordered = labels.gather(1, order)
    shared = bool((ordered == ordered[:1]).all() and (labels != NO_LABEL).all())
    if not shared:
        order = torch.arange(labels.shape[1]).expand_as(labels)
    indices = tuple(ordered[0].tolist()) if shared else None
    images = counted(len(labels), inputs.singular)
    notes = [f"row: whose map is shown; column: whose AUC it is; last row: f; means over {images}"]
    if not shared:
        notes.append(
            f"{inputs.noun} have labels of their own: label 1 is the first label of each {inputs.singular}"
        )
    kept = {r.name: _ordered(m.cpu(), order) for r in chosen if (m := r.insertion.matrix) is not None}
    if lacking := [result.name for result in chosen if result.name not in kept]:
        notes.append(f"no matrix was kept for {', '.join(lacking)}")
    return LabelMatrices(
        indices,
        tuple(_place_names(evaluation) if indices is None else (evaluation.label_names[a] for a in indices)),
        {name: matrix.nanmean(dim=0) for name, matrix in kept.items()},
        {name: _images_above_diagonal(matrix) for name, matrix in kept.items()},
        evaluation.f.cpu().gather(1, order).nanmean(dim=0),
        images,
        tuple(notes),
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
    first = first_wrong(str(evaluation.settings.get("labels", "")))
    names = [f"label {k + 1}" for k in range(width)]
    return names if first is None else [*names[:first], *["near wrong", "far wrong"][: width - first]]
