"""Volumes and videos as input: a position is a voxel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Inputs
from proofmap.core.inputs.pictures import as_rgb

_MOST = 9
"""Largest number of slices in a picture."""
_TOP = 0.2
"""Share of a map's voxels that counts when the slices of a picture are chosen."""


@dataclass(frozen=True, kw_only=True)
class Volumes(Inputs):
    """Volumes ``(C, D, H, W)`` of real numbers, such as scans, or videos of D frames; a position is a voxel, with all channels together.

    Args:
        size: depth (or frames), height and width.
        slices: the slices that a picture shows, at most 9; by default evenly spaced ones.

    >>> Volumes(size=(4, 8, 8)).shape
    (1, 4, 8, 8)
    """

    kind = "volumes"
    noun = "volumes"
    singular = "volume"
    form = "(N, channels, depth, height, width)"
    fills = ("gray", "noise", "blur", "images")
    position_noun = "voxels"

    size: tuple[int, int, int]
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    slices: tuple[int, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if np.shape(self.size) != (3,):
            raise InputError(f"size must be (depth, height, width) in voxels, not {self.size!r}")
        object.__setattr__(self, "size", tuple(map(int, self.size)))
        super().__post_init__()

    @property
    def positions(self) -> tuple[int, ...]:
        return self.size

    @property
    def shown(self) -> tuple[int, ...]:
        """The slices that a picture shows."""
        depth = self.size[0]
        count = min(depth, _MOST)
        return self.slices or tuple((2 * k + 1) * depth // (2 * count) for k in range(count))

    @property
    def view_words(self) -> str:  # type: ignore[override]
        return f"Slices {', '.join(map(str, self.shown))} of 0 to {self.size[0] - 1}, row by row."

    def facing(self, maps: Iterable[Tensor]) -> Self:
        """Drawn with the slices that hold most of the maps' top voxels."""
        depth = self.size[0]
        if depth <= _MOST:
            return self
        held = torch.zeros(depth)
        for values in maps:
            top = values.flatten().topk(math.ceil(_TOP * self.count)).indices
            held += torch.bincount(top.cpu() // (self.count // depth), minlength=depth)
        return replace(
            self, slices=tuple(sorted(held.argsort(descending=True, stable=True)[:_MOST].tolist()))
        )

    def picture(self, x: Tensor) -> np.ndarray:
        """The slices, row by row, in the range of the volume's values. The first three channels are colours; if there are fewer, their
        mean is shown as gray."""
        x = (x - x.min()) / (x.max() - x.min()).clamp_min(1e-6)
        colours = np.concatenate([as_rgb(x).reshape(-1, 3), np.full((1, 3), 255, dtype=np.uint8)])
        drawn: np.ndarray = colours[self.pixel_positions().numpy()]
        return drawn

    def pixel_positions(self) -> Tensor:
        """The index of each pixel's voxel; -1 between two slices."""
        _, height, width = self.size
        across, gap = self._across, self._gap
        rows = math.ceil(len(self.shown) / across)
        page = torch.full((rows * across, height + gap, width + gap), -1)
        slices = torch.arange(self.count).view(self.size)[list(self.shown)]
        page[: len(slices), :height, :width] = slices
        whole = page.view(rows, across, height + gap, width + gap).transpose(1, 2)
        return whole.reshape(rows * (height + gap), across * (width + gap))[:-gap, :-gap]

    def picture_size(self) -> tuple[int, int]:
        height, width = self.pixel_positions().shape
        return height, width

    @property
    def _across(self) -> int:
        """The number of slices side by side, for a picture that is about a square."""
        _, height, width = self.size
        return min(len(self.shown), math.ceil(math.sqrt(len(self.shown) * height / width)))

    @property
    def _gap(self) -> int:
        """Pixels between two slices."""
        return max(1, max(self.size[1:]) // 24)
