"""Sheets: one picture per image that shows what the maps of its labels prove. Saved results and notebooks show them.

A sheet has a title, a grid of captioned pictures with a small bar chart for each proof, and notes. Texts and rows of a table have no sheets:
:mod:`proofmap.report.listed` writes them as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures, Series
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import keep_top
from proofmap.core.text import counted, shortened, wrapped
from proofmap.report.pictures import (
    INK,
    KEPT_SHARE,
    SIGNED_WORDS,
    SOFT,
    STRENGTHS,
    colour_bar,
    hidden_of,
    masked_photo,
    overlay,
    per_pixel,
    photo,
    view_of,
)
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import WRONG_WORDS, fill_notes, fill_words
from proofmap.results.proof_shape import (
    BAR,
    ProofShape,
    other_curve_note,
    percent,
    shape_of,
    short_percent,
)
from proofmap.results.records import MethodResult

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_GAP, _LINE, _SHAPE = 18, 20, 24
_TINT, _LINE_INK = (222, 236, 230), 200
_BAR, _LEAST_BAR = 140, 60


_WIDE = 300
"""Width of a picture that shows several slices, in pixels."""
_NOTES = (
    "Upper bar: pale, the net's probability of the label on the whole {noun} (f); in it, its average while the map's {positions} are shown, "
    "best first (AUC), and a line up to the largest value. Lower bar: the share of the {positions} that reaches f.",
    f"A proof has an average close to f: less than {percent(BAR)} of f is too weak (incomplete), more than {percent(1 / BAR)} is too strong (unsound).",
)
MOST_IMAGES, MOST_LABELS = 50, 8
"""Sheets are made for the first ``MOST_IMAGES`` images, and show the first ``MOST_LABELS`` labels."""


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


def draw_shape(draw: ImageDraw.ImageDraw, shape: ProofShape, x: int, y: int, width: int) -> None:
    """Draw the shape of a proof as two bars in a box 18 pixels high. The upper bar shows the belief (pale), the average (in the colour of the
    verdict), and a line up to the peak. The lower bar shows the share of the positions that reaches the belief.
    """

    def at(p: float | None) -> int:
        return x if p is None or p != p else x + round(min(max(p, 0.0), 1.0) * (width - 1))

    colour = STRENGTHS[shape.word] or SOFT
    draw.rectangle((x, y, x + width - 1, y + 10), (232, 234, 238))
    draw.rectangle((x, y, at(shape.belief), y + 10), (196, 200, 208))
    draw.rectangle((x, y + 3, at(shape.proof), y + 7), colour)
    draw.line((at(shape.proof), y + 5, at(shape.peak), y + 5), colour, 2)
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
            (tall + 4 if cell.picture else 0) + (_SHAPE if cell.shape else 0) + _LINE * len(lines)
            for cell, lines in zip(cells, texts, strict=True)
        )
        for cells, texts in zip(rows, laid, strict=True)
    ]
    bar = 26 if signed else 0
    notes = [f"{SIGNED_WORDS[2].capitalize()}.", *notes] if signed else notes
    below_all = [line for note in notes for line in _lines(note, small, wide - 2 * _GAP)]
    page = Image.new("RGB", (wide, 58 + sum(heights) + bar + 18 * len(below_all) + 10), "white")
    draw = ImageDraw.Draw(page)
    draw.text((_GAP, 16), _fitting(title, big, wide - 2 * _GAP), INK, big)
    y = 58
    for cells, texts, height in zip(rows, laid, heights, strict=True):
        for column, (cell, lines) in enumerate(zip(cells, texts, strict=True)):
            x, below = _GAP + column * (side + _GAP), y
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


def _proof_cell(
    evaluation: Evaluation,
    result: MethodResult,
    index: int,
    place: int,
    picture: Image.Image,
    first: Sequence[SheetText] = (),
) -> SheetCell:
    """A cell of a sheet: the picture of a map, the shape of its proof, numbers and the verdict.

    A note is added if the fill alone gives the label, that is, if the net believes the label with nothing shown. ``first`` are lines above
    the numbers.
    """
    shape = shape_of(evaluation, result, index, place)
    numbers = f"average {short_percent(shape.proof)}, peak {short_percent(shape.peak)}"
    lines = [
        *first,
        SheetText(numbers),
        SheetText(shape.summary, colour=STRENGTHS[shape.word], wraps=True),
    ]
    if words := fill_words(result, index, place):
        lines.append(SheetText(words, colour=STRENGTHS["strong"]))
    return SheetCell(picture, tuple(lines), shape)


def _belief(evaluation: Evaluation, index: int, place: int) -> list[str]:
    """Lines below the name of a label: the net's belief in it, and a remark if it is a wrong one."""
    said = f"whole {evaluation.inputs.singular} {short_percent(float(evaluation.f[index, place]))}"
    return [said, *([WRONG_WORDS] if evaluation.wrong_kind(index, place) else [])]


def marked_line(image: Tensor, heat: Tensor, inputs: Inputs, shape: ProofShape) -> Image.Image:
    """A picture of a series with its proof marked on the line. The top positions of the map that together reach the net's belief have the
    colour of the verdict.

    Nothing is marked if the net does not believe the label.
    """
    drawn = inputs.picture(image).copy()
    keep = per_pixel(keep_top(heat[None], shape.reach or 0.0)[0].cpu().numpy(), inputs)
    colour = np.array(STRENGTHS[shape.word] or SOFT)
    ink = drawn.mean(axis=2) < _LINE_INK
    drawn[keep & ~ink] = _TINT
    drawn[keep & ink] = colour
    return Image.fromarray(drawn)


def picture_ratio(inputs: Inputs) -> float:
    """The height reserved for a picture, divided by its width, at most 1. It is 1 for photos, whatever their shape."""
    height, width = inputs.picture_size()
    return 1.0 if isinstance(inputs, Pictures) else min(1.0, height / width)


def proof_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image and the first method: for each label the heat map, the picture with only the top positions, and what the map
    proves. ``crop`` is a note on how much of the original the net sees."""
    result, image, inputs = evaluation.results[0], evaluation.image_of(index), view_of(evaluation, index)
    about = (SheetText(f"the {inputs.singular}", strong=True), SheetText(f"maps by {result.name}"))
    colour, words = hidden_of(evaluation)
    top = [SheetCell(photo(image, inputs), about)]
    below = (f"the top {KEPT_SHARE:.0%} of {inputs.position_noun}", "of each map")
    if isinstance(inputs, Series):
        view = getattr(evaluation.inputs, "view", "line")
        below = (f"on the {view}:", "what gives the belief")
    bottom = [SheetCell(None, tuple(map(SheetText, below)))]
    for j, label in _labels(evaluation, index):
        heat = evaluation.map_of(result, index, j)
        name = SheetText(evaluation.label_names[label], strong=True)
        over = overlay(image, heat, inputs, signed=result.signed)
        belief = map(SheetText, _belief(evaluation, index, j))
        top.append(_proof_cell(evaluation, result, index, j, over, [name, *belief]))
        if isinstance(inputs, Series):
            bottom.append(SheetCell(marked_line(image, heat, inputs, shape_of(evaluation, result, index, j))))
        else:
            bottom.append(SheetCell(masked_photo(image, heat, inputs, hidden=colour)))
    title = f"{evaluation.image_names[index]}: what does each heat map prove?"
    notes = [
        *filter(None, [crop, inputs.view_words]),
        *sheet_notes(evaluation, index),
        *([] if isinstance(inputs, Series) else [words]),
    ]
    side, ratio = _WIDE if inputs.view_words else 224, picture_ratio(inputs)
    return sheet(title, [top, bottom], notes, side=side, ratio=ratio, signed=result.signed)


def comparison_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image and all methods, with a row per method and a column per label. ``crop`` is a note on how much of the original
    the net sees."""
    image, inputs, labels = evaluation.image_of(index), view_of(evaluation, index), _labels(evaluation, index)
    head = [SheetCell(None)]
    for j, label in labels:
        name = SheetText(evaluation.label_names[label], strong=True)
        head.append(SheetCell(None, (name, *map(SheetText, _belief(evaluation, index, j)))))
    rows = [head]
    for result in evaluation.results:
        lines = [SheetText(part, strong=True) for part in wrapped(result.name, 26, lines=8).split("\n")]
        if result.label_free:
            lines.append(SheetText("one map for all labels"))
        if result.signed:
            lines.append(SheetText("signed"))
        shown = result is evaluation.results[0]
        row = [SheetCell(photo(image, inputs) if shown else None, tuple(lines))]
        for j, _ in labels:
            heat = overlay(image, evaluation.map_of(result, index, j), inputs, signed=result.signed)
            row.append(_proof_cell(evaluation, result, index, j, heat))
        rows.append(row)
    title = f"{evaluation.image_names[index]}: what does each method prove?"
    return sheet(
        title,
        rows,
        [*filter(None, [crop, inputs.view_words]), *sheet_notes(evaluation, index)],
        side=_WIDE if inputs.view_words else 190,
        ratio=picture_ratio(inputs),
        signed=any(result.signed for result in evaluation.results),
    )


def explained_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image: its maps by one method, or those of several methods below one another. ``crop`` is a note on how much of the
    original the net sees."""
    draw = comparison_sheet if len(evaluation.results) > 1 else proof_sheet
    return draw(evaluation, index, crop)


def sheet_notes(evaluation: Evaluation, index: int) -> list[str]:
    """The notes below a sheet: how to read it, the settings, and what was left out."""
    labels, images = int((evaluation.labels[index] != NO_LABEL).sum()), len(evaluation)
    pictured = len(evaluation.pictured[:MOST_IMAGES])
    left_out = []
    if labels > MOST_LABELS:
        left_out.append(f"the first {MOST_LABELS} of {counted(labels, 'label')}")
    if images > pictured:
        left_out.append(f"sheets of {pictured} of {counted(images, evaluation.inputs.singular)}")
    inputs = evaluation.inputs
    notes = [note.format(positions=inputs.position_noun, noun=inputs.singular) for note in _NOTES]
    curve, settings = evaluation.results[0].insertion.settings, evaluation.settings
    made = (
        f"Made with the net {settings.get('model', '-')}, fill {curve.get('fill', '-')}, {curve.get('points', '-')} points of each curve, "
        f"seed {settings.get('seed', '-')}."
    )
    return [
        *notes,
        *fill_notes(evaluation, drawn=True),
        *filter(None, [other_curve_note(evaluation)]),
        made,
        *([f"Shown: {', '.join(left_out)}."] if left_out else []),
    ]


def _labels(evaluation: Evaluation, index: int) -> list[tuple[int, int]]:
    """The labels that the sheet of this image shows, as pairs of the index in the image's row of labels and the label."""
    return [(j, int(evaluation.labels[index, j])) for j in evaluation.places_of(index)[:MOST_LABELS]]
