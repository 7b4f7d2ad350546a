"""A series as data that a page draws: its lines, and which position each column of the drawing belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from proofmap.core.inputs import Inputs, Series
from proofmap.report.pictures import data_uri, photo


@dataclass(frozen=True)
class DrawnLine:
    """The line of one channel: its least and largest height in each column, from 0 (bottom) to 1 (top)."""

    name: str
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class DrawnSeries:
    """A series to draw: for each column the first position that it shows; the lines; and the picture of a spectrogram, which has none."""

    columns: list[int]
    lines: list[DrawnLine]
    picture: str = ""


def is_lined(inputs: Inputs) -> bool:
    """Whether the report draws inputs as lines, whose segments the slider shows one by one. Series without segments are pictures there."""
    return isinstance(inputs, Series) and inputs.segments is not None


def drawn_series(x: Tensor, inputs: Series, width: int | None = None) -> DrawnSeries:
    """A series ``(C, T)`` in ``width`` columns, by default as many as its picture has.

    >>> import torch
    >>> found = drawn_series(torch.tensor([[0.0, 2.0, -2.0, 0.0]]), Series(length=4, segments=2), 4)
    >>> found.columns, found.lines[0].high
    ([0, 0, 1, 1], [0.5, 0.96, 0.04, 0.5])
    """
    width = width or inputs.picture_size()[1]
    steps = np.arange(width) * inputs.length // width
    columns = steps if inputs.segments is None else steps * inputs.segments // inputs.length
    if inputs.view == "spectrogram":
        return DrawnSeries(columns.tolist(), [], data_uri(photo(x, inputs), "PNG", optimize=True))
    names = inputs.names or ("",) * inputs.channels
    lines = [
        DrawnLine(name, _short(low), _short(high))
        for name, (low, high) in zip(names, inputs.heights(x, width), strict=True)
    ]
    return DrawnSeries(columns.tolist(), lines)


def _short(heights: np.ndarray) -> list[float]:
    return [round(float(height), 4) for height in heights]
