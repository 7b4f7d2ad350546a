"""Series: a position is a time step, or a segment of time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Inputs

_INK, _PAPER, _GRID = 40, 250, 225
_QUIETEST = -50.0  # decibels below the loudest: white in a spectrogram
_WIDEST = 480  # pixels of a series' picture; of longer ones each column shows the range of its time steps


@dataclass(frozen=True, kw_only=True)
class Series(Inputs):
    """Series ``(C, T)`` of real numbers; a position is a time step, or a segment of time, with all channels together.

    Args:
        length: the number of time steps.
        names: the name of each channel.
        rate: time steps per second; positions are then named by their time.
        segments: positions are this number of equal parts of the series instead of single time steps.
        view: pictures show a line for each channel, or the spectrogram of the mean over channels, for sound.

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
    view: Literal["line", "spectrogram"] = "line"

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        super().__post_init__()
        if self.names and len(self.names) != self.channels:
            raise InputError(f"series of {self.channels} channels need as many names, not {len(self.names)}")
        if self.rate is not None and not self.rate > 0:
            raise InputError(f"rate must be the number of time steps per second, above 0, not {self.rate!r}")
        if self.view not in ("line", "spectrogram"):
            raise InputError(f"view must be line or spectrogram, not {self.view!r}")
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
    def has_names(self) -> bool:
        return self.segments is not None

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

    def record(self) -> dict[str, object]:
        record = {"inputs": self.kind, "length": self.length, "mean": list(self.mean), "std": list(self.std)}
        named = {"names": list(self.names)} if self.names else {}
        timed = {} if self.rate is None else {"rate": self.rate}
        parts = {} if self.segments is None else {"segments": self.segments}
        return {**record, **named, **timed, **parts, **({} if self.view == "line" else {"view": self.view})}

    def picture_size(self) -> tuple[int, int]:
        wide = min(self.length * max(1, 192 // self.length), _WIDEST)
        return min(max(64, wide // 2), 192), wide

    def heights(self, x: Tensor, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each channel, the least and the largest height of its line in each column of a picture: two arrays ``(width,)``. Height 0 is
        the bottom of the picture, 1 the top."""
        mean, std = (self.per_channel(torch.tensor(v)) for v in (self.mean, self.std))
        scaled = ((x.cpu() - mean) / std).numpy()
        reach = max(2.0, float(np.abs(scaled).max()))
        found = (ranges(line, width) for line in scaled)
        return [(0.5 + 0.46 * low / reach, 0.5 + 0.46 * high / reach) for low, high in found]

    def picture(self, x: Tensor) -> np.ndarray:
        """A picture with a line for each channel, or the spectrogram. The line of the first channel is the darkest. The vertical range is
        at least two standard deviations on each side of the mean.
        """
        height, width = self.picture_size()
        if self.view == "spectrogram":
            ink = resized(spectrogram(x.cpu().mean(dim=0).numpy()), height, width)
            return np.repeat((_PAPER + (_INK - _PAPER) * ink).astype(np.uint8)[..., None], 3, axis=2)
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


def ranges(line: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of ``line`` in each of ``width`` columns of a picture: two arrays ``(width,)``. Values are
    interpolated if the line has fewer of them than there are columns.

    >>> low, high = ranges(np.array([0.0, 5.0, 1.0, 2.0]), 2)
    >>> low.tolist(), high.tolist()
    ([0.0, 1.0], [5.0, 2.0])
    """
    length = len(line)
    if length <= width:
        steps = np.interp((np.arange(width) + 0.5) * length / width - 0.5, np.arange(length), line)
        return steps, steps
    starts = np.arange(width) * length // width
    return np.minimum.reduceat(line, starts), np.maximum.reduceat(line, starts)


def spectrogram(x: np.ndarray) -> np.ndarray:
    """The loudness ``(frequencies, frames)`` of each frequency over time, highest frequency first: 1 is the loudest, 0 is 50 dB below it or less.

    Frame t has the W samples around sample t H of the series x, multiplied by a Hann window w. Its power at the frequency k / W, in
    cycles per sample, is

        P(t, k) = | sum over n of w_n x_(t H + n - W/2) e^(-2 pi i k n / W) |^2,      W = 2^m, about an eighth of the length, at most 512;  H = W / 4.

    >>> tone = np.cos(
    ...     2 * np.pi * 0.25 * np.arange(256)
    ... )  # a quarter of the sampling rate: the middle of the picture
    >>> found = spectrogram(tone)
    >>> found.shape, int(found[:, 16].argmax())
    ((17, 33), 8)
    """
    window = 2 ** int(np.clip(np.log2(max(1, len(x) // 8)), 2, 9))
    hop = window // 4
    padded = np.pad(np.asarray(x, dtype=np.float64), window // 2)
    starts = np.arange(0, len(x) + 1, hop)
    frames = padded[starts[:, None] + np.arange(window)] * np.hanning(window + 1)[:-1]
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    decibels = 10 * np.log10(np.maximum(power, 1e-30) / max(float(power.max()), 1e-30))
    shades: np.ndarray = 1 - np.clip(decibels / _QUIETEST, 0, 1)
    return shades.T[::-1]


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The picture resized to ``(height, width)`` by nearest-neighbour interpolation."""
    rows = np.arange(height) * picture.shape[0] // height
    columns = np.arange(width) * picture.shape[1] // width
    found: np.ndarray = picture[rows[:, None], columns]
    return found
