"""Pictures made with Pillow: heat maps over photos, masked photos, and captioned sheets of both."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures
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
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import fill_causes, fill_words, other_fill
from proofmap.results.records import MethodResult
from proofmap.results.strength import OTHER_CURVE, judged_on_another_curve, proof_values, strength
from proofmap.results.tables import number

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_INK, _SOFT, _PAPER = (24, 24, 28), (96, 96, 104), (255, 255, 255)
_WEAK, _STRONG, _PROOF = (0, 100, 170), (190, 70, 0), (0, 110, 75)
_GAP, _LINE = 18, 20
_BAR, _LEAST_BAR = 140, 60
_NOTES = (
    "f: the net's probability for the label. AUC: its mean probability while the map's {positions} are shown, best first.",
    "A proof has AUC close to f: much less is too weak (incomplete), much more is too strong (unsound). The bar is .8.",
)
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


@dataclass(frozen=True)
class SheetCell:
    """An optional picture with lines of text below it."""

    picture: Image.Image | None
    lines: tuple[SheetText, ...] = ()


def verdict(completeness: float, soundness: float) -> SheetText:
    """The verdict on a map: too weak, too strong, or as strong as the net's belief."""
    found = strength(completeness, soundness)
    if found.word == "weak":
        return SheetText(f"too weak: complete {number(found.below)}", colour=_WEAK)
    if found.word == "strong":
        return SheetText(f"too strong: sound {number(found.below)}", colour=_STRONG)
    return SheetText("matches f", colour=_PROOF) if found.word == "match" else SheetText("not judged")


def _verdicts(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> Iterator[SheetText]:
    """The verdict on a map, and below it a note if the fill alone gives the label."""
    yield verdict(*proof_values(evaluation, result, index, place))
    if words := fill_words(result, index, place):
        yield SheetText(words, colour=_STRONG)


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
    heights = [
        _GAP + max((tall + 4 if cell.picture else 0) + _LINE * len(cell.lines) for cell in cells)
        for cells in rows
    ]
    bar = 26 if signed else 0
    notes = [f"{SIGNED_NOTE[0].upper()}{SIGNED_NOTE[1:]}.", *notes] if signed else notes
    lines = [line for note in notes for line in _lines(note, small, wide - 2 * _GAP)]
    page = Image.new("RGB", (wide, 58 + sum(heights) + bar + 18 * len(lines) + 10), _PAPER)
    draw = ImageDraw.Draw(page)
    draw.text((_GAP, 16), _fitting(draw, title, big, wide - 2 * _GAP), _INK, big)
    y = 58
    for cells, height in zip(rows, heights, strict=True):
        for column, cell in enumerate(cells):
            x, below = _GAP + column * (side + _GAP), y
            if cell.picture is not None:
                page.paste(_enlarged(cell.picture, side), (x, y))
                below = y + tall + 4
            for k, text in enumerate(cell.lines):
                colour = text.colour or (_INK if text.strong else _SOFT)
                draw.text((x, below + _LINE * k), _fitting(draw, text.text, plain, side), colour, plain)
        y += height
    if signed:
        _draw_bar(page, draw, y, small)
    y += bar
    for k, line in enumerate(lines):
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


def proof_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image, one method: for each label the heat map, the positions kept, and what the map proves."""
    result, image, inputs = evaluation.results[0], evaluation.image_of(index), evaluation.inputs
    about = (SheetText(f"the {input_word(inputs)}", strong=True), SheetText(f"maps by {result.name}"))
    hidden = hidden_of(evaluation)
    top = [SheetCell(photo(image, inputs), about)]
    bottom = [
        SheetCell(
            None, (SheetText(f"the top {KEPT_SHARE:.0%} of {inputs.position_noun}"), SheetText("of each map"))
        )
    ]
    for j, label in _labels(evaluation, index):
        heat = evaluation.map_of(result, index, j)
        f, auc = float(evaluation.f[index, j]), float(result.insertion.auc[index, j])
        caption = (
            SheetText(evaluation.label_names[label], strong=True),
            SheetText(f"f = {number(f)}   AUC = {number(auc)}"),
            *_verdicts(evaluation, result, index, j),
        )
        top.append(SheetCell(overlay(image, heat, inputs, signed=result.signed), caption))
        bottom.append(SheetCell(masked_photo(image, heat, inputs, hidden=hidden.colour)))
    title = f"{evaluation.image_names[index]}: what does each heat map prove?"
    notes = [*sheet_notes(evaluation, index), hidden.words]
    return sheet(title, [top, bottom], notes, ratio=picture_ratio(inputs), signed=result.signed)


def comparison_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image, all methods: a row per method, a column per label."""
    image, inputs, labels = evaluation.image_of(index), evaluation.inputs, _labels(evaluation, index)
    head = [SheetCell(None)]
    for j, label in labels:
        belief = SheetText(f"f = {number(float(evaluation.f[index, j]))}")
        head.append(SheetCell(None, (SheetText(evaluation.label_names[label], strong=True), belief)))
    rows = [head]
    for result in evaluation.results:
        lines = [SheetText(part, strong=True) for part in wrapped(result.name, 26, lines=8).split("\n")]
        if result.label_free:
            lines.append(SheetText("one map for all labels"))
        if result.signed:
            lines.append(SheetText("signed"))
        row = [SheetCell(photo(image, inputs) if result is evaluation.results[0] else None, tuple(lines))]
        for j, _ in labels:
            auc = float(result.insertion.auc[index, j])
            heat = overlay(image, evaluation.map_of(result, index, j), inputs, signed=result.signed)
            row.append(
                SheetCell(heat, (SheetText(f"AUC = {number(auc)}"), *_verdicts(evaluation, result, index, j)))
            )
        rows.append(row)
    title = f"{evaluation.image_names[index]}: what does each method prove?"
    return sheet(
        title,
        rows,
        sheet_notes(evaluation, index),
        side=190,
        ratio=picture_ratio(inputs),
        signed=any(result.signed for result in evaluation.results),
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
    notes = [note.format(positions=evaluation.inputs.position_noun) for note in _NOTES]
    other_fill_words = f"Another fill: --fill {other_fill(evaluation)}"
    fill = [f"{cause[:1].upper()}{cause[1:]}. {other_fill_words}" for cause in fill_causes(evaluation)]
    return [*notes, *fill, *other, *([f"Shown: {', '.join(left_out)}."] if left_out else [])]


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


def _fitting(draw: ImageDraw.ImageDraw, text: str, font: Font, width: int) -> str:
    """The text in one line, shortened to this many pixels."""
    return shortened(text, width, dots="...", measure=lambda part: draw.textlength(part, font))
