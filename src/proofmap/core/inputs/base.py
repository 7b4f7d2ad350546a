"""The interface of every kind of input."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError

_TOLERANCE = 1e-3

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in positions; right and bottom are exclusive."""


def read_box(corners: Any, place: str) -> Box:
    """The box with these corners, as plain numbers. If they are no box, an InputError names the ``place`` where they were found."""
    try:
        left, top, right, bottom = map(float, corners)
        ordered = left <= right and top <= bottom
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise InputError(
            f"{place} has the box {corners!r}, expected four numbers: left, top, right, bottom, with left <= right and top <= bottom "
            "(not left, top, width, height)"
        )
    return left, top, right, bottom


@dataclass(frozen=True, kw_only=True)
class Inputs(ABC):
    """One kind of input: its shape and scale, and how inputs are masked, read and shown. ``mean`` and ``std`` have one value per channel.

    A *position* is a part of the input that is shown or hidden as a whole, such as a pixel. A *fill* makes the values that hidden
    positions show.
    """

    kind: ClassVar[str]
    """The name of this kind of input in records: ``pictures``, ``series``, ``rows``."""
    noun: ClassVar[str]
    """The plural for messages, such as "images"."""
    singular: ClassVar[str]
    """The name of one input: item 3 is called image-3, series-3 or row-3 if it has no other name."""
    form: ClassVar[str]
    """The shape of several inputs in words: ``(N, channels, height, width)``."""
    fills: ClassVar[tuple[str, ...]] = ("gray", "noise", "images")
    """The names of the fills that suit this kind of input, the default first. Messages that suggest another fill choose from these."""
    neutral_words: ClassVar[str] = "the mean of each channel"
    """What the fill ``gray`` shows, for notes below tables; empty if the name says it."""
    same_as_gray: ClassVar[str] = ""
    """The name of another fill that shows the same as ``gray``, if there is one."""
    position_noun: ClassVar[str]
    """The plural of positions: pixels, time steps, columns."""
    shape_hint: ClassVar[str] = (
        "Check the size and the number of channels it is given, and mean and std: they have an entry for each channel"
    )
    """Advice if a net cannot take the shape of these inputs."""
    channel_axis: ClassVar[int | None] = 0
    """The axis of the channels in one input; None if each position is a single number."""
    has_neighbours: ClassVar[bool] = True
    """Whether adjacent positions belong together, so that blur, grids and smoothness have a meaning."""
    has_order: ClassVar[bool] = True
    """Whether the order of positions has a meaning. The columns of a table have no such order."""
    view_words: ClassVar[str] = ""
    """Which part of an input its picture shows; empty if it shows all."""
    limits: ClassVar[tuple[float, float] | None] = None
    """The least and the greatest value; None if values are unlimited."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            values = getattr(self, name)
            if np.ndim(values) != 1:
                raise InputError(
                    f"{name} must be a list with one number per channel, such as ({name},) for one channel, not {values!r}"
                )
            object.__setattr__(self, name, tuple(map(float, values)))
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
        """The shape of one input: channels, if there are any, then positions."""
        return self.positions if self.channel_axis is None else (self.channels, *self.positions)

    @property
    def count(self) -> int:
        """The number of positions."""
        return math.prod(self.positions)

    @property
    def has_names(self) -> bool:
        """Whether the names of positions mean something to people, so that tables and files list them."""
        return self.shown_as != "picture"

    @property
    def shown_as(self) -> str:
        """How pages and sheets show an input: as a ``picture``, or, if it has named positions, as ``words``, ``columns`` or a ``line``."""
        return "picture"

    @property
    def position_names(self) -> tuple[str, ...]:
        """A name for each position, in the order of a flattened map; by default its indices, such as ``3, 4``."""
        return tuple(", ".join(map(str, index)) for index in np.ndindex(*self.positions))

    def names_of(self, x: Tensor) -> tuple[str, ...]:
        """A name for each position of one input ``x``: the words of a text, otherwise :attr:`position_names`."""
        return self.position_names

    def _places(self, device: torch.device) -> Tensor | None:
        """The position that each entry of an input's last axis belongs to, if positions are groups of entries, such as segments or groups
        of columns. None if each entry is a position."""
        return None

    def over_channels(self, values: Tensor) -> Tensor:
        """Values per position ``(..., *positions)``, in a shape that broadcasts with inputs ``(..., *shape)``."""
        places = self._places(values.device)
        values = values if places is None else values[..., places]
        return values if self.channel_axis is None else values.unsqueeze(-len(self.positions) - 1)

    def per_channel(self, values: Tensor) -> Tensor:
        """Values per channel ``(C,)``, in a shape that broadcasts with inputs ``(..., *shape)``."""
        return values if self.channel_axis is None else values.view(-1, *[1] * len(self.positions))

    def merged_channels(self, values: Tensor, how: str = "sum") -> Tensor:
        """Values of inputs ``(..., *shape)`` merged into one number per position ``(..., *positions)``, by sum, mean or max."""
        merge = "amax" if how == "max" else how
        if self.channel_axis is not None:
            values = getattr(values, merge)(dim=-len(self.positions) - 1)
        places = self._places(values.device)
        if places is None:
            return values
        merged = values.new_zeros(*values.shape[:-1], self.count)
        return merged.scatter_reduce(-1, places.expand(values.shape), values, merge, include_self=False)

    # ---- values -------------------------------------------------------------------------------------------------

    def composite(self, keep: Tensor, shown: Tensor, hidden: Tensor) -> Tensor:
        """The paper's masked input: the values of ``shown`` at positions that are kept, and those of ``hidden`` elsewhere.

        ``keep`` is ``(..., *positions)``, boolean or a share in [0, 1]; a share mixes the two values. ``shown`` and ``hidden`` are
        ``(..., *shape)``. Shares and the result are rounded to the precision of the inputs. In float16 the error of a share near one is
        at most .0002, and that of a small share is at most 1/2000 of its value. The gradient with respect to a share is a sum over
        channels. The gradient is rounded in the same way, and can overflow in that precision.

        >>> from proofmap.core.inputs import Rows
        >>> rows = Rows(columns=3, mean=(0, 0, 0), std=(1, 1, 1))
        >>> rows.composite(torch.tensor([True, False, True]), torch.ones(3), torch.zeros(3))
        tensor([1., 0., 1.])
        """
        mask = self.over_channels(keep)
        if keep.dtype == torch.bool:
            return torch.where(mask, shown, hidden)
        return torch.lerp(hidden, shown, mask.to(hidden.dtype))

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Two numbers per channel for the normalisation before the net: the mean that is subtracted, and the standard deviation that the
        result is divided by."""
        return self.mean, self.std

    def scale(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """:attr:`normalisation` in shapes that broadcast with inputs ``(..., *shape)``: x_normalised = (x - mean) / std."""
        mean, std = (
            torch.tensor(values, device=device, dtype=torch.float32) for values in self.normalisation
        )
        return self.per_channel(mean), self.per_channel(std)

    @property
    def has_sums(self) -> bool:
        """Whether noise may be added to values. Categories and whole numbers do not allow it."""
        return True

    @property
    def examples(self) -> Tensor | None:
        """Inputs ``(M, *shape)`` that came with the description, such as rows of its data frame; None if there are none."""
        return None

    @property
    def neutral(self) -> Tensor:
        """The value ``(C,)`` that normalises to zero, clipped to the valid range: gray for pictures, the mean or most frequent value of
        columns.
        """
        mean = torch.tensor(self.mean, dtype=torch.float32)
        return mean if self.limits is None else mean.clamp(*self.limits)

    def blank(self, n: int) -> Tensor:
        """``n`` inputs ``(n, *shape)`` in which every value is the neutral one."""
        return self.per_channel(self.neutral).expand(n, *self.shape).clone()

    def probe(self) -> Tensor:
        """One input ``(1, *shape)`` that is not constant, inside the limits: a ramp along the last axis longer than one."""
        grid = self.shape[len(self.shape) - len(self.positions) :]
        axis = max((k for k, length in enumerate(grid) if length > 1), default=0)
        ramp = torch.linspace(0, 1, grid[axis], dtype=torch.float32)
        ramp = ramp.view(-1, *[1] * (len(grid) - 1 - axis)).expand(1, *self.shape)
        if self.limits is not None:
            return ramp
        mean, std = (self.per_channel(torch.tensor(v, dtype=torch.float32)) for v in (self.mean, self.std))
        return mean + std * (2 * ramp - 1)

    def strong_noise(self, n: int) -> Tensor:
        """``n`` inputs ``(n, *shape)`` of strong noise, already normalised, to test the range of a net's outputs."""
        return 10 * torch.randn(n, *self.shape, generator=torch.Generator().manual_seed(0))

    def blank_like(self, x: Tensor) -> Tensor:
        """What the fill ``gray`` shows behind inputs ``(N, *shape)``: the neutral value."""
        return self.per_channel(self.neutral.to(x)).expand_as(x)

    def half(self, draw: int) -> Tensor:
        """About half of the positions, as a boolean mask ``(*positions)``: the fields of a checkerboard at a random place, each an eighth of the
        longest side wide. If positions have no neighbours, one of positions 0 and 1, one of 2 and 3, and so on, each at random.
        """
        from proofmap.core import streams

        key = torch.tensor(streams.key_of("half", draw))
        if not self.has_neighbours:
            first = streams.integers(key, -(-self.count // 2), 2)
            return torch.stack([first, 1 - first], dim=-1).flatten()[: self.count].view(self.positions).bool()
        width = max(1, round(max(self.positions) / 8))
        fields = torch.zeros(self.positions, dtype=torch.int64)
        for axis, offset in enumerate(streams.integers(key, len(self.positions), 2 * width).tolist()):
            line = (torch.arange(self.positions[axis]) + offset) // width
            fields = fields + line.view([-1 if k == axis else 1 for k in range(len(self.positions))])
        return fields % 2 == 1

    # ---- inputs with different numbers of positions -------------------------------------------------------------

    def lengths(self, x: Tensor) -> Tensor | None:
        """The number of positions of each input ``(N,)``. An input uses the first positions of the grid. None if every input has
        :attr:`count` positions.

        An input with fewer positions is ranked, hidden and scored at its own length, as inputs of the kind that :meth:`at_length` returns.
        """
        return None

    def at_length(self, n: int) -> Self:
        """The same kind of input with exactly ``n`` positions, for kinds with :meth:`lengths`."""
        raise InputError(f"all {self.noun} have {self.count} {self.position_noun}")

    def cut(self, x: Tensor, n: int) -> Tensor:
        """Inputs ``(N, *shape)`` with ``n`` positions each, cut to the shape of :meth:`at_length`."""
        return x[..., :n]

    def by_length(self, x: Tensor) -> list[tuple[int, Tensor]]:
        """The inputs ``(N, *shape)`` grouped by length: each number of positions, with the indices of the inputs that have it. Empty if
        all have :attr:`count`.
        """
        lengths = self.lengths(x)
        if lengths is None or bool((lengths == self.count).all()):
            return []
        return [(n, (lengths == n).nonzero()[:, 0]) for n in lengths.unique().tolist()]

    def sizes(self, x: Tensor, *, gradient: bool) -> Tensor:
        """How much of each input ``(N, *shape)`` the net reads, ``(N,)``. A batch of inputs of similar size needs little padding.
        If a gradient is computed, the net may also read hidden positions."""
        return torch.zeros(len(x), device=x.device)

    def varied(self, x: Tensor) -> Tensor:
        """Mask ``(N, *shape)`` of the values to which noise may be added. By default, all values."""
        return torch.ones_like(x, dtype=torch.bool)

    def for_net(self, x: Tensor) -> Tensor:
        """Inputs ``(N, *shape)`` as the net takes them; inputs that were cut to one length may be padded again."""
        return x

    def decode(self, x: Tensor) -> Any:
        """Inputs ``(N, *shape)`` in the form that a model other than a torch net takes: an array, a data frame, a list of strings."""
        return x.cpu().numpy()

    def takes(self, given: object) -> bool:
        """Whether :meth:`encode` can read the object ``given``. This method is not called for tensors and arrays."""
        return False

    def encode(self, given: Any) -> Tensor:
        """Inputs ``(N, *shape)`` from an object that :meth:`takes`; :class:`~proofmap.core.tensors.NamedImages` if it has names."""
        raise InputError(f"{self.noun} must be a tensor {self.form}, not {type(given).__name__}")

    def check_given(self, x: Tensor) -> None:  # noqa: B027 - most kinds have nothing to doubt
        """Refuse inputs of a person whose values, taken together, show that they are in other units."""

    def check(self, inputs: Tensor) -> Tensor:
        """The inputs as a plain tensor; raises an InputError if shape, type or values are wrong."""
        if not isinstance(inputs, torch.Tensor):
            hint = "; see load_images" if self.kind == "pictures" else ""
            raise InputError(f"{self.noun} must be a tensor {self.form}, not {type(inputs).__name__}{hint}")
        if inputs.ndim != 1 + len(self.shape) or tuple(inputs.shape[1:]) != self.shape:
            raise InputError(
                f"{self.noun} must be (N, {', '.join(map(str, self.shape))}), got {tuple(inputs.shape)}{self._shape_advice(inputs)}"
            )
        limits = "" if self.limits is None else f" in [{self.limits[0]:g}, {self.limits[1]:g}]"
        if not inputs.is_floating_point():
            hint = "" if self.limits is None else "; divide 8-bit pixels by 255"
            raise InputError(f"{self.noun} must be floats{limits}, got {inputs.dtype}{hint}")
        if len(inputs):
            low, high = (float(v) for v in inputs.detach().aminmax())
            found = f"got [{low:.6g}, {high:.6g}]"
            if self.limits is None:
                self._check_finite(inputs.detach(), f"{self.noun} must be finite, {found}")
            elif not (low >= self.limits[0] - _TOLERANCE and high <= self.limits[1] + _TOLERANCE):  # also NaN
                own = "(the classifier normalises them itself)"
                raise InputError(f"{self.noun} must lie{limits} {own}, {found}")
        from proofmap.core.tensors import NamedImages

        return NamedImages.plain(inputs)

    def _check_finite(self, inputs: Tensor, problem: str) -> None:
        if not bool(inputs.isfinite().all()):
            raise InputError(problem)

    def _shape_advice(self, given: Tensor) -> str:
        """How to change a tensor of the wrong shape into inputs, or an empty text if that is not known. It continues a sentence."""
        own, axes = tuple(given.shape), len(self.shape)
        if axes > 2 and own[-axes:] == (*self.shape[1:], self.channels) and given.ndim <= axes + 1:
            return f"; channels come before height and width: write x.movedim(-1, -{axes})"
        if axes > 2 and self.channels == 1 and own[1 - axes :] == self.shape[1:] and given.ndim <= axes:
            return f"; {self.noun} have an axis of channels: write x.unsqueeze(-{axes})"
        return f"; for one {self.singular} write x[None]" if own == self.shape else ""

    # ---- data, records, pictures --------------------------------------------------------------------------------

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        """Turn an item of a dataset into one float32 input of the shape ``self.shape``, on the CPU.

        Numbers must already have the shape and the range of the input. Pillow images are resized and cropped. With ``cropped``, the
        shorter side is resized to the input size, so that the crop cuts nothing off that side.
        """
        try:
            values = (
                item.detach().clone() if isinstance(item, torch.Tensor) else torch.tensor(np.asarray(item))
            )
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.noun} must be numbers: {error}") from None
        return self.check(values.to("cpu", torch.float32)[None])[0]

    def reads(self, kind: str) -> bool:
        """Whether :meth:`prepare` can read items of this kind of dataset."""
        return kind == self.kind

    def check_readable(self) -> None:  # noqa: B027 - most kinds have nothing to refuse
        """Raise an InputError if no data can be read for this net."""

    def moved_boxes(self, boxes: Sequence[Box], item: Any, *, cropped: bool = False) -> tuple[Box, ...]:
        """Boxes of an item, converted to positions of the input that :meth:`prepare` makes. Boxes outside the crop are left out."""
        return tuple(boxes)

    def checked_boxes(self, boxes: Sequence[Any], name: str) -> list[Box]:
        """Boxes in positions of the input called ``name``, as plain numbers. An InputError says what is wrong with them."""
        return list(boxes)

    def record(self) -> dict[str, object]:
        """Plain data for records of results, without settings that are None or empty; :meth:`from_record` rebuilds the inputs from them."""
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.compare}
        given = {name: value for name, value in settings.items() if value is not None and value != ()}
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
        return {"inputs": self.kind, **plain}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inputs that a record describes. Entries that are not fields of this class are ignored."""
        names = [field.name for field in fields(cls) if field.name in record]
        return cls(**{name: tuple(v) if isinstance(v := record[name], list) else v for name in names})

    def value_text(self, x: Tensor, position: int) -> str:
        """The value of one input ``x`` at a position (an index of the flattened map), as text for people."""
        at = self.over_channels(torch.arange(self.count).view(self.positions)).expand(self.shape) == position
        return ", ".join(f"{value:.4g}" for value in x.cpu()[at].tolist())

    @abstractmethod
    def picture(self, x: Tensor) -> np.ndarray:
        """A picture ``(h, w, 3)`` of one input ``x``, with uint8 values."""

    def facing(self, maps: Iterable[Tensor]) -> Self:
        """These inputs, drawn so that pictures show what matters in the maps ``(*positions)`` of one input."""
        return self

    def pixel_positions(self) -> Tensor:
        """The index of the position that each pixel ``(h, w)`` of :meth:`picture` shows; -1 if it shows none."""
        height, width = self.picture_size()
        places = self._places(torch.device("cpu"))
        places = torch.arange(self.count) if places is None else places
        return places[torch.arange(width) * len(places) // width].expand(height, width)

    @abstractmethod
    def picture_size(self) -> tuple[int, int]:
        """Height and width of :meth:`picture`."""
