"""The label matrix: the area under the insertion curve (AUC) of every label, while the map of every label decides what is shown."""

from __future__ import annotations

from collections.abc import Sequence
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
    methods: tuple[str, ...]
    areas: tuple[Tensor | None, ...]
    """The matrix ``(L, L)`` of each method; None if it was not kept."""
    f: Tensor
    """``(L,)``: the mean probability of each label."""
    notes: tuple[str, ...]
    raised: tuple[Tensor | None, ...] = ()
    """For each method a tensor ``(L, L)``: the number of images on which the map of label a raises label b more than a itself. None if the
    matrix was not kept."""
    images: int = 0
    item: str = "image"
    """The word for one input: image, series, row."""

    def answers(self) -> dict[str, str]:
        """For each method with a matrix, a sentence that says whether its maps prove only their own label, with the worst cell.

        Cell (a, b) should not be larger than the diagonal cell (a, a) of its row: otherwise the map of label a raises label b more than a.
        The worst cell exceeds its diagonal cell by the most. Rows of labels that the net does not believe (mean f < .01) are left out,
        because their maps should prove nothing.
        """
        found: dict[str, str] = {}
        asked = self.f >= UNBELIEVED
        if not asked.any():
            return found
        for method, areas, raised in zip(self.methods, self.areas, self.raised, strict=True):
            if areas is None or raised is None:
                continue
            own = areas.diagonal()[:, None]
            excess = (areas - own).nan_to_num(nan=-torch.inf).fill_diagonal_(-torch.inf)
            excess[~asked] = -torch.inf
            worst = int(excess.argmax())
            a, b = divmod(worst, len(areas))
            if excess[a, b] <= 0:
                found[method] = (
                    f"Yes: on average every map {'' if asked.all() else 'of a label that the net believes '}raises its own label most."
                )
            else:
                found[method] = (
                    f"No: the map of {self.names[a]} raises {self.names[b]} to {tables.number(float(areas[a, b]))} and its own label to "
                    f"{tables.number(float(areas[a, a]))}; {self.names[b]} is higher on {int(raised[a, b])} of {counted(self.images, self.item)}."
                )
        return found

    def footer(self) -> list[str]:
        return [
            f"does a map of {method} prove its own label only? {words}"
            for method, words in self.answers().items()
        ]

    def kept(self) -> dict[str, Tensor]:
        """The matrix of each method that has one."""
        found = {
            name: areas for name, areas in zip(self.methods, self.areas, strict=True) if areas is not None
        }
        if not found:
            raise InputError(
                "the label x label matrix was not kept; it is kept for up to 64 labels: judge fewer, such as --labels top10"
            )
        return found

    def tables(self) -> list[Cells]:
        f = ["f", *map(tables.number, self.f.tolist())]
        return [
            (
                [f"{method}: map of", *self.names],
                [
                    *(
                        [name, *map(tables.number, row)]
                        for name, row in zip(self.names, areas.tolist(), strict=True)
                    ),
                    f,
                ],
            )
            for method, areas in self.kept().items()
        ]

    def records(self) -> list[dict[str, object]]:
        return [
            {"method": method, "map_of": a, "probability_of": b, "auc": auc, "f": f}
            for method, areas in self.kept().items()
            for a, row in zip(self.names, areas.tolist(), strict=True)
            for b, auc, f in zip(self.names, row, self.f.tolist(), strict=True)
        ]

    def record(self) -> dict[str, object]:
        return {
            "labels": self.names,
            "indices": self.labels,
            "f": self.f.tolist(),
            "methods": {method: areas.tolist() for method, areas in self.kept().items()},
            "own_label_only": self.answers(),
            "notes": self.notes,
        }


def label_matrices(
    results: Results, *, methods: Sequence[str] | None = None, by_label: bool = True
) -> LabelMatrices:
    """The label matrices of all methods, or of the named ones, averaged over images.

    If all images were judged for the same labels, a row or column is a label. Otherwise, or if ``by_label`` is False, row 1 is the first
    label of each image, row 2 the second, and so on.
    """
    evaluation = evaluation_of(results)
    chosen = (
        list(evaluation.results) if methods is None else [evaluation[name] for name in dict.fromkeys(methods)]
    )
    labels, item = evaluation.labels.cpu(), evaluation.inputs.singular
    order = labels.argsort(dim=1)
    ordered = labels.gather(1, order)
    shared = by_label and bool((ordered == ordered[:1]).all() and (labels != NO_LABEL).all())
    if not shared:
        order = torch.arange(labels.shape[1]).expand_as(labels)
    indices = tuple(ordered[0].tolist()) if shared else None
    matrices = [result.insertion.matrix for result in chosen]
    lacking = [result.name for result, matrix in zip(chosen, matrices, strict=True) if matrix is None]
    return LabelMatrices(
        indices,
        tuple(_place_names(evaluation))
        if indices is None
        else tuple(evaluation.label_names[a] for a in indices),
        tuple(result.name for result in chosen),
        tuple(None if m is None else _ordered(m.cpu(), order).nanmean(dim=0) for m in matrices),
        evaluation.f.cpu().gather(1, order).nanmean(dim=0),
        (
            f"row: whose map is shown; column: whose AUC it is; last row: f; means over {counted(len(labels), item)}",
            *(
                ()
                if shared
                else (
                    f"{evaluation.inputs.noun} have labels of their own: label 1 is the first label of each {item}",
                )
            ),
            *((f"no matrix was kept for {', '.join(lacking)}",) if lacking else ()),
        ),
        tuple(None if m is None else _images_above_diagonal(_ordered(m.cpu(), order)) for m in matrices),
        len(labels),
        item,
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
