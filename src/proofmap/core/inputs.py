"""What a net takes, and what a position of it is: pictures, series, rows of a table.

A *position* is a place of the input that is shown or hidden as a whole, and that a map has one value for: a pixel of a
picture (all channels together), a time step of a series, a column of a table's row. Code that ranks positions, composes
a shown and a hidden input, reads data or draws a result uses the classifier's :class:`Inputs`; no other code knows how
many axes there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.pictures import Interpolation, fit, fitted_size, in_colour, to_pixels

_BRIGHTNESS = (0.299, 0.587, 0.114)  # ITU-R BT.601
_INK, _PAPER, _GRID = 40, 250, 225
_TOLERANCE = 1e-3
_MERGED: Mapping[str, Callable[..., Tensor]] = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
_WIDEST = 2048  # pixels of a series' picture; longer ones are thinned out

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in positions; the last two are not inside."""


@dataclass(frozen=True, kw_only=True)
class Inputs(ABC):
    """One kind of input: its shape, its scale, how it is composed, read and shown. ``mean`` and ``std`` are per channel."""

    kind: ClassVar[str]
    """What a record calls it: ``pictures``, ``series``, ``rows``."""
    noun: ClassVar[str]
    """What a message calls a batch of them."""
    position_noun: ClassVar[str]
    """What a page calls positions: pixels, time steps, columns."""
    channel_axis: ClassVar[int | None] = 0
    """Where the channels of one input are; None where each position is a single number."""
    has_neighbours: ClassVar[bool] = True
    """Whether positions that are next to one another belong together, so that blur, grids and smoothness mean something."""
    limits: ClassVar[tuple[float, float] | None] = None
    """The least and the greatest value, where there are such."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        object.__setattr__(self, "std", tuple(map(float, self.std)))
        finite = all(map(math.isfinite, (*self.mean, *self.std)))
        if not finite or len(self.mean) == 0 or len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise InputError(
                f"mean and std need one entry per channel and std > 0, got {self.mean!r} and {self.std!r}"
            )
        if min(self.positions, default=0) < 1:
            raise InputError(f"the size of {self.noun} must be positive, not {self.positions}")

    # ---- shapes -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def positions(self) -> tuple[int, ...]:
        """The grid of positions, which is the shape of a map: ``(H, W)``, ``(T,)``, ``(columns,)``."""

    @property
    def channels(self) -> int:
        return len(self.mean)

    @property
    def shape(self) -> tuple[int, ...]:
        """One input: the channels, where there are any, then the positions."""
        return self.positions if self.channel_axis is None else (self.channels, *self.positions)

    @property
    def count(self) -> int:
        """How many positions there are."""
        return math.prod(self.positions)

    def over_channels(self, values: Tensor) -> Tensor:
        """Values per position ``(..., *positions)``, shaped to meet inputs ``(..., *shape)``."""
        return values if self.channel_axis is None else values.unsqueeze(-len(self.positions) - 1)

    def per_channel(self, values: Tensor) -> Tensor:
        """Values per channel ``(C,)``, shaped to meet inputs ``(..., *shape)``."""
        return values if self.channel_axis is None else values.view(-1, *[1] * len(self.positions))

    def merged_channels(self, values: Tensor, how: str = "sum") -> Tensor:
        """Values of inputs ``(..., *shape)`` as one number per position ``(..., *positions)``: sum, mean or max."""
        if how not in _MERGED:
            raise InputError(f"channels are merged by {', '.join(_MERGED)}, not {how!r}")
        return values if self.channel_axis is None else _MERGED[how](values, dim=-len(self.positions) - 1)

    # ---- values -------------------------------------------------------------------------------------------------

    def composite(self, keep: Tensor, shown: Tensor, hidden: Tensor) -> Tensor:
        """``shown`` where kept and ``hidden`` elsewhere: the paper's masked input.

        ``keep`` is ``(..., *positions)``, boolean or a share in [0, 1]; the others are ``(..., *shape)``.

        >>> rows = Rows(columns=3, mean=(0, 0, 0), std=(1, 1, 1))
        >>> rows.composite(torch.tensor([True, False, True]), torch.ones(3), torch.zeros(3))
        tensor([1., 0., 1.])
        """
        mask = self.over_channels(keep)
        return (
            torch.where(mask, shown, hidden) if keep.dtype == torch.bool else torch.lerp(hidden, shown, mask)
        )

    @property
    def neutral(self) -> Tensor:
        """What normalises to zero ``(C,)``, within the limits: the gray of pictures."""
        mean = torch.tensor(self.mean)
        return mean if self.limits is None else mean.clamp(*self.limits)

    def blank(self, n: int) -> Tensor:
        """``n`` inputs of the neutral value."""
        return self.per_channel(self.neutral).expand(n, *self.shape).clone()

    def probe(self) -> Tensor:
        """One input ``(1, *shape)`` that is not constant, inside the limits: a ramp along the last axis longer than one."""
        axis = max((k for k, length in enumerate(self.positions) if length > 1), default=0)
        ramp = torch.linspace(0, 1, self.positions[axis])
        ramp = ramp.view(-1, *[1] * (len(self.positions) - 1 - axis)).expand(1, *self.shape)
        if self.limits is not None:
            return ramp
        mean, std = (self.per_channel(torch.tensor(v)) for v in (self.mean, self.std))
        return mean + std * (2 * ramp - 1)

    def check(self, inputs: Tensor) -> Tensor:
        """The inputs as they are, or an error that says what is wrong with them."""
        if not isinstance(inputs, Tensor):
            hint = "; see load_images" if self.kind == "pictures" else ""
            raise InputError(
                f"{self.noun} must be a tensor {self._form()}, not {type(inputs).__name__}{hint}"
            )
        if inputs.ndim != 1 + len(self.shape) or tuple(inputs.shape[1:]) != self.shape:
            raise InputError(
                f"{self.noun} must be (N, {', '.join(map(str, self.shape))}), got {tuple(inputs.shape)}"
            )
        limits = "" if self.limits is None else f" in [{self.limits[0]:g}, {self.limits[1]:g}]"
        if not inputs.is_floating_point():
            raise InputError(f"{self.noun} must be floats{limits}, got {inputs.dtype}" + self._bytes_hint())
        if len(inputs):
            low, high = (float(v) for v in inputs.aminmax())
            found = f"got [{low:.3g}, {high:.3g}]"
            if self.limits is None:
                if not (math.isfinite(low) and math.isfinite(high)):
                    raise InputError(f"{self.noun} must be finite, {found}")
            elif not (low >= self.limits[0] - _TOLERANCE and high <= self.limits[1] + _TOLERANCE):  # also NaN
                own = "(the classifier normalises them itself)"
                raise InputError(f"{self.noun} must lie{limits} {own}, {found}")
        return inputs

    def _form(self) -> str:
        return f"(N, {', '.join(map(str, self.shape))})"

    def _bytes_hint(self) -> str:
        return ""

    # ---- data, records, pictures --------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        """An item of a dataset as one input ``shape`` on the CPU; ``cropped`` items are already cut to what counts."""

    def check_readable(self) -> None:  # noqa: B027 - most kinds have nothing to refuse
        """Refuse data for a net whose inputs cannot be made from any, before the first is read."""

    def moved_boxes(self, boxes: Sequence[Box], item: Any, *, cropped: bool = False) -> tuple[Box, ...]:
        """Boxes of an item of a dataset in the positions of what :meth:`prepare` makes of it; none where all is cut off."""
        return tuple(boxes)

    @abstractmethod
    def record(self) -> dict[str, object]:
        """What a record of results must carry; :func:`inputs_of` rebuilds the inputs from it."""

    @abstractmethod
    def picture(self, x: Tensor) -> np.ndarray:
        """One input ``shape`` as a picture for people: bytes ``(h, w, 3)``."""

    def pixel_positions(self) -> Tensor:
        """The position, by its number, that each pixel ``(h, w)`` of :meth:`picture` belongs to."""
        height, width = self.picture_size()
        columns = torch.arange(width) * self.count // width
        return columns.expand(height, width)

    @abstractmethod
    def picture_size(self) -> tuple[int, int]:
        """Height and width of :meth:`picture`."""


@dataclass(frozen=True, kw_only=True)
class Pictures(Inputs):
    """Pictures ``(C, H, W)`` with values in [0, 1]; a position is a pixel.

    Args:
        size: height and width (one number for a square).
        resize: shorter side before the centre crop when photos are loaded; the input size when None.
        interpolation: how photos are resized.
    """

    kind: ClassVar[str] = "pictures"
    noun: ClassVar[str] = "images"
    position_noun: ClassVar[str] = "pixels"
    limits: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    size: tuple[int, int]
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    resize: int | None = None
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        size = (self.size, self.size) if isinstance(self.size, int) else self.size
        object.__setattr__(self, "size", (int(size[0]), int(size[1])))
        if min(self.size) < 1:
            raise InputError(f"size must be positive, not {self.size!r}")
        if self.interpolation not in get_args(Interpolation):
            known = ", ".join(get_args(Interpolation))
            raise InputError(f"interpolation must be one of {known}, not {self.interpolation!r}")
        super().__post_init__()

    @property
    def positions(self) -> tuple[int, ...]:
        return self.size

    def _form(self) -> str:
        return "(N, C, H, W)"

    def _bytes_hint(self) -> str:
        return "; divide 8-bit pixels by 255"

    def prepare(self, item: Image.Image, *, cropped: bool = False) -> Tensor:
        """A photo resized and centre-cropped; gray-scale becomes RGB, transparency shows the neutral gray."""
        item = in_colour(item, "the picture")
        fitted = fit(item, self.size, None if cropped else self.resize, self.interpolation)
        pixels = to_pixels(fitted, self.neutral.expand(3).tolist() if item.mode == "RGBA" else None)
        if self.channels == 1:
            pixels = (pixels * pixels.new_tensor(_BRIGHTNESS).view(3, 1, 1)).sum(dim=0, keepdim=True)
        return pixels

    def check_readable(self) -> None:
        if self.channels not in (1, 3):
            raise InputError(f"pictures have 1 or 3 channels, but the classifier takes {self.channels}")

    def moved_boxes(
        self, boxes: Sequence[Box], item: Image.Image, *, cropped: bool = False
    ) -> tuple[Box, ...]:
        (wide, high), (left, top) = fitted_size(item.size, self.size, None if cropped else self.resize)
        across, down = wide / item.width, high / item.height
        moved = []
        for x0, y0, x1, y1 in boxes:
            x0, x1 = (min(max(x * across - left, 0.0), float(self.size[1])) for x in (x0, x1))
            y0, y1 = (min(max(y * down - top, 0.0), float(self.size[0])) for y in (y0, y1))
            if x0 < x1 and y0 < y1:
                moved.append((x0, y0, x1, y1))
        return tuple(moved)

    def record(self) -> dict[str, object]:
        return {
            "size": list(self.size),
            "mean": list(self.mean),
            "std": list(self.std),
            "resize": self.resize,
            "interpolation": self.interpolation,
        }

    def picture(self, x: Tensor) -> np.ndarray:
        """The first three channels, or the mean of fewer as gray."""
        colours = x[:3] if len(x) >= 3 else x.mean(dim=0).expand(3, -1, -1)
        drawn: np.ndarray = (colours.clamp(0, 1).cpu() * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        return drawn

    def pixel_positions(self) -> Tensor:
        return torch.arange(self.count).view(self.size)

    def picture_size(self) -> tuple[int, int]:
        return self.size


@dataclass(frozen=True, kw_only=True)
class Series(Inputs):
    """Series ``(C, T)`` of real numbers; a position is a time step, with all channels together.

    >>> Series(length=50, mean=(0, 0), std=(1, 1)).shape
    (2, 50)
    """

    kind: ClassVar[str] = "series"
    noun: ClassVar[str] = "series"
    position_noun: ClassVar[str] = "time steps"

    length: int
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.length,)

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        return _as_tensor(item, self.shape, self.noun)

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


@dataclass(frozen=True, kw_only=True)
class Rows(Inputs):
    """Rows of a table: one real number per column; a position is a column, and neighbours mean nothing."""

    kind: ClassVar[str] = "rows"
    noun: ClassVar[str] = "rows"
    position_noun: ClassVar[str] = "columns"
    channel_axis: ClassVar[int | None] = None
    has_neighbours: ClassVar[bool] = False

    columns: int

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.columns,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mean) != self.columns:
            raise InputError(f"rows of {self.columns} columns need as many means, not {len(self.mean)}")

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        return _as_tensor(item, self.shape, self.noun)

    def record(self) -> dict[str, object]:
        return {"inputs": self.kind, "columns": self.columns, "mean": list(self.mean), "std": list(self.std)}

    def picture_size(self) -> tuple[int, int]:
        return 96, self.columns * max(2, 192 // self.columns)

    def picture(self, x: Tensor) -> np.ndarray:
        """A bar for each column, up or down from its mean, in standard deviations."""
        height, width = self.picture_size()
        page = np.full((height, width, 3), _PAPER, dtype=np.uint8)
        scaled = ((x.cpu() - torch.tensor(self.mean)) / torch.tensor(self.std)).numpy()
        reach, wide, middle = max(2.0, float(np.abs(scaled).max())), width // self.columns, height // 2
        for k, value in enumerate(scaled):
            end = middle - round(0.46 * height * float(value) / reach)
            low, high = sorted((middle, end))
            page[low : high + 1, k * wide + (wide > 3) : (k + 1) * wide] = _INK
        page[middle] = _GRID
        return page


KINDS: Mapping[str, type[Inputs]] = {kind.kind: kind for kind in (Pictures, Series, Rows)}


def inputs_of(record: Mapping[str, Any]) -> Inputs:
    """The inputs that a classifier's settings describe: enough to show what it saw, without running the user's code.

    >>> inputs_of(
    ...     {"size": [2, 3], "mean": [0.5], "std": [1.0], "resize": None, "interpolation": "box"}
    ... ).positions
    (2, 3)
    """
    kind = KINDS.get(str(record.get("inputs", Pictures.kind)))
    if kind is None:
        raise InputError(
            f"inputs of the kind {record['inputs']!r} are not known here; they need a newer Proofmap"
        )
    names = [field.name for field in fields(kind) if field.name in record]
    given = {name: tuple(v) if isinstance(v := record[name], list) else v for name in names}
    return kind(**given)


def _as_tensor(item: Any, shape: tuple[int, ...], noun: str) -> Tensor:
    """The numbers of an item as a tensor of our own."""
    try:
        values = item.detach().clone() if isinstance(item, Tensor) else torch.tensor(np.asarray(item))
    except (TypeError, ValueError) as error:
        raise InputError(f"{noun} must be numbers: {error}") from None
    if tuple(values.shape) != shape:
        raise InputError(f"{noun} must have the shape {shape}, this one has {tuple(values.shape)}")
    values = values.to("cpu", torch.float32)
    if not bool(values.isfinite().all()):
        raise InputError(f"one of the {noun} holds NaN or infinity")
    return values
