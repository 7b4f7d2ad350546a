"""The results of ``explain``: maps for several labels, from one or several methods, and what each map proves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.text import one_line
from proofmap.results.display import display
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import fill_notes
from proofmap.results.records import MethodResult
from proofmap.results.score_tables import pair_table, pairs_html


@dataclass(frozen=True)
class PairScores:
    """A sequence of rows that say what each map proves, one per method, image and label. Prints as a table."""

    evaluation: Evaluation

    @property
    def rows(self) -> tuple[Mapping[str, object], ...]:
        return tuple(row for result in self.evaluation.results for row in result.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, object]:
        return self.rows[index]

    def table(self, width: int | None = None) -> str:
        """The rows as aligned text, with a bar for each proof; stacked if they are wider than ``width``. The name of an only method is above
        them."""
        results = self.evaluation.results
        above = [f"maps by {one_line(results[0].name)}"] if len(results) == 1 else []
        return "\n".join([*above, pair_table(self.evaluation, width=width), *fill_notes(self.evaluation)])

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return pairs_html(self.evaluation)


@dataclass(frozen=True)
class Proof:
    """The judged maps of one or several methods: a view of an :class:`~proofmap.results.evaluation.Evaluation`.

    ``proof["grad-cam"]`` is the proof of one of several methods.
    """

    evaluation: Evaluation

    def __getitem__(self, method: str) -> Proof:
        """The proof of one method, by its name or by a unique prefix of its name."""
        return Proof(replace(self.evaluation, results=(self.evaluation[method],), run_scores=()))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods, in the given order."""
        return tuple(result.name for result in self.evaluation.results)

    @property
    def result(self) -> MethodResult:
        """The result of the only method. Raises :class:`InputError` if there are several methods."""
        if len(self.methods) > 1:
            raise InputError(
                f"there are {len(self.methods)} methods; name one, such as proof[{self.methods[0]!r}].maps"
            )
        return self.evaluation.results[0]

    @property
    def maps(self) -> Tensor:
        """The maps ``(N, L, *positions)``, such as ``(N, L, H, W)``. Raises :class:`InputError` if there are several methods."""
        return self.evaluation.maps_of(self.result)

    @property
    def labels(self) -> Tensor:
        """The explained labels ``(N, L)`` as indices into the classifier's outputs, padded with -1."""
        return self.evaluation.labels

    @property
    def scores(self) -> PairScores:
        """One row per method, image and label, with f (the net's probability of the label), completeness, soundness and insertion (the AUC).
        Prints as a table."""
        return PairScores(self.evaluation)

    def table(self, width: int | None = None) -> str:
        """A text table of what each map proves. A table wider than ``width`` columns is stacked."""
        return self.scores.table(width)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return display().proof_html(self.evaluation)

    def _repr_png_(self) -> bytes | None:
        return display().proof_png(self.evaluation)

    def save(self, folder: str | Path) -> list[Path]:
        """Write one picture per image, the maps and the numbers. Returns the paths."""
        return display().save_proof(self.evaluation, folder)
