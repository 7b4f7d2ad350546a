"""Series: a position is a time step, or a segment of time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Inputs

_INK, _PAPER, _GRID = 40, 250, 225
_WIDEST = 2048  # pixels of a series' picture; longer ones are thinned out


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

    kind: ClassVar[str] = "series"
    noun: ClassVar[str] = "series"
    singular: ClassVar[str] = "series"
    form: ClassVar[str] = "(N, channels, time steps)"
    fills: ClassVar[tuple[str, ...]] = (
        "gray",
        "noise",
        "blur",
        "images",
        "time-shift",
        "time-reversal",
    )
    position_noun: ClassVar[str] = "time steps"

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
    def shape(self) -> tuple[int, ...]:
        return (self.channels, self.length)

    @property
    def has_names(self) -> bool:
        return self.segments is not None

    @property
    def position_names(self) -> tuple[str, ...]:
        unit, per = ("", 1.0) if self.rate is None else (" s", self.rate)
        if self.segments is None:
            return tuple(f"{k / per:.9g}{unit}" for k in range(self.length))
        starts = [-(-k * self.length // self.segments) for k in range(self.segments + 1)]
        pairs = pairwise(f"{start / per:.9g}" for start in starts)
        return tuple(f"{first} to {last}{unit}" for first, last in pairs)

    def _places(self, device: torch.device) -> Tensor:
        """The position of each time step ``(T,)``."""
        steps = torch.arange(self.length, device=device)
        return steps if self.segments is None else steps * self.segments // self.length

    def over_channels(self, values: Tensor) -> Tensor:
        values = values if self.segments is None else values[..., self._places(values.device)]
        return values.unsqueeze(-2)

    def merged_channels(self, values: Tensor, how: str = "sum") -> Tensor:
        """Values ``(..., C, T)`` as one number per position: of all channels, and of all time steps of a segment."""
        merged = super().merged_channels(values, how)
        if self.segments is None:
            return merged
        index = self._places(values.device).expand(merged.shape)
        found = merged.new_zeros(*merged.shape[:-1], self.segments)
        return found.scatter_reduce(-1, index, merged, {"max": "amax"}.get(how, how), include_self=False)

    def per_channel(self, values: Tensor) -> Tensor:
        return values.view(-1, 1)

    def probe(self) -> Tensor:
        """A ramp in time, from one standard deviation below the mean to one above."""
        ramp = 2 * torch.linspace(0, 1, self.length, dtype=torch.float32) - 1
        mean, std = (self.per_channel(torch.tensor(v, dtype=torch.float32)) for v in (self.mean, self.std))
        return (mean + std * ramp)[None]

    def value_text(self, x: Tensor, position: int) -> str:
        """The mean of each channel at a time step or over a segment, with the names of the channels if they have any."""
        means = x.cpu()[:, self._places(torch.device("cpu")) == position].mean(dim=1).tolist()
        names = [f"{name} " for name in self.names] or [""] * len(means)
        return ", ".join(f"{name}{value:.4g}" for name, value in zip(names, means, strict=True))

    def pixel_positions(self) -> Tensor:
        height, width = self.picture_size()
        return self._places(torch.device("cpu"))[torch.arange(width) * self.length // width].expand(
            height, width
        )

    def record(self) -> dict[str, object]:
        record = {"inputs": self.kind, "length": self.length, "mean": list(self.mean), "std": list(self.std)}
        named = {"names": list(self.names)} if self.names else {}
        timed = {} if self.rate is None else {"rate": self.rate}
        return {**record, **named, **timed, **({} if self.segments is None else {"segments": self.segments})}

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
