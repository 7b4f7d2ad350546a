"""Pictures of maps, made with Pillow: heat maps over photos, masked photos, and pictures as files and data URIs.

The module also has the lines of series as data.

The colours of pictures: of heat maps, of signed heat maps, of verdicts and of hidden positions.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures, Series
from proofmap.core.ranking import keep_top
from proofmap.fills import FILLS
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import Word

Colour = tuple[int, int, int]
INK, SOFT = (24, 24, 28), (96, 96, 104)
_PLAIN: Colour = (219, 219, 219)
"""The colour in which hidden positions are drawn if the fill is not a single colour."""
STRENGTHS: dict[Word, Colour | None] = {
    "weak": (0, 100, 170),
    "strong": (190, 70, 0),
    "match": (0, 110, 75),
    "over": (150, 104, 0),
    "trifle": None,
    "unknown": None,
}
"""The colour for each verdict on a proof; None for a proof that was not judged, and for a trifle."""


def _stops(colours: str) -> np.ndarray:
    """An array ``(stops, 3)`` of RGB values 0..255 from a list of hexadecimal colours."""
    return np.array([[*bytes.fromhex(colour)] for colour in colours.split()], dtype=np.float64)


INFERNO = _stops("000004 1f0c48 550f6d 88226a ba3655 e35933 f98c0a f9c932 fcffa4")
"""The matplotlib colour map "inferno" (CC0) at nine places: perceptually uniform, readable for colour-blind people."""
DIVERGING = _stops("094e8c 2e7ac7 73a9e5 b5d4f8 f5f5f5 fac3ad ef8357 c54a05 822e02")
"""A diverging colour map from blue through white to orange, in equal steps of lightness (OKLCH). Colour-blind people can distinguish its
hues."""
SIGNED_WORDS = ("against the label", "for the label", "white is zero; each map has a scale of its own")
"""The meaning of the two ends of a signed map's colours, and a note on the scale."""
_HOT: Colour = (249, 180, 80)
"""The shade of the word with the largest value of a map. The smallest value has no shade. Dark letters can be read on all shades."""


def heat_colours(values: np.ndarray, *, signed: bool = False) -> np.ndarray:
    """The colours ``(..., 3)``, 0..255, of values ``(...)`` in [0, 1]. If ``signed``, a value of 1/2 is the zero of the map."""
    stops = DIVERGING if signed else INFERNO
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(values, places, stops[:, c]) for c in range(3)], axis=-1)


def word_shade(value: float, *, signed: bool) -> Colour | None:
    """The background colour of a word whose value in a displayed map is ``value`` in [0, 1]; None if it has no background."""
    if signed:
        soft = 0.5 + (value - 0.5) * (len(DIVERGING) - 5) / len(DIVERGING)  # dark letters can be read on it
        red, green, blue = (round(v) for v in heat_colours(np.array(soft), signed=True).tolist())
        return None if abs(value - 0.5) < 0.01 else (red, green, blue)
    red, green, blue = (round(255 + value * (hot - 255)) for hot in _HOT)
    return (red, green, blue) if value > 0.01 else None


def displayed(heat: Tensor, *, signed: bool = False) -> np.ndarray:
    """The map ``(*positions,)`` scaled to [0, 1] for display: its 1st and 99th percentiles become 0 and 1.

    For a signed map, zero becomes 1/2, and the 99th percentile of the absolute values becomes 1 (or 0 for negative values).

    >>> import torch
    >>> displayed(torch.tensor([-2.0, 0.0, 1.0]), signed=True).round(2).tolist()
    [0.0, 0.5, 0.75]
    """
    values = heat.double().cpu().numpy()
    if signed:
        sizes = np.abs(values)
        most = np.percentile(sizes, 99) or sizes.max() or 1.0
        return 0.5 + 0.5 * np.clip(values / most, -1, 1)
    low, high = np.percentile(values, [1, 99])
    if high <= low:
        low, high = values.min(), values.max()
    if high <= low:
        return np.zeros_like(values)
    scaled: np.ndarray = np.clip((values - low) / (high - low), 0, 1)
    return scaled


KEPT_SHARE = 0.2


def view_of(evaluation: Evaluation, index: int) -> Inputs:
    """The inputs of an evaluation, drawn so that the pictures of one of them show what its maps prove."""
    return evaluation.inputs.facing(
        evaluation.map_of(result, index, j)
        for result in evaluation.results
        for j in evaluation.places_of(index)
    )


def photo(image: Tensor, inputs: Inputs) -> Image.Image:
    """The Pillow picture of an image tensor in the form that the net takes."""
    return Image.fromarray(inputs.picture(image))


def overlay(image: Tensor, heat: Tensor, inputs: Inputs, *, signed: bool = False) -> Image.Image:
    """A picture of the heat map in colour over the image in gray. A signed map has two colours around zero."""
    gray = np.asarray(photo(image, inputs).convert("L").convert("RGB"), dtype=np.float64)
    values = per_pixel(displayed(heat, signed=signed), inputs, 0.5 * signed)
    colours = heat_colours(values, signed=signed)
    mixed = 0.35 * gray + 0.65 * colours
    return Image.fromarray(mixed.round().astype(np.uint8))


def masked_photo(
    image: Tensor, heat: Tensor, inputs: Inputs, share: float = KEPT_SHARE, hidden: Colour = _PLAIN
) -> Image.Image:
    """A picture of the image with only the top ``share`` of the map's positions. The rest has the colour ``hidden``."""
    keep = per_pixel(keep_top(heat[None], share)[0].cpu().numpy(), inputs)
    return Image.fromarray(np.where(keep[..., None], inputs.picture(image), np.array(hidden, np.uint8)))


def per_pixel(values: np.ndarray, inputs: Inputs, between: float = 0.0) -> np.ndarray:
    """The values ``(h, w)`` of a picture's pixels, from values ``(*positions,)`` of the input's positions; ``between`` if a pixel shows none."""
    found: np.ndarray = np.append(values, values.dtype.type(between))[inputs.pixel_positions().numpy()]
    return found


def picture_bytes(picture: Image.Image, format: str, **options: Any) -> bytes:
    """The content of a file with the picture in this format. ``options`` are passed to Pillow's ``save``."""
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def data_uri(picture: Image.Image, format: str, **options: Any) -> str:
    """The picture as a data URI, which an ``img`` element can show."""
    content = base64.b64encode(picture_bytes(picture, format, **options)).decode()
    return f"data:image/{format.lower()};base64,{content}"


# ---- series -------------------------------------------------------------------------------------------------


def drawn_series(x: Tensor, inputs: Series, width: int | None = None) -> dict[str, Any]:
    """The data to draw a series ``x`` ``(C, T)`` in ``width`` columns, by default as many as the series' picture has.

    ``columns`` has, for each column of the drawing, the first position that the column shows. ``lines`` has for each channel its name, and its
    least (``low``) and largest (``high``) height in each column, from 0 (bottom) to 1 (top).

    >>> import torch
    >>> found = drawn_series(torch.tensor([[0.0, 2.0, -2.0, 0.0]]), Series(length=4, segments=2), 4)
    >>> found["columns"], found["lines"][0]["high"]
    ([0, 0, 1, 1], [0.5, 0.96, 0.04, 0.5])
    """
    width = width or inputs.picture_size()[1]
    steps = np.arange(width) * inputs.length // width
    columns = steps if inputs.segments is None else steps * inputs.segments // inputs.length
    found: dict[str, Any] = {"columns": columns.tolist(), "lines": []}
    for name, ends in zip(inputs.names or ("",) * inputs.channels, inputs.heights(x, width), strict=True):
        low, high = ([round(float(height), 4) for height in end] for end in ends)
        found["lines"].append({"name": name, "low": low, "high": high})
    return found


# ---- cropped photos -----------------------------------------------------------------------------------------


def crop_words(photo: Image.Image, inputs: Inputs) -> str:
    """A sentence that says how much of a photo the net sees; empty if the net sees (almost) the whole photo."""
    share = inputs.seen_share(photo) if isinstance(inputs, Pictures) else 1.0
    if share > 0.97:
        return ""
    seen = "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
    return f"The net sees {seen} of the original ({photo.width} x {photo.height} pixels): what is shown here. The rest is cropped."


# ---- hidden positions ---------------------------------------------------------------------------------------


def hidden_of(evaluation: Evaluation) -> tuple[Colour, str]:
    """The colour in which hidden positions are drawn, and a sentence about the fill that the net saw there while insertion curves were
    computed."""
    inputs, settings = evaluation.inputs, evaluation.results[0].insertion.settings
    colour, positions = settings.get("color"), inputs.position_noun
    if isinstance(inputs, Pictures) and isinstance(colour, Sequence):
        return drawn_colour(inputs, colour), f"Hidden {positions} have the colour that the net saw there."
    fill = str(settings.get("fill", "unknown"))
    description = inputs.neutral_words if fill == "gray" else FILLS[fill].description if fill in FILLS else ""
    about = f" ({description})" if description else ""
    return _PLAIN, f"Hidden {positions} are drawn in light gray; the net saw the fill {fill} there{about}."


def drawn_colour(inputs: Inputs, colour: Sequence[float]) -> Colour:
    """The RGB colour that pictures show for an input with these values, one per channel."""
    whole = inputs.per_channel(torch.tensor([float(v) for v in colour])).expand(inputs.shape)
    red, green, blue = inputs.picture(whole)[0, 0].tolist()
    return red, green, blue
