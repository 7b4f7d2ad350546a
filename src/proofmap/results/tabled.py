"""Results that print as tables: as text in a terminal, as Markdown, and in notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod

from proofmap.results import tables
from proofmap.results.html_tables import table_html

Cells = tuple[list[str], list[list[str]]]
"""A header, and rows of as many cells."""


class Tables(ABC):
    """A result of several tables, with notes below the last."""

    notes: tuple[str, ...]

    @abstractmethod
    def tables(self) -> list[Cells]:
        """Header and rows of each table."""

    def table(self) -> str:
        """Aligned text with the notes below."""
        return "\n".join(["\n\n".join(tables.aligned(*cells) for cells in self.tables()), *self.notes])

    def markdown(self) -> str:
        *first, last = self.tables()
        return "\n\n".join(
            [*(tables.markdown(*cells) for cells in first), tables.markdown(*last, self.notes)]
        )

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        *first, last = self.tables()
        return "".join([*(table_html(*cells) for cells in first), table_html(*last, self.notes)])


class Table(Tables):
    """A result of one table."""

    @abstractmethod
    def cells(self) -> Cells:
        """Header and rows."""

    def tables(self) -> list[Cells]:
        return [self.cells()]
