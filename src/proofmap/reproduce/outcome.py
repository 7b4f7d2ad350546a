"""What a recipe finds: tables beside the paper's numbers, claims that hold or do not, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofmap.core.progress import Progress, Silent
from proofmap.report.figures import Figure
from proofmap.reproduce.recipe import Recipe
from proofmap.results import tables
from proofmap.study.watchers.status import Watcher


@dataclass(frozen=True)
class Table:
    """Rows of texts for people, and the numbers in them as plain records for machines."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    records: tuple[Mapping[str, object], ...]

    def text(self) -> str:
        return f"{self.title}\n\n{tables.aligned(self.header, self.rows)}"

    def markdown(self) -> str:
        return f"## {self.title}\n\n{tables.markdown(self.header, self.rows)}"


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, and whether it held here; ``found`` has the numbers."""

    statement: str
    holds: bool
    found: str

    def text(self) -> str:
        return f"{'holds' if self.holds else 'DOES NOT HOLD'}: {self.statement} ({self.found})"


@dataclass(frozen=True)
class Outcome:
    """Everything that one recipe found."""

    tables: tuple[Table, ...]
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """What the experiment itself wrote to the run directory."""

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)

    def text(self) -> str:
        parts = [table.text() for table in self.tables]
        told = [claim.text() for claim in self.claims] + [f"note: {note}" for note in self.notes]
        return "\n\n".join([*parts, "\n".join(told)] if told else parts)


@dataclass(frozen=True)
class Job:
    """One recipe about to be run: its settings as they were chosen, and where to."""

    recipe: Recipe
    settings: Mapping[str, Any]
    folder: Path
    missing: Sequence[str] = ()
    """The ``gives`` of optional needs that are not there: what is left out."""
    images: int | None = None
    seed: int = 0
    device: str | None = None
    progress: Progress = field(default_factory=Silent)
    watchers: Sequence[Watcher] = ()
    command: str = ""
