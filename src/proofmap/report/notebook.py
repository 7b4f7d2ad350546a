"""How results show themselves in a notebook: plain HTML with pictures inside, no script and no extension."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

from PIL import Image

from proofmap.core.text import counted
from proofmap.report.pictures import comparison_sheet, explained_sheet, pictured_images
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.html_tables import pairs_html, table_html

MOST_PICTURES = 3
WIDEST = 1200
"""Pictures are shrunk to this many pixels across."""
MOST_BYTES = 1_500_000
"""What the pictures of one result may weigh together, so that a saved notebook stays small."""


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
    sheets = _pictures([explained_sheet(evaluation, i) for i in shown], len(evaluation))
    return sheets + pairs_html(evaluation)


def proof_png(evaluation: Evaluation) -> bytes | None:
    """The sheet of the first image whose maps were kept; None where there is none."""
    shown = pictured_images(evaluation)
    return _png(explained_sheet(evaluation, shown[0])) if shown else None


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
        parts.append(
            f'<div style="font-size:small;color:#666">{len(parts)} of {counted(images, "image")}</div>'
        )
    return "".join(parts)


def _png(sheet: Image.Image) -> bytes:
    """A picture no wider than a notebook's page."""
    if sheet.width > WIDEST:
        height = max(1, round(sheet.height * WIDEST / sheet.width))
        sheet = sheet.resize((WIDEST, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()
