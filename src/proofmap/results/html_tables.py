"""Results as plain HTML for notebooks: tables with notes, no pictures and no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.results.fill_alone import fill_notes
from proofmap.results.records import EvaluationRecord

MOST_ROWS = 50


def pairs_html(evaluation: EvaluationRecord) -> str:
    """One row per method, image and label."""
    header, rows = tables.pair_cells(evaluation)
    left_out = len(rows) - MOST_ROWS
    notes = [f"{counted(left_out, 'more row')}; print the result to see all"] if left_out > 0 else []
    return table_html(header, rows[:MOST_ROWS], [*notes, *fill_notes(evaluation)])


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    bold: Sequence[Sequence[bool]] | None = None,
) -> str:
    """A table with notes below; text to the left, numbers to the right."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    sides = ["left" if any(c[:1].isalpha() for c in column) else "right" for column in columns]
    lines = [_row("th", header, sides, [False] * len(header))]
    for i, row in enumerate(rows):
        lines.append(_row("td", row, sides, bold[i] if bold else [False] * len(row)))
    quoted = "".join(f"<br>{escape(note)}" for note in notes)
    small = f'<div style="font-size:small;color:#666">{quoted.removeprefix("<br>")}</div>' if notes else ""
    return f"<table>{''.join(lines)}</table>{small}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str], bold: Sequence[bool]) -> str:
    shown = [f"<b>{escape(c)}</b>" if b else escape(c) for c, b in zip(cells, bold, strict=True)]
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="text-align:{side}">{c}</{tag}>' for c, side in zip(shown, sides, strict=True)
        )
        + "</tr>"
    )
