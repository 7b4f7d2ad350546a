"""Scores of one label against another: the label x label matrix as a number, and the second label alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.metrics import proof
from proofmap.metrics.areas import GameMetric
from proofmap.metrics.context import MOST_LABELS_IN_MATRIX, Judged
from proofmap.metrics.metric import METRICS
from proofmap.metrics.proof_scores import ProofMetric
from proofmap.plugins.settings import setting


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class ClassSensitivity(GameMetric):
    """How much more a label's own map proves it than the maps of the image's other labels do:

        mean over labels a of  AUC(x, a, M_a) - mean over b != a of AUC(x, a, M_b)

    Zero for one map for all labels, however good it is; below zero where maps are mixed up. Its size depends on the net, too: labels that
    share their pixels cannot be told apart. NaN where an image has one label. It costs no passes: it reads the label x label matrix.
    """

    name: ClassVar[str] = "class-sensitivity"
    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    description: ClassVar[str] = "area of a label under its own map, less that under the other labels' maps"
    reference: ClassVar[str] = "Rebuffi et al. 2020 (class sensitivity), on the paper's AUC"

    def pairs(self, judged: Judged) -> Tensor:
        matrix = self.curves(judged).matrix
        if matrix is None:
            raise InputError(
                f"class-sensitivity reads the label x label matrix, which is kept up to {MOST_LABELS_IN_MATRIX} labels; "
                "judge fewer labels, such as top10"
            )
        own = matrix.diagonal(dim1=1, dim2=2)
        itself = torch.eye(matrix.shape[1], dtype=torch.bool, device=matrix.device)
        others = matrix.masked_fill(itself, torch.nan).nanmean(dim=1)
        return own - others

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class SecondSoundness(ProofMetric):
    """beta(x, a) of the label that the net puts second; NaN where it was not judged.

    The label that is most easily confused with the top one, and the same for every method and number of labels: it does not fall when
    more labels are judged, as the worst case does.
    """

    name: ClassVar[str] = "second-soundness"
    description: ClassVar[str] = "min(max(f, e2) / AUC, 1) of the net's second label"
    e2: float = setting(0.001, "floor of f, which soundness is never below", least=0, most=1)

    def __call__(self, judged: Judged) -> Tensor:
        curves = self.curves(judged)
        second = judged.labels == judged.top2[0][:, 1:]
        scores = proof.soundness(curves.auc, curves.f, self.e2).masked_fill(~second, torch.nan)
        return proof.worst_case(scores)
