"""Pictures made with Pillow: heat maps over photos, masked photos, and captioned sheets of both."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures, Series
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import keep_top
from proofmap.core.text import counted, shortened, wrapped
from proofmap.report.colours import (
    PLAIN,
    SIGNED_NOTE,
    SIGNED_WORDS,
    Colour,
    colour_bar,
    displayed,
    heat_colours,
    hidden_of,
)
from proofmap.report.ranked_columns import is_ranked, ranked_columns, ranked_title
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import fill_causes, fill_words, other_fill
from proofmap.results.proof_shape import ProofShape, percent, shape_of
from proofmap.results.records import MethodResult
from proofmap.results.strength import OTHER_CURVE, Word, judged_on_another_curve
from proofmap.results.wrong_labels import WRONG_WORDS, wrong_kind

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_INK, _SOFT, _PAPER = (24, 24, 28), (96, 96, 104), (255, 255, 255)
_WEAK, _STRONG, _PROOF = (0, 100, 170), (190, 70, 0), (0, 110, 75)
_COLOURS: dict[Word, Colour | None] = {"weak": _WEAK, "strong": _STRONG, "match": _PROOF, "unknown": None}
_GAP, _LINE, _SHAPE = 18, 20, 24
_BAR, _LEAST_BAR = 140, 60
_NOTES = (
    "Upper bar: pale, the net's probability of the label on the whole {noun} (f); in it, its average while the map's {positions} are shown, "
    "best first (AUC), and a line up to the largest value. Lower bar: the share of the {positions} that reaches f.",
    "A proof has an average close to f: much less is too weak (incomplete), much more is too strong (unsound). The bar is .8.",
)
_RANKED_NOTE = (
    "Columns in the order of the map, best first. Bars: the probability of the label while the columns down to this line are shown and "
    "the others are filled. Dark line: the belief, on the whole row. In the colour of the verdict: the first columns, up to the one that reaches it."
)
_MOST_RANKED = 4  # labels side by side
_TINT, _LINE_INK = (222, 236, 230), 200
KEPT_SHARE = 0.2
MOST_IMAGES, MOST_LABELS = 50, 8
"""Sheets are made for the first ``MOST_IMAGES`` images, and show the first ``MOST_LABELS`` labels."""


def photo(image: Tensor, inputs: Inputs) -> Image.Image:
    """An image, as the net takes it, as a picture."""
    return Image.fromarray(inputs.picture(image))


def overlay(
    image: Tensor, heat: Tensor, inputs: Inputs, strength: float = 0.65, *, signed: bool = False
) -> Image.Image:
    """The heat map in colour over the picture in gray; a signed map has two colours around zero."""
    gray = np.asarray(photo(image, inputs).convert("L").convert("RGB"), dtype=np.float64)
    colours = heat_colours(per_pixel(displayed(heat, signed=signed), inputs), signed=signed)
    mixed = (1 - strength) * gray + strength * colours
    return Image.fromarray(mixed.round().astype(np.uint8))


def masked_photo(
    image: Tensor, heat: Tensor, inputs: Inputs, share: float = KEPT_SHARE, hidden: Colour = PLAIN
) -> Image.Image:
    """The picture with only the top ``share`` of positions; the rest has the colour ``hidden``."""
    keep = per_pixel(keep_top(heat[None], share)[0].cpu().numpy(), inputs)
    return Image.fromarray(np.where(keep[..., None], inputs.picture(image), np.array(hidden, np.uint8)))


def marked_line(image: Tensor, heat: Tensor, inputs: Inputs, shape: ProofShape) -> Image.Image:
    """A series with its proof on the line: the first positions of the map that give the belief, in the colour of the verdict.

    Nothing is marked if the label is not believed.
    """
    drawn = inputs.picture(image).copy()
    keep = per_pixel(keep_top(heat[None], shape.reach or 0.0)[0].cpu().numpy(), inputs)
    ink = drawn.mean(axis=2) < _LINE_INK
    drawn[keep & ~ink] = _TINT
    drawn[keep & ink] = _COLOURS[shape.strength.word] or _SOFT
    return Image.fromarray(drawn)


def per_pixel(values: np.ndarray, inputs: Inputs) -> np.ndarray:
    """Values per position ``(*positions,)`` as values ``(h, w)`` per pixel of the picture."""
    found: np.ndarray = values.reshape(-1)[inputs.pixel_positions().numpy()]
    return found


def input_word(inputs: Inputs) -> str:
    """The word for one input in captions: "photo" if it is one."""
    return "photo" if isinstance(inputs, Pictures) else "input"


def picture_ratio(inputs: Inputs) -> float:
    """The height reserved for a picture as a share of its width; photos get a square, whatever their shape."""
    height, width = inputs.picture_size()
    return 1.0 if isinstance(inputs, Pictures) else min(1.0, height / width)


def picture_bytes(picture: Image.Image, format: str, **options: Any) -> bytes:
    """A picture as the content of a file; ``options`` as Pillow's ``save`` takes them."""
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def data_uri(picture: Image.Image, format: str, **options: Any) -> str:
    """A picture as text that an ``img`` element shows."""
    content = base64.b64encode(picture_bytes(picture, format, **options)).decode()
    return f"data:image/{format.lower()};base64,{content}"


@dataclass(frozen=True)
class SheetText:
    """A line of text in its colour; by default dark if ``strong``, otherwise gray."""

    text: str
    strong: bool = False
    colour: tuple[int, int, int] | None = None
    wraps: bool = False
    """Whether a long text goes on in a second line instead of being cut."""


@dataclass(frozen=True)
class SheetCell:
    """An optional picture with lines of text below it."""

    picture: Image.Image | None
    lines: tuple[SheetText, ...] = ()
    shape: ProofShape | None = None
    """Drawn between the picture and the text."""


def verdict(shape: ProofShape) -> SheetText:
    """The verdict on a map: what its curve does, compared with the net's belief."""
    return SheetText(shape.words, colour=_COLOURS[shape.strength.word], wraps=True)


def proof_cell(
    evaluation: Evaluation,
    result: MethodResult,
    index: int,
    place: int,
    picture: Image.Image,
    first: Sequence[SheetText] = (),
) -> SheetCell:
    """A picture of a map, the shape of its proof, its numbers, the verdict, and a note if the fill alone gives the label."""
    shape = shape_of(evaluation, result, index, place)
    numbers = f"average {_short(shape.average)}, peak {_short(shape.peak)}"
    lines = [*first, SheetText(numbers), verdict(shape)]
    if words := fill_words(result, index, place):
        lines.append(SheetText(words, colour=_STRONG))
    return SheetCell(picture, tuple(lines), shape)


def _short(probability: float) -> str:
    return percent(probability).replace("less than ", "<").replace("more than ", ">")


def draw_shape(draw: ImageDraw.ImageDraw, shape: ProofShape, x: int, y: int, width: int) -> None:
    """The picture of a proof in a box 18 high: the belief pale, the average in the colour of the verdict, a line up to the peak, and
    below the share of the positions that reaches the belief."""

    def at(p: float | None) -> int:
        return x if p is None or p != p else x + round(min(max(p, 0.0), 1.0) * (width - 1))

    colour = _COLOURS[shape.strength.word] or _SOFT
    draw.rectangle((x, y, x + width - 1, y + 10), (232, 234, 238))
    draw.rectangle((x, y, at(shape.belief), y + 10), (196, 200, 208))
    draw.rectangle((x, y + 3, at(shape.average), y + 7), colour)
    draw.line((at(shape.average), y + 5, at(shape.peak), y + 5), colour, 2)
    draw.line((at(shape.peak), y + 2, at(shape.peak), y + 8), colour, 2)
    draw.line((at(shape.belief), y, at(shape.belief), y + 10), _INK, 2)
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
    """A grid of captioned pictures; a row without pictures is only as high as its text.

    The longer side of a picture is ``side``, and its row is ``ratio * side`` high. With ``signed`` a colour bar explains the colours
    of signed maps.
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
    notes = [f"{SIGNED_NOTE[0].upper()}{SIGNED_NOTE[1:]}.", *notes] if signed else notes
    below_all = [line for note in notes for line in _lines(note, small, wide - 2 * _GAP)]
    page = Image.new("RGB", (wide, 58 + sum(heights) + bar + 18 * len(below_all) + 10), _PAPER)
    draw = ImageDraw.Draw(page)
    draw.text((_GAP, 16), _fitting(draw, title, big, wide - 2 * _GAP), _INK, big)
    y = 58
    for cells, texts, height in zip(rows, laid, heights, strict=True):
        for column, (cell, lines) in enumerate(zip(cells, texts, strict=True)):
            x, below = _GAP + column * (side + _GAP), y
            if cell.picture is not None:
                page.paste(_enlarged(cell.picture, side), (x, y))
                below = y + tall + 4
            if cell.shape is not None:
                draw_shape(draw, cell.shape, x, below + 2, side)
                below += _SHAPE
            for k, text in enumerate(lines):
                colour = text.colour or (_INK if text.strong else _SOFT)
                draw.text((x, below + _LINE * k), _fitting(draw, text.text, plain, side), colour, plain)
        y += height
    if signed:
        _draw_bar(page, draw, y, small)
    y += bar
    for k, line in enumerate(below_all):
        draw.text((_GAP, y + 18 * k), line, _SOFT, small)
    return page


def _draw_bar(page: Image.Image, draw: ImageDraw.ImageDraw, y: int, font: Font) -> None:
    """The colour bar of signed maps between the meanings of its ends, as long as the line allows."""
    against, towards = f"Signed maps: {SIGNED_WORDS[0]}", SIGNED_WORDS[1]
    before, after = (round(draw.textlength(words, font)) + 8 for words in (against, towards))
    room = page.width - 2 * _GAP - before - after
    bar = colour_bar(max(_LEAST_BAR, min(_BAR, room)), 12)
    draw.text((_GAP, y), against, _SOFT, font)
    page.paste(bar, (_GAP + before, y + 2))
    draw.text((_GAP + before + bar.width + 8, y), towards, _SOFT, font)


def ranked_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One row of a table, one method: for each label the columns in the order of the map with their curve, and what they prove."""
    result, side, cells = evaluation.results[0], 360, []
    for j, label in _labels(evaluation, index)[:_MOST_RANKED]:
        lines = [
            SheetText(evaluation.label_names[label], strong=True),
            SheetText(f"whole row {_short(float(evaluation.f[index, j]))}, maps by {result.name}"),
        ]
        drawn = ranked_columns(evaluation, result, index, j, side=side, most=16)
        cells.append(proof_cell(evaluation, result, index, j, drawn, lines))
    title, notes = ranked_title(evaluation, result, index), sheet_notes(evaluation, index)
    return sheet(title, [cells], [_RANKED_NOTE, *notes], side=side, ratio=_ratio(cells[0].picture))


def _ratio(picture: Image.Image | None) -> float:
    return 1.0 if picture is None else picture.height / picture.width


def proof_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image, one method: for each label the heat map, the positions kept, and what the map proves."""
    if is_ranked(evaluation.inputs):
        return ranked_sheet(evaluation, index)
    result, image, inputs = evaluation.results[0], evaluation.image_of(index), evaluation.inputs
    about = (SheetText(f"the {input_word(inputs)}", strong=True), SheetText(f"maps by {result.name}"))
    hidden = hidden_of(evaluation)
    top = [SheetCell(photo(image, inputs), about)]
    below = (f"the top {KEPT_SHARE:.0%} of {inputs.position_noun}", "of each map")
    if isinstance(inputs, Series):
        below = ("on the line: the first positions", "that give the belief")
    bottom = [SheetCell(None, tuple(map(SheetText, below)))]
    for j, label in _labels(evaluation, index):
        heat = evaluation.map_of(result, index, j)
        name = SheetText(evaluation.label_names[label], strong=True)
        belief = SheetText(f"whole {input_word(inputs)} {_short(float(evaluation.f[index, j]))}")
        over = overlay(image, heat, inputs, signed=result.signed)
        wrong = [SheetText(WRONG_WORDS)] if wrong_kind(evaluation, index, j) else []
        top.append(proof_cell(evaluation, result, index, j, over, [name, belief, *wrong]))
        if isinstance(inputs, Series):
            bottom.append(SheetCell(marked_line(image, heat, inputs, shape_of(evaluation, result, index, j))))
        else:
            bottom.append(SheetCell(masked_photo(image, heat, inputs, hidden=hidden.colour)))
    title = f"{evaluation.image_names[index]}: what does each heat map prove?"
    notes = [*sheet_notes(evaluation, index), *([] if isinstance(inputs, Series) else [hidden.words])]
    return sheet(title, [top, bottom], notes, ratio=picture_ratio(inputs), signed=result.signed)


def comparison_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image, all methods: a row per method, a column per label."""
    image, inputs, labels = evaluation.image_of(index), evaluation.inputs, _labels(evaluation, index)
    ranked = is_ranked(inputs)
    side = 300 if ranked else 190
    head = [SheetCell(None)]
    for j, label in labels:
        belief = SheetText(f"whole {input_word(inputs)} {_short(float(evaluation.f[index, j]))}")
        wrong = [SheetText(WRONG_WORDS)] if wrong_kind(evaluation, index, j) else []
        head.append(SheetCell(None, (SheetText(evaluation.label_names[label], strong=True), belief, *wrong)))
    rows = [head]
    for result in evaluation.results:
        lines = [SheetText(part, strong=True) for part in wrapped(result.name, 26, lines=8).split("\n")]
        if result.label_free:
            lines.append(SheetText("one map for all labels"))
        if result.signed and not ranked:
            lines.append(SheetText("signed"))
        shown = result is evaluation.results[0] and not ranked
        row = [SheetCell(photo(image, inputs) if shown else None, tuple(lines))]
        for j, _ in labels:
            heat = (
                ranked_columns(evaluation, result, index, j, side=side, most=8)
                if ranked
                else overlay(image, evaluation.map_of(result, index, j), inputs, signed=result.signed)
            )
            row.append(proof_cell(evaluation, result, index, j, heat))
        rows.append(row)
    title = f"{evaluation.image_names[index]}: what does each method prove?"
    return sheet(
        title,
        rows,
        [*([_RANKED_NOTE] if ranked else []), *sheet_notes(evaluation, index)],
        side=side,
        ratio=_ratio(rows[1][1].picture) if ranked else picture_ratio(inputs),
        signed=not ranked and any(result.signed for result in evaluation.results),
    )


def explained_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image as ``explain`` shows it: the maps of one method, or several methods compared."""
    several = len(evaluation.results) > 1
    return comparison_sheet(evaluation, index) if several else proof_sheet(evaluation, index)


def pictured_images(evaluation: Evaluation) -> tuple[int, ...]:
    """The images that get sheets: the first of those whose maps were kept."""
    return evaluation.pictured[:MOST_IMAGES]


def sheet_notes(evaluation: Evaluation, index: int) -> list[str]:
    """How to read a sheet, and what was left out of it."""
    labels, images = int((evaluation.labels[index] != NO_LABEL).sum()), len(evaluation)
    pictured = len(pictured_images(evaluation))
    left_out = []
    if labels > MOST_LABELS:
        left_out.append(f"the first {MOST_LABELS} of {counted(labels, 'label')}")
    if images > pictured:
        left_out.append(f"sheets of {pictured} of {counted(images, 'image')}")
    other = [OTHER_CURVE] if judged_on_another_curve(evaluation) else []
    inputs = evaluation.inputs
    notes = [note.format(positions=inputs.position_noun, noun=input_word(inputs)) for note in _NOTES]
    other_fill_words = f"Another fill: --fill {other_fill(evaluation)}"
    fill = [f"{cause[:1].upper()}{cause[1:]}. {other_fill_words}" for cause in fill_causes(evaluation)]
    curve, settings = evaluation.results[0].insertion.settings, evaluation.settings
    made = (
        f"Made with the net {settings.get('model', '-')}, fill {curve.get('fill', '-')}, {curve.get('points', '-')} points of each curve, "
        f"seed {settings.get('seed', '-')}."
    )
    return [*notes, *fill, *other, made, *([f"Shown: {', '.join(left_out)}."] if left_out else [])]


def _labels(evaluation: Evaluation, index: int) -> list[tuple[int, int]]:
    """(place, label) of the labels that a sheet shows of this image."""
    labels = [(j, a) for j, a in enumerate(evaluation.labels[index].tolist()) if a != NO_LABEL]
    return labels[:MOST_LABELS]


def _enlarged(picture: Image.Image, side: int) -> Image.Image:
    factor = side / max(picture.size)
    how = Image.Resampling.NEAREST if factor >= 2 else Image.Resampling.LANCZOS
    return picture.resize((round(picture.width * factor), round(picture.height * factor)), how)


def _font(size: int) -> Font:
    return ImageFont.load_default(size)


def _lines(text: str, font: Font, width: int) -> list[str]:
    """The text in lines of at most this many pixels, broken at spaces."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _laid_out(lines: Sequence[SheetText], font: Font, width: int) -> list[SheetText]:
    """The lines of a cell, those that wrap broken to this many pixels."""
    return [
        replace(text, text=part)
        for text in lines
        for part in (_lines(text.text, font, width) if text.wraps else [text.text])
    ]


def _fitting(draw: ImageDraw.ImageDraw, text: str, font: Font, width: int) -> str:
    """The text in one line, shortened to this many pixels."""
    return shortened(text, width, dots="...", measure=lambda part: draw.textlength(part, font))
