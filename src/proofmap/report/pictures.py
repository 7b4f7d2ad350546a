"""Pictures of maps made with Pillow: heat maps over photos, masked photos, and pictures as files and text."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.ranking import keep_top
from proofmap.report.colours import PLAIN, SOFT, STRENGTHS, Colour, displayed, heat_colours
from proofmap.results.proof_shape import ProofShape

_TINT, _LINE_INK = (222, 236, 230), 200
KEPT_SHARE = 0.2


def photo(image: Tensor, inputs: Inputs) -> Image.Image:
    """An image in the form that the net takes, as a picture."""
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
    colour = np.array(STRENGTHS[shape.strength.word] or SOFT)
    if getattr(inputs, "view", "line") == "spectrogram":  # has no line
        drawn[keep] = (drawn[keep] * (0.6 + 0.4 * colour / 255)).astype(np.uint8)
        return Image.fromarray(drawn)
    ink = drawn.mean(axis=2) < _LINE_INK
    drawn[keep & ~ink] = _TINT
    drawn[keep & ink] = colour
    return Image.fromarray(drawn)


def per_pixel(values: np.ndarray, inputs: Inputs) -> np.ndarray:
    """Values per position ``(*positions,)`` as values ``(h, w)`` per pixel of the picture."""
    found: np.ndarray = values.reshape(-1)[inputs.pixel_positions().numpy()]
    return found


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
