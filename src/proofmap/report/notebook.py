"""How results show themselves in a notebook: plain HTML with pictures inside, no script and no extension."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

from PIL import Image

from proofmap.evaluation import Evaluation
from proofmap.metrics.statistics import Score
from proofmap.report import tables
from proofmap.report.pictures import comparison_sheet, pictured_images, proof_sheet

MOST_PICTURES = 3
WIDEST = 1200
"""Pictures are shrunk to this many pixels across."""
MOST_BYTES = 1_500_000
"""What the pictures of one result may weigh together, so that a saved notebook stays small."""
MOST_ROWS = 50


def evaluation_html(evaluation: Evaluation) -> str:
    """The scores, what they depend on, and the sheets of the first images."""
    header, rows = tables.score_cells(evaluation)
    bold = tables.best_two(evaluation)
    table = table_html(header, rows, tables.score_notes(evaluation), bold=bold)
    shown = pictured_images(evaluation)[:MOST_PICTURES]
    return table + _pictures([comparison_sheet(evaluation, i) for i in shown], len(evaluation))


def proof_html(evaluation: Evaluation) -> str:
    """The sheets of the first images, then what each map proves."""
    shown = pictured_images(evaluation)[:MOST_PICTURES]
    sheets = _pictures([proof_sheet(evaluation, i) for i in shown], len(evaluation))
    return sheets + pairs_html(evaluation)


def pairs_html(evaluation: Evaluation) -> str:
    """One row per image and label."""
    header, rows = tables.pair_cells(evaluation, methods=1)
    left_out = len(rows) - MOST_ROWS
    notes = [f"{left_out} more rows; print the result to see all"] if left_out > 0 else []
    return table_html(header, rows[:MOST_ROWS], notes)


def proof_png(evaluation: Evaluation) -> bytes | None:
    """The sheet of the first image whose maps were kept; None where there is none."""
    shown = pictured_images(evaluation)
    return _png(proof_sheet(evaluation, shown[0])) if shown else None


def score_html(score: Score) -> str:
    """One score in a line, its settings when pointed at."""
    settings = ", ".join(f"{key} = {value}" for key, value in score.settings.items())
    plain = str(Score(score.name, score.value, score.low, score.high, score.n, score.higher_is_better))
    return f'<span title="{escape(settings)}"><b>{escape(score.name)}</b>{escape(plain[len(score.name) :])}</span>'


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


def _pictures(sheets: Sequence[Image.Image], images: int) -> str:
    """Sheets as inline pictures, as many as may weigh together what a notebook should."""
    parts: list[str] = []
    weight = 0
    for sheet in sheets:
        data = _png(sheet)
        weight += len(data)
        if parts and weight > MOST_BYTES:
            break
        source = base64.b64encode(data).decode()
        parts.append(
            f'<img src="data:image/png;base64,{source}" alt="heat maps" style="max-width:100%;display:block">'
        )
    if parts and len(parts) < images:
        parts.append(f'<div style="font-size:small;color:#666">{len(parts)} of {images} images</div>')
    return "".join(parts)


def _png(sheet: Image.Image) -> bytes:
    """A picture no wider than a notebook's page."""
    if sheet.width > WIDEST:
        height = max(1, round(sheet.height * WIDEST / sheet.width))
        sheet = sheet.resize((WIDEST, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()
