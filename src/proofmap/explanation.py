"""Explain images: one method's maps for several labels, with what each map proves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
class PairScores:
    """What each map proves: a sequence of rows that prints as a table."""

    evaluation: Evaluation

    @property
    def rows(self) -> tuple[Mapping[str, object], ...]:
        return self.evaluation.results[0].rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, object]:
        return self.rows[index]

    def __str__(self) -> str:
        from proofmap.report.tables import pair_table

        return pair_table(self.evaluation)

    def _repr_html_(self) -> str:
        from proofmap.report.notebook import pairs_html

        return pairs_html(self.evaluation)


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
        return self.result.maps.expand(-1, self.labels.shape[1], -1, -1)

    @property
    def labels(self) -> Tensor:
        """``(N, L)``, indices into the classifier's outputs; -1 where an image has fewer labels."""
        return self.evaluation.labels

    @property
    def scores(self) -> PairScores:
        """One row per image and label: f, completeness, soundness, insertion (the AUC). Prints as a table."""
        return PairScores(self.evaluation)

    def __str__(self) -> str:
        return str(self.scores)

    def _repr_html_(self) -> str:
        from proofmap.report.notebook import proof_html

        return proof_html(self.evaluation)

    def _repr_png_(self) -> bytes | None:
        from proofmap.report.notebook import proof_png

        return proof_png(self.evaluation)

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
            keep_maps=None,
            seed=seed,
            progress=progress,
        )
    )
