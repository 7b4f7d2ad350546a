"""Pictures with Pillow alone: heat maps over photos, the pixels kept, and sheets of both with captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from proofmap.evaluation import Evaluation
from proofmap.labels import NO_LABEL
from proofmap.ranking import keep_top

# The matplotlib colour map "inferno" (CC0) at nine places: perceptually uniform, readable when colour-blind.
_INFERNO = np.array(
    [
        [0, 0, 4],
        [31, 12, 72],
        [85, 15, 109],
        [136, 34, 106],
        [186, 54, 85],
        [227, 89, 51],
        [249, 140, 10],
        [249, 201, 50],
        [252, 255, 164],
    ],
    dtype=np.float64,
)
_INK, _SOFT, _PAPER = (24, 24, 28), (96, 96, 104), (255, 255, 255)
_CELL, _GAP = 240, 18
KEPT_SHARE = 0.2


def heat_colours(values: np.ndarray) -> np.ndarray:
    """Values in [0, 1] of any shape to RGB in 0..255, last axis added."""
    places = np.linspace(0, 1, len(_INFERNO))
    return np.stack([np.interp(values, places, _INFERNO[:, c]) for c in range(3)], axis=-1)


def displayed(heat: Tensor) -> np.ndarray:
    """A map ``(H, W)`` scaled to [0, 1] for the eye: its 1st and 99th percentile become black and bright."""
    values = heat.double().cpu().numpy()
    low, high = np.percentile(values, [1, 99])
    if high <= low:
        low, high = values.min(), values.max()
    if high <= low:
        return np.zeros_like(values)
    scaled: np.ndarray = np.clip((values - low) / (high - low), 0, 1)
    return scaled


def photo(image: Tensor) -> Image.Image:
    """An image ``(C, H, W)`` in [0, 1] as a picture."""
    pixels = (image.clamp(0, 1).cpu() * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return Image.fromarray(pixels if pixels.shape[2] == 3 else np.repeat(pixels, 3, axis=2))


def overlay(image: Tensor, heat: Tensor, strength: float = 0.65) -> Image.Image:
    """The heat map in colour over the photo in gray."""
    gray = np.asarray(photo(image).convert("L").convert("RGB"), dtype=np.float64)
    mixed = (1 - strength) * gray + strength * heat_colours(displayed(heat))
    return Image.fromarray(mixed.round().astype(np.uint8))


def kept(image: Tensor, heat: Tensor, share: float = KEPT_SHARE) -> Image.Image:
    """The photo with only the top ``share`` of pixels; the rest is light gray."""
    keep = keep_top(heat[None].to(image.device), share)[0]
    return photo(torch.where(keep, image, image.new_tensor(0.86)))


@dataclass(frozen=True)
class Cell:
    """A picture with a few lines of text below; the first line is strong."""

    picture: Image.Image | None
    lines: tuple[str, ...] = ()


def sheet(title: str, rows: Sequence[tuple[str, Sequence[Cell]]], note: str = "") -> Image.Image:
    """A grid of captioned pictures; every row has a heading above it."""
    strong, plain, small = (_font(size) for size in (19, 15, 13))
    columns = max(len(cells) for _, cells in rows)
    wide = _GAP + columns * (_CELL + _GAP)
    heights = [26 + _CELL + 19 * max(len(c.lines) for c in cells) + _GAP for _, cells in rows]
    top = 16 + 30 + 10
    page = Image.new("RGB", (wide, top + sum(heights) + (26 if note else 0)), _PAPER)
    draw = ImageDraw.Draw(page)
    draw.text((_GAP, 16), _shortened(draw, title, strong, wide - 2 * _GAP), _INK, strong)
    y = top
    for (heading, cells), height in zip(rows, heights, strict=True):
        draw.text((_GAP, y), _shortened(draw, heading, plain, wide - 2 * _GAP), _SOFT, plain)
        for column, cell in enumerate(cells):
            x = _GAP + column * (_CELL + _GAP)
            if cell.picture is not None:
                page.paste(_enlarged(cell.picture), (x, y + 24))
            for k, line in enumerate(cell.lines):
                place = (x, y + 24 + _CELL + 4 + 19 * k)
                draw.text(place, _shortened(draw, line, plain, _CELL), _INK if k == 0 else _SOFT, plain)
        y += height
    if note:
        draw.text((_GAP, y), _shortened(draw, note, small, wide - 2 * _GAP), _SOFT, small)
    return page


def proof_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image, one method: for each label the heat map, the pixels kept, and what the map proves."""
    result, image = evaluation.results[0], evaluation.images[index]
    labels = [int(a) for a in evaluation.labels[index] if int(a) != NO_LABEL]
    rows = {int(str(r["label"])): r for r in result.rows if r["image"] == evaluation.image_names[index]}
    heat = [Cell(photo(image), ("the photo",))]
    share = [Cell(None)]
    for j, label in enumerate(labels):
        row, map_ = rows[label], result.maps[index, j]
        caption = (
            str(row["name"]),
            f"f = {row['f']:.3f}    AUC = {row['insertion']:.3f}",
            f"complete {row['completeness']:.2f}    sound {row['soundness']:.2f}",
        )
        heat.append(Cell(overlay(image, map_), caption))
        share.append(Cell(kept(image, map_)))
    title = f"{evaluation.image_names[index]}: is it a proof?"
    return sheet(
        title,
        [
            (f"{result.name}: a heat map for each label", heat),
            (f"the top {KEPT_SHARE:.0%} of pixels of each map", share),
        ],
        "f: the net's probability for the label. AUC: mean probability while the map's pixels are shown, best first. "
        "A proof is complete when AUC reaches f, sound when it does not exceed it.",
    )


def comparison_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """One image, all methods: a row per method, a column per label."""
    image = evaluation.images[index]
    labels = [int(a) for a in evaluation.labels[index] if int(a) != NO_LABEL]
    grid: list[tuple[str, list[Cell]]] = []
    for result in evaluation.results:
        cells = [Cell(photo(image), ("the photo",))] if not grid else [Cell(None)]
        for j, label in enumerate(labels):
            f, auc = float(evaluation.f[index, j]), float(result.insertion.auc[index, j])
            name = evaluation.label_names[label]
            cells.append(
                Cell(overlay(image, result.maps[index, j]), (name, f"f = {f:.3f}    AUC = {auc:.3f}"))
            )
        mark = " (one map for all labels)" if result.label_free else ""
        grid.append((result.name + mark, cells))
    return sheet(
        f"{evaluation.image_names[index]}: what each method proves",
        grid,
        "A good proof has AUC close to f for every label: not less (incomplete), not more (unsound).",
    )


def _enlarged(picture: Image.Image) -> Image.Image:
    factor = _CELL / max(picture.size)
    how = Image.Resampling.NEAREST if factor >= 2 else Image.Resampling.LANCZOS
    return picture.resize((round(picture.width * factor), round(picture.height * factor)), how)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _shortened(
    draw: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int
) -> str:
    if draw.textlength(text, font) <= width:
        return text
    while text and draw.textlength(text + "...", font) > width:
        text = text[:-1]
    return text + "..."
