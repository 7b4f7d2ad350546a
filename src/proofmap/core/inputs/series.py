"""Series: a position is a time step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from proofmap.core.inputs.base import Inputs

_INK, _PAPER, _GRID = 40, 250, 225
_WIDEST = 2048  # pixels of a series' picture; longer ones are thinned out


@dataclass(frozen=True, kw_only=True)
class Series(Inputs):
    """Series ``(C, T)`` of real numbers; a position is a time step, with all channels together.

    >>> Series(length=50, mean=(0, 0), std=(1, 1)).shape
    (2, 50)
    """

    kind: ClassVar[str] = "series"
    noun: ClassVar[str] = "series"
    singular: ClassVar[str] = "series"
    form: ClassVar[str] = "(N, channels, time steps)"
    fills: ClassVar[tuple[str, ...]] = ("gray", "noise", "blur", "images")
    position_noun: ClassVar[str] = "time steps"

    length: int
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.length,)

    def record(self) -> dict[str, object]:
        return {"inputs": self.kind, "length": self.length, "mean": list(self.mean), "std": list(self.std)}

    def picture_size(self) -> tuple[int, int]:
        wide = min(self.length * max(1, 192 // self.length), _WIDEST)
        return min(max(64, wide // 2), 192), wide

    def picture(self, x: Tensor) -> np.ndarray:
        """A line for each channel, the first the darkest, over two standard deviations around the mean or more."""
        height, width = self.picture_size()
        page = np.full((height, width, 3), _PAPER, dtype=np.uint8)
        scaled = (
            (x.cpu() - self.per_channel(torch.tensor(self.mean))) / self.per_channel(torch.tensor(self.std))
        ).numpy()
        reach = max(2.0, float(np.abs(scaled).max()))
        page[height // 2] = _GRID
        for k, line in reversed(list(enumerate(scaled))):
            steps = np.interp(
                (np.arange(width) + 0.5) * self.length / width - 0.5, np.arange(self.length), line
            )
            rows = np.rint((0.5 - 0.46 * steps / reach) * (height - 1)).astype(int)
            ink = _INK + (170 - _INK) * k // max(1, self.channels)
            for column in range(width):  # joined to the line before, so that steep parts do not fall apart
                first, last = sorted((rows[max(0, column - 1)], rows[column]))
                page[first : last + 1, column] = ink
        return page
