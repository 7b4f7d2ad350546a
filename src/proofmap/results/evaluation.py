"""An evaluation as people hold it: the records, with tables, notebook displays and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from proofmap.core.text import counted
from proofmap.results.display import display
from proofmap.results.records import EvaluationRecord

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Evaluation(EvaluationRecord):
    """What was found about methods. Prints as a table; ``save`` writes tables, records and pictures."""

    def table(self) -> str:
        """The scores as text: one line per method, one column per metric, intervals in brackets."""
        from proofmap.results.tables import score_table

        return score_table(self)

    def to_dataframe(self, table: str = "scores") -> pd.DataFrame:
        """The numbers as a pandas DataFrame, one row per ``value``: ``scores`` (means with intervals), ``per_image`` or
        ``per_label``."""
        from proofmap.results.frames import dataframe

        return dataframe(self, table)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        methods = ", ".join(result.name for result in self.results)
        return f"Evaluation({counted(len(self), 'image')}, {self.settings.get('model')}; {methods})"

    def _repr_html_(self) -> str:
        return display().evaluation_html(self)

    def save(self, folder: str | Path, *, pictures: bool = True) -> list[Path]:
        """Write ``scores.csv``, ``pairs.csv``, ``evaluation.json`` and the pictures; returns what was written."""
        return display().save_evaluation(self, folder, pictures=pictures)
