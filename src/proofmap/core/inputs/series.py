"""Series: a position is a time step, or a segment of time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Inputs

_INK, _PAPER, _GRID = 40, 250, 225
_WIDEST = 480  # pixels of a series' picture; of longer ones each column shows the range of its time steps


@dataclass(frozen=True, kw_only=True)
class Series(Inputs):
    """Series ``(C, T)`` of real numbers; a position is a time step, or a segment of time, with all channels together.

    Args:
        length: the number of time steps.
        names: the name of each channel.
        rate: time steps per second; positions are then named by their time.
        segments: positions are this number of equal parts of the series instead of single time steps.

    >>> Series(length=50, mean=(0, 0), std=(1, 1)).shape
    (2, 50)
    >>> Series(length=400, rate=100.0, segments=2).position_names
    ('0 to 2 s', '2 to 4 s')
    """

    kind = "series"
    noun = "series"
    singular = "series"
    form = "(N, channels, time steps)"
    fills = ("gray", "noise", "blur", "images", "time-shift", "time-reversal")

    length: int
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    names: tuple[str, ...] = ()
    rate: float | None = None
    segments: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        super().__post_init__()
        if self.names and len(self.names) != self.channels:
            raise InputError(f"series of {self.channels} channels need as many names, not {len(self.names)}")
        if self.rate is not None and not self.rate > 0:
            raise InputError(f"rate must be the number of time steps per second, above 0, not {self.rate!r}")
        if self.segments is not None and not 1 <= self.segments <= self.length:
            raise InputError(
                f"segments must be between 1 and the length {self.length}, not {self.segments!r}"
            )

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.segments or self.length,)

    @property
    def position_noun(self) -> str:  # type: ignore[override]
        return "time steps" if self.segments is None else "segments"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.channels, self.length)

    @property
    def shown_as(self) -> str:
        return "picture" if self.segments is None else "line"

    @property
    def position_names(self) -> tuple[str, ...]:
        unit, per = ("", 1.0) if self.rate is None else (" s", self.rate)
        if self.segments is None:
            return tuple(f"{k / per:.9g}{unit}" for k in range(self.length))
        starts = [-(-k * self.length // self.segments) for k in range(self.segments + 1)]
        pairs = pairwise(f"{start / per:.9g}" for start in starts)
        return tuple(f"{first} to {last}{unit}" for first, last in pairs)

    def _places(self, device: torch.device) -> Tensor | None:
        if self.segments is None:
            return None
        return torch.arange(self.length, device=device) * self.segments // self.length

    def value_text(self, x: Tensor, position: int) -> str:
        """The mean of each channel at a time step or over a segment, with the names of the channels if they have any."""
        steps = self.over_channels(torch.arange(self.count))[0] == position
        means = x.cpu()[:, steps].mean(dim=1).tolist()
        names = [f"{name} " for name in self.names] or [""] * len(means)
        return ", ".join(f"{name}{value:.4g}" for name, value in zip(names, means, strict=True))

    def picture_size(self) -> tuple[int, int]:
        wide = min(self.length * max(1, 192 // self.length), _WIDEST)
        return min(max(64, wide // 2), 192), wide

    def heights(self, x: Tensor, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each channel, the least and the largest height of its line in each column of a picture: two arrays ``(width,)``. Height 0 is
        the bottom of the picture, 1 the top."""
        mean, std = (self.per_channel(torch.tensor(v)) for v in (self.mean, self.std))
        scaled = ((x.cpu() - mean) / std).numpy()
        reach = max(2.0, float(np.abs(scaled).max()))
        found = (_ranges(line, width) for line in scaled)
        return [(0.5 + 0.46 * low / reach, 0.5 + 0.46 * high / reach) for low, high in found]

    def picture(self, x: Tensor) -> np.ndarray:
        """A picture with a line for each channel. The line of the first channel is the darkest. The vertical range is at least two standard
        deviations on each side of the mean.
        """
        height, width = self.picture_size()
        page = np.full((height, width, 3), _PAPER, dtype=np.uint8)
        page[height // 2] = _GRID
        for k, (low, high) in reversed(list(enumerate(self.heights(x, width)))):
            top, bottom = (np.rint((1 - end) * (height - 1)).astype(int) for end in (high, low))
            ink = _INK + (170 - _INK) * k // max(1, self.channels)
            for column in range(width):  # joined to the line before, so that steep parts do not fall apart
                before = max(0, column - 1)
                first, last = min(top[column], bottom[before]), max(bottom[column], top[before])
                page[first : last + 1, column] = ink
        return page


def _ranges(line: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of ``line`` in each of ``width`` columns of a picture: two arrays ``(width,)``. Values are
    interpolated if the line has fewer of them than there are columns.

    >>> low, high = _ranges(np.array([0.0, 5.0, 1.0, 2.0]), 2)
    >>> low.tolist(), high.tolist()
    ([0.0, 1.0], [5.0, 2.0])
    """
    length = len(line)
    if length <= width:
        steps = np.interp((np.arange(width) + 0.5) * length / width - 0.5, np.arange(length), line)
        return steps, steps
    starts = np.arange(width) * length // width
    return np.minimum.reduceat(line, starts), np.maximum.reduceat(line, starts)
