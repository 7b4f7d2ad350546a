"""Sheets: one picture per image that shows what the maps of its labels prove. Saved results and notebooks show them.

A sheet has a title, captioned pictures in at most three columns, and notes. Its letters can be read when it is shown 390 pixels wide. Texts
and rows of a table have no sheets: :mod:`proofmap.report.listed` writes them as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from PIL import Image, ImageDraw, ImageFont

from proofmap.core.inputs import Series
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, shortened
from proofmap.report.cell import curve_picture, enlarged, fitted, proof_picture
from proofmap.report.pictures import INK, SOFT, STRENGTHS, Colour, photo, view_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import WRONG_WORDS, fill_notes
from proofmap.results.proof_shape import other_curve_note, shape_of, short_percent
from proofmap.results.records import MethodResult

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

SIDE, _COMPARED, _GAP, _COLUMNS = 340, 240, 24, 3
_TITLE, _PLAIN, _SMALL = 34, 27, 22
"""Sizes of letters. A sheet of three columns is 1,116 pixels wide."""
_NOTES = (
    "In colour: the first {positions} of a map, up to where the net says the label as strongly as for the whole {noun}, or, where a cut at the "
    "peak is noted, up to the peak. {lines}Curve: what the net says, from 0 to 100 %, as {positions} are shown, best first; dotted: the belief; "
    "orange: more than the belief.",
    "Belief: for the whole {noun}. Proof: the mean of the curve. Peak: its largest value. Green: a proof, its mean is 80 to 125 % of the "
    "belief and its curve stays near the belief. Amber: the mean is right, so scores count it as proved, but the curve overshoots on its way. "
    "Trifle: belief and peak are below 5 %.",
)
_LINES = "Thin lines: a half and a quarter of them. "
MOST_IMAGES, MOST_LABELS = 50, 8
"""Sheets are made for the first ``MOST_IMAGES`` images, and show the first ``MOST_LABELS`` labels."""


@dataclass(frozen=True)
class SheetText:
    """A text of a sheet, which continues on further lines if it is long. By default its colour is dark, or gray if ``small``."""

    text: str
    colour: Colour | None = None
    small: bool = False


@dataclass(frozen=True)
class SheetCell:
    """A cell of a sheet: a heading, an optional picture with a curve, and texts below it."""

    heading: str
    picture: Image.Image | None
    lines: tuple[SheetText, ...] = ()
    curve: Image.Image | None = None


@dataclass(frozen=True)
class SheetSection:
    """Cells of a sheet under an optional heading."""

    cells: Sequence[SheetCell]
    heading: str = ""


def sheet(
    title: str,
    sections: Sequence[SheetSection],
    notes: Sequence[str] = (),
    side: int = SIDE,
    columns: int | None = None,
) -> Image.Image:
    """The picture of a sheet. The longer side of each picture is ``side`` pixels. By default, :func:`columns_of` gives the number of columns."""
    columns = columns or columns_of(max(len(section.cells) for section in sections))
    room = columns * (side + _GAP) - _GAP
    parts = [_written(title, _TITLE, INK, room)]
    for section in sections:
        if section.heading:
            parts.append(_written(section.heading, _TITLE, INK, room))
        for first in range(0, len(section.cells), columns):
            parts.append(_row(section.cells[first : first + columns], side))
    parts += [_written(note, _SMALL, SOFT, room) for note in notes]
    whole = _stacked(parts, room, _GAP // 2)
    page = Image.new("RGB", (room + 2 * _GAP, whole.height + 2 * _GAP), "white")
    page.paste(whole, (_GAP, _GAP))
    return page


def columns_of(cells: int) -> int:
    """The number of columns for a number of cells: at most three, and two for four cells.

    >>> [columns_of(cells) for cells in (1, 2, 3, 4, 5, 9)]
    [1, 2, 3, 2, 3, 3]
    """
    return 2 if cells == 4 else min(cells, _COLUMNS)


def _row(cells: Sequence[SheetCell], side: int) -> Image.Image:
    """Cells side by side. Their pictures begin at the same height."""
    headings = max(len(_lines(cell.heading, _font(_PLAIN), side)) for cell in cells)
    tallest = max((fitted(cell.picture.size, side)[1] for cell in cells if cell.picture), default=0)
    drawn = []
    for cell in cells:
        parts = [_written(cell.heading, _PLAIN, INK, side, headings)]
        if cell.picture is not None:
            parts.append(Image.new("RGB", (side, tallest), "white"))
            parts[-1].paste(enlarged(cell.picture, side))
        if cell.curve is not None:
            parts.append(cell.curve)
        for text in cell.lines:
            colour = text.colour or (SOFT if text.small else INK)
            parts.append(_written(text.text, _SMALL if text.small else _PLAIN, colour, side))
        drawn.append(_stacked(parts, side, 4))
    row = Image.new("RGB", (len(cells) * (side + _GAP), max(part.height for part in drawn)), "white")
    for k, part in enumerate(drawn):
        row.paste(part, (k * (side + _GAP), 0))
    return row


def _stacked(parts: Sequence[Image.Image], width: int, gap: int) -> Image.Image:
    """Pictures below one another."""
    page = Image.new("RGB", (width, sum(part.height + gap for part in parts)), "white")
    y = 0
    for part in parts:
        page.paste(part, (0, y))
        y += part.height + gap
    return page


def _written(text: str, size: int, colour: Colour, width: int, least: int = 0) -> Image.Image:
    """A picture of a text in lines of at most ``width`` pixels, with room for at least this number of lines."""
    font, step = _font(size), round(1.25 * size)
    lines = _lines(text, font, width)
    page = Image.new("RGB", (width, step * max(len(lines), least)), "white")
    for k, line in enumerate(lines):
        ImageDraw.Draw(page).text((0, step * k), _fitting(line, font, width), colour, font)
    return page


@cache
def _font(size: int) -> Font:
    return ImageFont.load_default(size)


@lru_cache(maxsize=1_000)
def _lines(text: str, font: Font, width: int) -> tuple[str, ...]:
    """The text in lines of at most ``width`` pixels, broken at spaces, but not before ``%``. Results are cached, because the sheets of a run repeat most texts."""
    lines: list[str] = []
    for word in re.split(r" (?!%)", text) if text else ():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return tuple(lines)


@lru_cache(maxsize=1_000)
def _fitting(text: str, font: Font, width: int) -> str:
    """The text in one line, shortened to ``width`` pixels."""
    return shortened(text, width, dots="...", measure=font.getlength)


# ---- sheets of evaluations ----------------------------------------------------------------------------------


def proof_cell(evaluation: Evaluation, result: MethodResult, index: int, place: int, side: int) -> SheetCell:
    """The cell of one proof: its picture, its curve, its numbers and its word."""
    shape, inputs = shape_of(evaluation, result, index, place), view_of(evaluation, index)
    heat, curves = evaluation.map_of(result, index, place), result.insertion
    shares = (curves.counts.double() / curves.positions).numpy()
    colour = STRENGTHS[shape.word] or SOFT
    numbers = (  # the letters have no arrow
        shape.numbers.replace(" →", ",").split(" · ") if side >= SIDE else re.split(" [→·] ", shape.numbers)
    )
    lines = [*map(SheetText, numbers), SheetText(shape.verdict, colour)]
    if shape.empty_words:
        lines.append(SheetText(shape.empty_words, STRENGTHS["strong"]))
    lines.append(SheetText(shape.cut_words(inputs.position_noun), small=True))
    if evaluation.wrong_kind(index, place):
        lines.append(SheetText(WRONG_WORDS, small=True))
    return SheetCell(
        evaluation.label_name(index, place),
        proof_picture(evaluation.image_of(index), heat, inputs, shape, side),
        tuple(lines),
        curve_picture(shares, curves.probabilities[index, place].cpu().numpy(), shape, side),
    )


def explained_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image: what the maps of its labels prove, by one method or by several. ``crop`` is a note on how much of the original
    the net sees."""
    inputs, places = view_of(evaluation, index), evaluation.places_of(index)[:MOST_LABELS]
    side = round(1.6 * SIDE) if inputs.view_words else SIDE
    seen = photo(evaluation.image_of(index), inputs)
    first = SheetCell(f"the {inputs.singular}", seen)
    sections, several = list[SheetSection](), len(evaluation.results) > 1
    side, columns = (
        (side * _COMPARED // SIDE, len(places)) if several and len(places) > _COLUMNS else (side, None)
    )
    for result in evaluation.results:
        cells = [proof_cell(evaluation, result, index, place, side) for place in places]
        about = [result.name] * several + ["one map for all labels"] * result.label_free
        sections.append(SheetSection(cells if several else [first, *cells], ", ".join(about)))
    if several:
        said = (
            f"{evaluation.label_name(index, j)} {short_percent(float(evaluation.f[index, j]))}"
            for j in places
        )
        says = SheetCell("the net says", None, tuple(map(SheetText, said)))
        sections.insert(0, SheetSection([first, says]))
    by = "each method" if several else evaluation.results[0].name
    title = f"{evaluation.image_names[index]}: what does {by} prove?"
    notes = [*filter(None, [crop, inputs.view_words]), *sheet_notes(evaluation, index)]
    return sheet(title, sections, notes, side, columns)


def sheet_notes(evaluation: Evaluation, index: int) -> list[str]:
    """The notes below a sheet: how to read it, the settings, and what was left out."""
    labels, images = int((evaluation.labels[index] != NO_LABEL).sum()), len(evaluation)
    pictured = len(evaluation.pictured[:MOST_IMAGES])
    left_out = []
    if labels > MOST_LABELS:
        left_out.append(f"the first {MOST_LABELS} of {counted(labels, 'label')}")
    if images > pictured:
        left_out.append(f"sheets of {pictured} of {counted(images, evaluation.inputs.singular)}")
    inputs, is_line = evaluation.inputs, isinstance(evaluation.inputs, Series)
    words = {"positions": inputs.position_noun, "noun": inputs.singular, "lines": "" if is_line else _LINES}
    curve, settings = evaluation.results[0].insertion.settings, evaluation.settings
    made = (
        f"Made with the net {settings.get('model', '-')}, {curve.get('points', '-')} points of each curve, fill {curve.get('fill', '-')}, "
        f"seed {settings.get('seed', '-')}."
    )
    return [
        *(note.format(**words) for note in _NOTES),
        *fill_notes(evaluation, drawn=True),
        *filter(None, [other_curve_note(evaluation)]),
        made,
        *([f"Shown: {', '.join(left_out)}."] if left_out else []),
    ]
