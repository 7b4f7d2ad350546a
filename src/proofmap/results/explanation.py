"""One method's maps for several labels, with what each map proves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from proofmap.results.display import display
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult


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
        from proofmap.results.tables import pair_table

        return pair_table(self.evaluation)

    def _repr_html_(self) -> str:
        from proofmap.results.html_tables import pairs_html

        return pairs_html(self.evaluation)


@dataclass(frozen=True)
class Proof:
    """One method's maps, judged; a view of an :class:`~proofmap.results.evaluation.Evaluation` with a single method."""

    evaluation: Evaluation

    @property
    def result(self) -> MethodResult:
        return self.evaluation.results[0]

    @property
    def maps(self) -> Tensor:
        """``(N, L, *positions)``, such as ``(N, L, H, W)``."""
        return self.evaluation.maps_of(self.result)

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
        return display().proof_html(self.evaluation)

    def _repr_png_(self) -> bytes | None:
        return display().proof_png(self.evaluation)

    def save(self, folder: str | Path) -> list[Path]:
        """Write one picture per image, the maps and the numbers; returns what was written."""
        return display().save_proof(self.evaluation, folder)
