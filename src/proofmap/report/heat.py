"""Colours of heat maps: dark to bright, or two colours around zero for signed maps."""

from __future__ import annotations

import numpy as np
from PIL import Image
from torch import Tensor

# The matplotlib colour map "inferno" (CC0) at nine places: perceptually uniform, readable for colour-blind people.
INFERNO = np.array(
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
# Blue through white to orange, in steps of equal lightness (OKLCH) on both sides: hues that colour-blind people distinguish.
DIVERGING = np.array(
    [
        [9, 78, 140],
        [46, 122, 199],
        [115, 169, 229],
        [181, 212, 248],
        [245, 245, 245],
        [250, 195, 173],
        [239, 131, 87],
        [197, 74, 5],
        [130, 46, 2],
    ],
    dtype=np.float64,
)
SIGNED_WORDS = ("against the label", "for the label")
"""The meaning of the two ends of a signed map's colours."""
SIGNED_NOTE = "white is zero; each map has a scale of its own"


def heat_colours(values: np.ndarray, *, signed: bool = False) -> np.ndarray:
    """Values in [0, 1] of any shape to RGB in 0..255, last axis added; 1/2 is the zero of a signed map."""
    stops = DIVERGING if signed else INFERNO
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(values, places, stops[:, c]) for c in range(3)], axis=-1)


def displayed(heat: Tensor, *, signed: bool = False) -> np.ndarray:
    """A map ``(*positions,)`` scaled to [0, 1] for display: its 1st and 99th percentile become 0 and 1.

    The zero of a signed map becomes 1/2; the 99th percentile of its absolute values becomes 0 or 1.

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
    """The colours of signed maps from one end to the other, with a tick at zero."""
    colours = heat_colours(np.linspace(0, 1, width), signed=True)
    bar = np.broadcast_to(colours, (height, width, 3)).copy()
    bar[: height // 3, width // 2] = bar[-(height // 3) :, width // 2] = 96
    return Image.fromarray(bar.round().astype(np.uint8))
