"""The picture of one proof, as ``page/cell.js`` draws it: the photo in colour inside the outline of the positions that are shown, a pale ghost
outside, thin lines at a half and a quarter of them; and the curve of the proof.

The shown pixels are exact. Outlines are smoothed by a window of some pixels, so that specks have none.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor

from proofmap.core.inputs import Inputs, Series
from proofmap.core.ranking import keep_top
from proofmap.report.pictures import INK, SOFT, STRENGTHS, Colour, per_pixel
from proofmap.results.proof_shape import ProofShape

_FINE = 3  # lines are drawn this much larger, then shrunk
_OUTLINE, _HAIRLINE = 4, 1  # radius of a line, in these fine pixels
_MOST_OUTLINED = 0.1
"""Largest length of an outline in pixels of the map, as a share of its pixels; a longer one would hide the picture."""
_SMALL = 112  # pictures of at most this many pixels keep their pixels when they are enlarged
_TINT, _OVER, _LINE, _AXIS = (233, 239, 252), (246, 201, 168), (47, 91, 208), (206, 210, 218)
_TRACED = 200  # the ink of a series is darker than this
CURVE = 52
"""Height of a curve in pixels."""


def fitted(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The size (width, height) of a picture whose longer side is ``side``."""
    factor = side / max(size)
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def enlarged(picture: Image.Image, side: int) -> Image.Image:
    """The picture with a longer side of ``side`` pixels."""
    how = Image.Resampling.NEAREST if max(picture.size) <= _SMALL else Image.Resampling.LANCZOS
    return picture.resize(fitted(picture.size, side), how)


def proof_picture(image: Tensor, heat: Tensor, inputs: Inputs, shape: ProofShape, side: int) -> Image.Image:
    """The picture of a proof, with a longer side of ``side`` pixels, cut as its shape says. On a series, only the proof is coloured."""
    colour = STRENGTHS[shape.word] or SOFT
    if isinstance(inputs, Series):
        return enlarged(marked_line(image, heat, inputs, shape.cut, colour), side)
    return cut_picture(image, heat, inputs, shape.cut, colour, side)


def cut_picture(
    image: Tensor, heat: Tensor, inputs: Inputs, share: float, colour: Colour, side: int
) -> Image.Image:
    """The input's picture with the first ``share`` of the map's positions in colour, outlined in ``colour``, and the rest as a pale ghost."""
    whole = enlarged(Image.fromarray(inputs.picture(image)), side)
    ghost = whole.convert("L").point([round(172 + 0.3 * v) for v in range(256)]).convert("RGB")

    def shown(part: float) -> Image.Image:
        keep = per_pixel(keep_top(heat[None], part)[0].cpu().numpy(), inputs)
        return Image.fromarray(keep.astype(np.uint8) * 255)

    drawn = Image.composite(whole, ghost, enlarged(shown(share), side)) if share > 0 else ghost
    for part, radius in ((0.25, _HAIRLINE), (0.5, _HAIRLINE), (1.0, _OUTLINE)) if share > 0 else ():
        drawn.paste(colour, mask=_outline(shown(part * share), whole.size, radius))
    return drawn


def _outline(shown: Image.Image, size: tuple[int, int], radius: int) -> Image.Image:
    """A mask of ``size`` with the outline of the shown pixels, without specks; empty if it would be too long."""
    reach = round(max(shown.size) / _SMALL)
    fine = (_FINE * size[0], _FINE * size[1])
    inside = shown.filter(ImageFilter.BoxBlur(reach)).resize(fine, Image.Resampling.BILINEAR)
    edge = inside.point([255 * (v >= 128) for v in range(256)]).filter(ImageFilter.BoxBlur(radius))
    line = edge.point([255 * (0 < v < 255) for v in range(256)]).resize(size, Image.Resampling.BOX)
    length = np.asarray(line).mean() / 255 * size[0] * _FINE / (2 * radius + 1) * shown.height
    return Image.new("L", size) if length > _MOST_OUTLINED * shown.width * shown.height else line


def marked_line(image: Tensor, heat: Tensor, inputs: Series, share: float, colour: Colour) -> Image.Image:
    """A picture of a series whose line has the ``colour`` where it is among the first ``share`` of the map's positions."""
    drawn = inputs.picture(image).copy()
    keep = per_pixel(keep_top(heat[None], share)[0].cpu().numpy(), inputs)
    ink = drawn.mean(axis=2) < _TRACED
    drawn[keep & ~ink] = [round(255 - 0.14 * (255 - c)) for c in colour]
    drawn[keep & ink] = colour
    return Image.fromarray(drawn)


def curve_picture(shares: np.ndarray, values: np.ndarray, shape: ProofShape, width: int) -> Image.Image:
    """The curve of a proof on an axis from 0 to 1: a dotted line at the belief, orange above it, and a dot at the cut."""
    wide, tall = _FINE * width, _FINE * CURVE
    picture = Image.new("RGB", (wide, tall), "white")
    draw = ImageDraw.Draw(picture)
    places = np.linspace(0, 1, wide)
    heights = (tall - 1) * (1 - np.interp(places, shares, np.nan_to_num(values)).clip(0, 1))
    ends = (places >= shares[0]) & (places <= shares[-1])
    belief = (tall - 1) * (1 - (shape.belief if shape.belief == shape.belief else 0.0))
    for x in np.flatnonzero(ends).tolist():
        y = float(heights[x])
        draw.line((x, max(y, belief), x, tall), _TINT)
        if y < belief:
            draw.line((x, y, x, belief), _OVER)
    draw.line((0, tall - 2, wide, tall - 2), _AXIS, _FINE)
    for x in range(0, wide, 5 * _FINE):
        draw.line((x, belief, x + 2 * _FINE, belief), INK, _FINE)
    draw.line([(x, float(heights[x])) for x in np.flatnonzero(ends).tolist()], _LINE, 2 * _FINE)
    x, r = min(max(round(shape.cut * (wide - 1)), 3 * _FINE), wide - 4 * _FINE), 3.5 * _FINE
    draw.ellipse((x - r, heights[x] - r, x + r, heights[x] + r), STRENGTHS[shape.word] or SOFT)
    return picture.resize((width, CURVE), Image.Resampling.BOX)
