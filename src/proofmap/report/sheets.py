"""The layout of a sheet, which is one picture with a grid of captioned pictures, a small bar chart for each proof, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from PIL import Image, ImageDraw, ImageFont

from proofmap.core.text import shortened
from proofmap.report.colours import INK, PAPER, SIGNED_NOTE, SIGNED_WORDS, SOFT, STRENGTHS, colour_bar
from proofmap.results.proof_shape import ProofShape

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_GAP, _LINE, _SHAPE = 18, 20, 24
_BAR, _LEAST_BAR = 140, 60


@dataclass(frozen=True)
class SheetText:
    """A line of text with its colour. By default the colour is dark if ``strong``, otherwise gray."""

    text: str
    strong: bool = False
    colour: tuple[int, int, int] | None = None
    wraps: bool = False
    """Whether a long text continues on further lines instead of being cut."""


@dataclass(frozen=True)
class SheetCell:
    """A cell of a sheet: an optional picture with lines of text below it."""

    picture: Image.Image | None
    lines: tuple[SheetText, ...] = ()
    shape: ProofShape | None = None
    """The shape of a proof, drawn as bars between the picture and the text."""
    above: SheetText | None = None
    """A line above the picture."""


def draw_shape(draw: ImageDraw.ImageDraw, shape: ProofShape, x: int, y: int, width: int) -> None:
    """Draw the shape of a proof as two bars in a box 18 pixels high. The upper bar shows the belief (pale), the average (in the colour of the
    verdict), and a line up to the peak. The lower bar shows the share of the positions that reaches the belief.
    """

    def at(p: float | None) -> int:
        return x if p is None or p != p else x + round(min(max(p, 0.0), 1.0) * (width - 1))

    colour = STRENGTHS[shape.strength.word] or SOFT
    draw.rectangle((x, y, x + width - 1, y + 10), (232, 234, 238))
    draw.rectangle((x, y, at(shape.belief), y + 10), (196, 200, 208))
    draw.rectangle((x, y + 3, at(shape.average), y + 7), colour)
    draw.line((at(shape.average), y + 5, at(shape.peak), y + 5), colour, 2)
    draw.line((at(shape.peak), y + 2, at(shape.peak), y + 8), colour, 2)
    draw.line((at(shape.belief), y, at(shape.belief), y + 10), INK, 2)
    draw.rectangle((x, y + 13, x + width - 1, y + 16), (232, 234, 238))
    if shape.reach is not None:
        draw.rectangle((x, y + 13, at(shape.reach), y + 16), (80, 84, 92))


def sheet(
    title: str,
    rows: Sequence[Sequence[SheetCell]],
    notes: Sequence[str] = (),
    side: int = 224,
    ratio: float = 1.0,
    signed: bool = False,
) -> Image.Image:
    """The picture of a sheet: the title, a grid of captioned pictures, and notes.

    The longer side of each picture is ``side`` pixels, and a row reserves ``ratio * side`` pixels for the height of its pictures. A row
    without pictures is only as high as its text. If ``signed``, a colour bar explains the colours of signed maps.
    """
    tall = round(ratio * side)
    big, plain, small = (_font(size) for size in (20, 15, 13))
    wide = _GAP + max(len(cells) for cells in rows) * (side + _GAP)
    laid = [[_laid_out(cell.lines, plain, side) for cell in cells] for cells in rows]
    heights = [
        _GAP
        + max(
            (tall + 4 if cell.picture else 0)
            + (_SHAPE if cell.shape else 0)
            + _LINE * (len(lines) + bool(cell.above))
            for cell, lines in zip(cells, texts, strict=True)
        )
        for cells, texts in zip(rows, laid, strict=True)
    ]
    bar = 26 if signed else 0
    notes = [f"{SIGNED_NOTE[0].upper()}{SIGNED_NOTE[1:]}.", *notes] if signed else notes
    below_all = [line for note in notes for line in _lines(note, small, wide - 2 * _GAP)]
    page = Image.new("RGB", (wide, 58 + sum(heights) + bar + 18 * len(below_all) + 10), PAPER)
    draw = ImageDraw.Draw(page)
    draw.text((_GAP, 16), _fitting(title, big, wide - 2 * _GAP), INK, big)
    y = 58
    for cells, texts, height in zip(rows, laid, heights, strict=True):
        for column, (cell, lines) in enumerate(zip(cells, texts, strict=True)):
            x, below = _GAP + column * (side + _GAP), y
            if cell.above is not None:
                draw.text((x, y), _fitting(cell.above.text, plain, side), INK, plain)
                below += _LINE
            if cell.picture is not None:
                page.paste(_enlarged(cell.picture, side), (x, below))
                below += tall + 4
            if cell.shape is not None:
                draw_shape(draw, cell.shape, x, below + 2, side)
                below += _SHAPE
            for k, text in enumerate(lines):
                colour = text.colour or (INK if text.strong else SOFT)
                draw.text((x, below + _LINE * k), _fitting(text.text, plain, side), colour, plain)
        y += height
    if signed:
        _draw_bar(page, draw, y, small)
    y += bar
    for k, line in enumerate(below_all):
        draw.text((_GAP, y + 18 * k), line, SOFT, small)
    return page


def _draw_bar(page: Image.Image, draw: ImageDraw.ImageDraw, y: int, font: Font) -> None:
    """Draw the colour bar of signed maps, with the meaning of its ends to the left and right. The bar is shortened if the sheet is narrow."""
    against, towards = f"Signed maps: {SIGNED_WORDS[0]}", SIGNED_WORDS[1]
    before, after = (round(draw.textlength(words, font)) + 8 for words in (against, towards))
    room = page.width - 2 * _GAP - before - after
    bar = colour_bar(max(_LEAST_BAR, min(_BAR, room)), 12)
    draw.text((_GAP, y), against, SOFT, font)
    page.paste(bar, (_GAP + before, y + 2))
    draw.text((_GAP + before + bar.width + 8, y), towards, SOFT, font)


def _enlarged(picture: Image.Image, side: int) -> Image.Image:
    factor = side / max(picture.size)
    how = Image.Resampling.NEAREST if factor >= 2 else Image.Resampling.LANCZOS
    return picture.resize((round(picture.width * factor), round(picture.height * factor)), how)


@cache
def _font(size: int) -> Font:
    return ImageFont.load_default(size)


@lru_cache(maxsize=1_000)
def _lines(text: str, font: Font, width: int) -> tuple[str, ...]:
    """The text in lines of at most ``width`` pixels, broken at spaces. Results are cached, because the sheets of a run repeat most texts."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return tuple(lines)


def _laid_out(lines: Sequence[SheetText], font: Font, width: int) -> list[SheetText]:
    """The lines of a cell, with each line that wraps broken into lines of at most ``width`` pixels."""
    return [
        replace(text, text=part)
        for text in lines
        for part in (_lines(text.text, font, width) if text.wraps else (text.text,))
    ]


@lru_cache(maxsize=1_000)
def _fitting(text: str, font: Font, width: int) -> str:
    """The text in one line, shortened to ``width`` pixels."""
    return shortened(text, width, dots="...", measure=font.getlength)
