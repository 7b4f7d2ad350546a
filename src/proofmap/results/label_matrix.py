"""Whose pixels prove what: the mean area of every label's probability under every label's map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core.labels import NO_LABEL
from proofmap.results.records import EvaluationRecord


@dataclass(frozen=True, eq=False)
class LabelMatrices:
    """Row a, column b: the mean over images of b's AUC under the map of a; all in one order of the labels."""

    labels: tuple[int, ...] | None
    """The labels of rows and columns, where all images share them; None where they go by place, image by image."""
    areas: tuple[Tensor | None, ...]
    """``(L, L)`` of each method; None where the matrix was not kept."""
    f: Tensor
    """``(L,)``: the mean of what the net believes of each."""


def label_matrices(evaluation: EvaluationRecord, *, by_label: bool = True) -> LabelMatrices:
    """The mean matrix of each method: by label where all images have the same ones (unless ``by_label`` says no)."""
    labels = evaluation.labels.cpu()
    order = labels.argsort(dim=1)
    ordered = labels.gather(1, order)
    shared = by_label and bool((ordered == ordered[:1]).all() and (labels != NO_LABEL).all())
    if not shared:
        order = torch.arange(labels.shape[1]).expand_as(labels)
    matrices = [result.insertion.matrix for result in evaluation.results]
    return LabelMatrices(
        tuple(ordered[0].tolist()) if shared else None,
        tuple(None if m is None else _ordered(m.cpu(), order).nanmean(dim=0) for m in matrices),
        evaluation.f.cpu().gather(1, order).nanmean(dim=0),
    )


def _ordered(matrix: Tensor, order: Tensor) -> Tensor:
    """Rows and columns of ``(N, L, L)`` in each image's own order ``(N, L)``."""
    rows = matrix.gather(1, order[:, :, None].expand_as(matrix))
    return rows.gather(2, order[:, None, :].expand_as(matrix))
