"""The results of a recipe: tables with the paper's numbers, claims that hold or fail, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofmap.core.progress import Progress
from proofmap.core.text import counted
from proofmap.report.figures.drawing import Figure
from proofmap.reproduce.recipe import Recipe
from proofmap.results import tables
from proofmap.results.statistics import Score
from proofmap.study.watchers import Watcher


@dataclass(frozen=True)
class PaperTable:
    """A table as rows of texts for people, and its numbers as plain records for programs."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    records: Sequence[Mapping[str, object]]

    def text(self) -> str:
        return f"{self.title}\n\n{tables.aligned(self.header, self.rows)}"


def score_table(
    title: str,
    keys: Sequence[str],
    columns: Sequence[str],
    rows: Mapping[Any, Sequence[Score]],
    paper: Mapping[str, Mapping[str, float]] | None = None,
) -> PaperTable:
    """A table of scores: means with their intervals.

    ``rows`` has the scores of each row by the row's cells under ``keys``. ``paper`` has the numbers that the paper prints, by the first of these
    cells and by the name of the score; they are put beside the scores found here.
    """
    shown, records = [], []
    for row, scores in rows.items():
        cells = list(row)
        for score in scores:
            printed = (paper or {}).get(row[0], {}).get(score.name)
            beside = "" if printed is None else f" (paper {tables.number(float(printed))})"
            cells.append(tables.with_interval(score.value, score.low, score.high, score.n) + beside)
            record = {**dict(zip(keys, row, strict=True)), "score": score.name, **score.numbers()}
            records.append(
                record if paper is None else {**record, "paper": "" if printed is None else printed}
            )
        shown.append(cells + [""] * (len(columns) - len(scores)))
    return PaperTable(title, (*keys, *columns), shown, records)


def verdict_of(holds: bool | None) -> str:
    """``reproduced``, ``contradicted`` or ``undecided``."""
    return "undecided" if holds is None else "reproduced" if holds else "contradicted"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and whether it holds for the numbers found here. ``found`` is a text with these numbers.

    ``holds`` is None if the numbers do not decide. ``checked`` is False for a claim that is only reported: ``--check`` does not fail because
    of such a claim, as it is known not to hold on this net.
    """

    statement: str
    holds: bool | None
    found: str
    checked: bool = True

    @property
    def verdict(self) -> str:
        return verdict_of(self.holds)

    def text(self) -> str:
        return f"{self.verdict}: {self.statement} ({self.found})"


@dataclass(frozen=True)
class WorkDone:
    """How much was computed: images, labels per image, and passes of the net. ``whole`` is False if a part comes from an earlier run.

    >>> print(WorkDone(200, 10, 1_500_000))
    200 images x 10 labels, 1,500,000 passes of the net
    """

    images: int
    labels: int
    passes: int
    whole: bool = True

    def __str__(self) -> str:
        rest = "" if self.whole else "; the rest was there from an earlier run"
        size = f"{counted(self.images, 'image')} x {counted(self.labels, 'label')}"
        return f"{size}, {counted(self.passes, 'pass')} of the net{rest}"


@dataclass(frozen=True)
class Findings:
    """Everything that one recipe found."""

    tables: tuple[PaperTable, ...]
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] | Mapping[str, Figure] = ()
    """The figures, or a mapping from file name to figure if file names differ from the names of figures."""
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """The files that the experiment itself wrote to the run directory."""
    work: WorkDone | None = None
    failed: int = 0
    """Number of images that could not be read, plus (method, image) pairs on which a method failed."""

    @property
    def named_figures(self) -> Mapping[str, Figure]:
        """The figures by the names of their files."""
        figures = self.figures
        return figures if isinstance(figures, Mapping) else {figure.name: figure for figure in figures}

    @property
    def holds(self) -> bool:
        """Whether no checked claim was contradicted."""
        return all(claim.holds is not False for claim in self.claims if claim.checked)

    def text(self) -> str:
        parts = [table.text() for table in self.tables]
        lines = [claim.text() for claim in self.claims] + [f"note: {note}" for note in self.notes]
        return "\n\n".join([*parts, "\n".join(lines)] if lines else parts)


@dataclass(frozen=True)
class Job:
    """A recipe to be run: the chosen settings and the output folder."""

    recipe: Recipe
    settings: Mapping[str, Any]
    folder: Path
    missing: Sequence[str] = ()
    """The names of the parts that are left out because what they need is missing."""
    data: Path = Path()
    """The folder with the files that the recipe needs."""
    images: int | None = None
    start: Path | None = None
    """The directory of a run whose maps are used, if any; see :mod:`proofmap.reproduce.stored_maps`."""
    seed: int = 0
    images_seed: int | None = None
    """Seed for the choice of images; by default the recipe's."""
    device: str | None = None
    progress: Progress = field(default_factory=Progress)
    watchers: Sequence[Watcher] = ()
    command: str = ""

    def left_out(self) -> list[str]:
        """Notes on optional parts that were requested but left out: which file each part needs, and in which folder."""
        rows = rows_of(self.settings)
        return [
            f"left out: {need.gives}, which needs {need.describe(self.data)}"
            for need in self.recipe.needs
            if need.gives in self.missing and (not rows or need.gives in rows)
        ]


def rows_of(settings: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A recipe's rows by their names; empty if its experiment is not a study."""
    return {str(row.get("name", row["method"])): row for row in settings.get("study", {}).get("methods", ())}
