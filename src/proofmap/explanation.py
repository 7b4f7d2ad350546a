"""Explain images: one method's maps for several labels, with what each map proves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.evaluation import Evaluation, MethodResult, default_metrics, evaluate
from proofmap.labels import Labels
from proofmap.methods.method import MethodLike
from proofmap.metrics.curves import CurveSettings
from proofmap.metrics.proof import Thresholds
from proofmap.progress import Progress


@dataclass(frozen=True)
class Proof:
    """One method's maps, judged; a view of an :class:`~proofmap.evaluation.Evaluation` with a single method."""

    evaluation: Evaluation

    @property
    def result(self) -> MethodResult:
        return self.evaluation.results[0]

    @property
    def maps(self) -> Tensor:
        """``(N, L, H, W)``."""
        return self.result.maps

    @property
    def labels(self) -> Tensor:
        """``(N, L)``, indices into the classifier's outputs; -1 where an image has fewer labels."""
        return self.evaluation.labels

    @property
    def scores(self) -> str:
        """A table with one line per image and label: f, AUC, completeness, soundness."""
        from proofmap.report.tables import pair_table

        return pair_table(self.evaluation)

    def __str__(self) -> str:
        return self.scores

    def save(self, folder: str | Path) -> list[Path]:
        """Write one picture per image, the maps and the numbers; returns what was written."""
        from proofmap.report.files import save_proof

        return save_proof(self.evaluation, folder)


def explain(
    classifier: Classifier,
    images: Tensor,
    *,
    labels: Labels = "top5",
    method: MethodLike = "learned-mask",
    thresholds: str | tuple[float, float] | Thresholds = "paper",
    curve: str | CurveSettings = "paper",
    names: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Proof:
    """Maps for the chosen labels of each image, and what they prove."""
    metrics = [m for m in default_metrics(thresholds, curve) if m.name != "deletion"]
    return Proof(
        evaluate(
            classifier,
            images,
            methods=[method],
            labels=labels,
            metrics=metrics,
            names=names,
            seed=seed,
            progress=progress,
        )
    )
