"""Rows of a table: a position is a column, or a group of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Inputs
from proofmap.core.inputs.columns import Columns
from proofmap.core.inputs.frames import Column, library_of
from proofmap.core.text import short_names, shortened

_EXAMPLES = 1024
_INK, _PAPER, _GRID = 40, 250, 225
_BAND, _WIDE, _MOST_LISTED = 16, 260, 60  # pixels of a line and of its width; most lines of a picture


@dataclass(frozen=True, kw_only=True)
class Rows(Inputs):
    """Rows of a table with one real number per column; a position is a column, and the order of columns has no meaning.

    ``Rows.of(frame)`` describes the rows of a data frame. Its :class:`~proofmap.core.inputs.Columns` turn rows into numbers, and the net
    gets these numbers unchanged. ``mean`` and ``std`` are then those of the columns. They are used for pictures and for fills, which make
    the values that hidden columns show. Without a table, the net gets ``(x - mean) / std``.

    Args:
        columns: the number of columns; by default the number of columns in ``names`` or ``table``.
        names: the name of each column.
        table: the columns of a data frame, with their names.
        examples: rows ``(M, columns)`` that fills draw from, instead of the rows that are explained.

    >>> Rows(columns=2, mean=(40.0, 0.0), std=(10.0, 1.0), names=("age", "balance")).position_names
    ('age', 'balance')
    """

    kind = "rows"
    noun = "rows"
    singular = "row"
    form = "(N, columns)"
    fills = ("gray", "images", "near-rows", "class-median")
    position_noun = "columns"
    neutral_words = "the mean or the most frequent value of each column"
    shape_hint = "Check the number of columns it is given"
    channel_axis = None
    has_neighbours = False
    has_order = False

    columns: int = 0
    names: tuple[str, ...] = ()
    table: Columns | None = None
    examples: Tensor | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        table = self.table
        object.__setattr__(self, "names", tuple(map(str, self.names if table is None else table.names)))
        object.__setattr__(self, "columns", self.columns or len(self.names))
        super().__post_init__()
        if self.names:
            Columns(tuple(Column(name=name) for name in self.names))  # refuses names that are not distinct
        for what, given in (("means", len(self.mean)), ("names", len(self.names) or self.columns)):
            if given != self.columns:
                raise InputError(f"rows of {self.columns} columns need as many {what}, not {given}")

    @classmethod
    def of(cls, data: Any, *, groups: Mapping[str, Sequence[str]] | Literal["one-hot"] | None = None) -> Self:
        """Rows like those of a data frame, an array of numbers, or :class:`Columns`; ``groups`` as in :meth:`Columns.of`.

        Up to 1,024 rows of the data, chosen at random with a fixed seed, are the ``examples``; :class:`Columns` have none.
        """
        table = Columns.of(data, groups=groups)
        center, spread = (tuple(getattr(c, what) for c in table.columns) for what in ("center", "spread"))
        examples = None
        if not isinstance(data, Columns):
            rows = table.encode(data)
            from proofmap.core import streams

            order = streams.permutations(torch.tensor(streams.key_of(0, "examples of rows")), len(rows))
            examples = rows[order[:_EXAMPLES].sort().values]
        return cls(mean=center, std=spread, table=table, examples=examples)

    # ---- shapes -------------------------------------------------------------------------------------------------

    @property
    def _members(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The name and the columns of each position."""
        if self.table is not None:
            return self.table.positions
        return tuple((name, (k,)) for k, name in enumerate(self.names or map(str, range(self.columns))))

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.columns if self.table is None else len(self.table.positions),)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.columns,)

    @property
    def shown_as(self) -> str:
        return "columns" if self.names else "picture"

    @property
    def position_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._members)

    def _places(self, device: torch.device) -> Tensor | None:
        if self.positions == self.shape:
            return None
        places = {k: p for p, (_, members) in enumerate(self._members) for k in members}
        return torch.tensor([places[k] for k in range(self.columns)], device=device)

    # ---- values -------------------------------------------------------------------------------------------------

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        if self.table is None:
            return super().normalisation
        return (0.0,) * self.columns, (1.0,) * self.columns

    @property
    def has_sums(self) -> bool:
        return self.table is None or all(c.kind == "number" and not c.whole for c in self.table.columns)

    def probe(self) -> Tensor:
        """A test row ``(1, columns)`` that differs from the fill (what hidden columns show). Values go from the low end of the range in the
        first column to the high end in the last column."""
        if self.table is None:
            return super().probe()
        return _within(self.table, torch.linspace(0, 1, self.columns, dtype=torch.float64)[None])

    def strong_noise(self, n: int) -> Tensor:
        if self.table is None:
            return super().strong_noise(n)
        return _within(self.table, torch.rand(n, self.columns, generator=torch.Generator().manual_seed(0)))

    def takes(self, given: object) -> bool:
        return library_of(given) is not None or callable(getattr(given, "to_pandas", None))

    def encode(self, given: Any) -> Tensor:
        """The rows ``(N, columns)`` of a data frame as numbers, with the names of the rows."""
        from proofmap.core.tensors import NamedImages

        return NamedImages.of(self._described().encode(given), Column.row_names(given))

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        encoded = getattr(item, "encoded", None)  # a row of a table: see proofmap.data.TableData
        return super().prepare(item) if encoded is None else encoded(self._described())

    def decode(self, x: Tensor) -> Any:
        return super().decode(x) if self.table is None else self.table.decode(x.cpu())

    def _described(self) -> Columns:
        """The columns of the table, or columns of numbers if only their names are known."""
        if self.table is None and not self.names:
            raise InputError(
                "a data frame was given, but the columns that the net takes have no names; make the classifier with "
                "inputs=Rows.of(frame) or Rows(names=...), or give the numbers of the frame"
            )
        return self.table or Columns(tuple(Column(name=name) for name in self.names))

    def _check_finite(self, inputs: Tensor, problem: str) -> None:
        if self.table is None:
            super()._check_finite(inputs, problem)
        else:
            self.table.check(inputs)

    # ---- records, pictures --------------------------------------------------------------------------------------

    def record(self) -> dict[str, object]:
        return super().record() | ({} if self.table is None else {"table": self.table.record()})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        table = record.get("table")
        return super().from_record({**record, "table": None if table is None else Columns.from_record(table)})

    def value_text(self, x: Tensor, position: int) -> str:
        """The value of a column, or of each column of a group. For a one-hot group, the name of the column that is 1."""
        if self.table is None:
            return super().value_text(x, position)
        return self.table.position_text(x, position)

    def picture_size(self) -> tuple[int, int]:
        if self._is_listed:
            return _BAND * self.count, _WIDE
        return 96, self.columns * max(2, 192 // self.columns)

    @property
    def _is_listed(self) -> bool:
        """Whether the picture lists names and values. Rows without names, or with many columns, are drawn as bars only."""
        return bool(self.names) and self.count <= _MOST_LISTED

    def pixel_positions(self) -> Tensor:
        if not self._is_listed:
            return super().pixel_positions()
        height, width = self.picture_size()
        return (torch.arange(height) // _BAND)[:, None].expand(height, width)

    def picture(self, x: Tensor) -> np.ndarray:
        """A picture with a line for each position: its name, its value, and a bar that shows the distance of the value from the mean in
        standard deviations, to the right or left.

        Without names, or with many columns, the picture has only the bars, up or down from the mean. A missing value has no bar. A
        category or boolean has a bar if it is not the most frequent value of its column.
        """
        height, width = self.picture_size()
        scaled = ((x.cpu() - torch.tensor(self.mean)) / torch.tensor(self.std)).nan_to_num().numpy()
        for k, column in enumerate(self.table.columns if self.table is not None else ()):
            if column.kind != "number":
                scaled[k] = 2.0 * (scaled[k] != 0)
        reach = max(2.0, float(np.abs(scaled).max()))
        if self._is_listed:
            return self._list(x, scaled / reach)
        page = np.full((height, width, 3), _PAPER, dtype=np.uint8)
        wide, middle = width // self.columns, height // 2
        for k, value in enumerate(scaled):
            end = middle - round(0.46 * height * float(value) / reach)
            low, high = sorted((middle, end))
            page[low : high + 1, k * wide + (wide > 3) : (k + 1) * wide] = _INK
        page[middle] = _GRID
        return page

    def _list(self, x: Tensor, scaled: np.ndarray) -> np.ndarray:
        """A picture with a line of ``_BAND`` pixels for each position: name, value and bar. ``scaled`` has the length of each column's
        bar, from -1 to 1."""
        height, width = self.picture_size()
        page = Image.new("RGB", (width, height), (_PAPER,) * 3)
        draw, font = ImageDraw.Draw(page), ImageFont.load_default(11)
        middle, half = round(0.88 * width), round(0.11 * width)
        draw.line((middle, 0, middle, height), (_GRID,) * 3)
        values = [shortened(self.value_text(x, p), 14) for p in range(len(self._members))]
        room = round(0.76 * width) - max(draw.textlength(value, font) for value in values) - 10
        names = short_names(self.position_names, room, measure=lambda t: draw.textlength(t, font))
        for p, (_, members) in enumerate(self._members):
            y, value = _BAND * p, values[p]
            largest = max((float(scaled[k]) for k in members), key=abs)
            draw.text((3, y + 1), names[p], (_INK,) * 3, font)
            draw.text((round(0.76 * width), y + 1), value, (90,) * 3, font, anchor="ra")
            low, high = sorted((middle, middle + round(half * largest)))
            if largest:
                draw.rectangle((low, y + 3, high, y + _BAND - 4), (90,) * 3)
        return np.asarray(page)


def _within(table: Columns, shares: Tensor) -> Tensor:
    """Rows with the values of each column at a share ``(n, columns)`` of its range, from 0 (lowest) to 1 (highest)."""
    values = torch.empty(shares.shape, dtype=torch.float64)
    for k, column in enumerate(table.columns):
        if column.kind == "number":
            values[:, k] = column.low + shares[:, k] * (column.high - column.low)
            values[:, k] = values[:, k].round() if column.whole else values[:, k]
        else:
            top = 1 if column.kind == "boolean" else len(column.categories) - 1
            values[:, k] = (shares[:, k] * (top + 1)).floor().clamp_max(top)
    return values.float()
