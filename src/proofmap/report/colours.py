"""The colours of pictures: of heat maps, of signed heat maps, of verdicts and of hidden positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures
from proofmap.fills import FILLS
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import Word

Colour = tuple[int, int, int]
INK, SOFT, PAPER = (24, 24, 28), (96, 96, 104), (255, 255, 255)
STRENGTHS: dict[Word, Colour | None] = {
    "weak": (0, 100, 170),
    "strong": (190, 70, 0),
    "match": (0, 110, 75),
    "unknown": None,
}
"""The colour for each verdict on a proof; None for a proof that was not judged."""


def _stops(colours: str) -> np.ndarray:
    """An array ``(stops, 3)`` of RGB values 0..255 from a list of hexadecimal colours."""
    return np.array([[*bytes.fromhex(colour)] for colour in colours.split()], dtype=np.float64)


INFERNO = _stops("000004 1f0c48 550f6d 88226a ba3655 e35933 f98c0a f9c932 fcffa4")
"""The matplotlib colour map "inferno" (CC0) at nine places: perceptually uniform, readable for colour-blind people."""
DIVERGING = _stops("094e8c 2e7ac7 73a9e5 b5d4f8 f5f5f5 fac3ad ef8357 c54a05 822e02")
"""A diverging colour map from blue through white to orange, in equal steps of lightness (OKLCH). Colour-blind people can distinguish its
hues."""
SIGNED_WORDS = ("against the label", "for the label")
"""The meaning of the two ends of a signed map's colours."""
SIGNED_NOTE = "white is zero; each map has a scale of its own"


def heat_colours(values: np.ndarray, *, signed: bool = False) -> np.ndarray:
    """The colours ``(..., 3)``, 0..255, of values ``(...)`` in [0, 1]. If ``signed``, a value of 1/2 is the zero of the map."""
    stops = DIVERGING if signed else INFERNO
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(values, places, stops[:, c]) for c in range(3)], axis=-1)


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


def colour_bar(width: int, height: int) -> Image.Image:
    """A picture of the colours of signed maps, as a horizontal bar with a tick at zero."""
    colours = heat_colours(np.linspace(0, 1, width), signed=True)
    bar = np.broadcast_to(colours, (height, width, 3)).copy()
    bar[: height // 3, width // 2] = bar[-(height // 3) :, width // 2] = 96
    return Image.fromarray(bar.round().astype(np.uint8))


# ---- hidden positions ---------------------------------------------------------------------------------------

PLAIN: Colour = (219, 219, 219)
"""The colour in which hidden positions are drawn if the fill is not a single colour."""


@dataclass(frozen=True)
class Hidden:
    """The colour of hidden positions in pictures, and a sentence about what the net saw there."""

    colour: Colour
    words: str


def hidden_of(evaluation: Evaluation) -> Hidden:
    """The colour in which hidden positions are drawn, and a sentence about the fill that the net saw there while insertion curves were
    computed."""
    inputs, settings = evaluation.inputs, evaluation.results[0].insertion.settings
    colour, positions = settings.get("color"), inputs.position_noun
    if isinstance(inputs, Pictures) and isinstance(colour, Sequence):
        return Hidden(
            drawn_colour(inputs, colour),
            f"Hidden {positions} have the colour that the net saw there.",
        )
    fill = str(settings.get("fill", "unknown"))
    description = inputs.neutral_words if fill == "gray" else FILLS[fill].description if fill in FILLS else ""
    about = f" ({description})" if description else ""
    return Hidden(
        PLAIN,
        f"Hidden {positions} are drawn in light gray; the net saw the fill {fill} there{about}.",
    )


def drawn_colour(inputs: Inputs, colour: Sequence[float]) -> Colour:
    """The RGB colour that pictures show for an input with these values, one per channel."""
    whole = inputs.per_channel(torch.tensor([float(v) for v in colour])).expand(inputs.shape)
    red, green, blue = inputs.picture(whole)[0, 0].tolist()
    return red, green, blue
