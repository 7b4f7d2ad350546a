"""The columns of a table: their names and kinds, and the conversion from a data frame to numbers and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.frames import Column, as_frame, library_of
from proofmap.core.text import did_you_mean

_WHOLE_LIMIT = 2.0**24
_MOST_DECIMALS = 12
_SHOWN = 6


@dataclass(frozen=True)
class Columns:
    """The columns of a table, in the order that the model takes them.

    A row becomes one float32 number per column: a number is itself, a category is its code, a boolean is 0 or 1, and a missing value is
    NaN. :meth:`decode` restores the frame: the same columns, order and types. Numbers of many digits are rounded to float32.

    Args:
        columns: each :class:`Column`.
        library: the library of the frames that :meth:`decode` makes, or None for arrays ``(N, columns)``.
        groups: names of columns that are shown and hidden together, as ``(name of the group, its columns)``.

    >>> columns = Columns.of([[20.0, 1.0], [40.0, 0.0]], names=["age", "member"])
    >>> columns.encode([[30.0, 1.0]])
    tensor([[30.,  1.]])
    """

    columns: tuple[Column, ...]
    library: str | None = None
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        names, grouped = self.names, [name for _, members in self.groups for name in members]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if not names or doubled is not None:
            raise InputError(f"the columns of a table need different names, but {doubled!r} is there twice")
        for group, members in self.groups:
            if not members or (group in names and group not in members):
                raise InputError(
                    f"the group {group!r} has no columns, or has the name of a column outside it"
                )
        for name in grouped:
            if name not in names or grouped.count(name) > 1:
                raise InputError(
                    f"the column {name!r} of a group is in two groups, or is not in the table.{did_you_mean(name, names)}"
                )

    @classmethod
    def of(
        cls,
        data: Any,
        *,
        names: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[str]] | Literal["one-hot"] | None = None,
    ) -> Columns:
        """The columns of a data frame of pandas or polars, or of an array of numbers ``(N, columns)``.

        Args:
            data: example rows. They must contain every category, and a missing value in each column in which the model takes missing
                values. Means, most frequent categories and ranges are computed from these rows.
            names: the columns of a frame that the model takes, in the model's order; all columns by default. For an array, the names of
                its columns.
            groups: columns that are shown and hidden together as one position, by the name of the position. ``"one-hot"`` finds groups
                such as ``city_Ulm``, ``city_Bonn`` in which every row has one 1.
        """
        if isinstance(data, Columns):
            return data
        data = as_frame(data)
        library = library_of(data)
        if library is None:
            values = _array(data)
            names = (
                [f"column {k}" for k in range(values.shape[1])] if names is None else list(map(str, names))
            )
            if len(names) != values.shape[1]:
                raise InputError(f"{len(names)} names were given for {values.shape[1]} columns")
            found = [(Column(name=name), values[:, k]) for k, name in enumerate(names)]
        else:
            have = Column.names_in(data)
            for name in names or ():
                if name not in have:
                    raise InputError(
                        f"the table has no column {name!r}.{did_you_mean(name, have)} It has {_listed(have)}"
                    )
            found = [Column.read(data, name) for name in (have if names is None else names)]
        if found and not len(found[0][1]):
            raise InputError(
                "the table has no rows, so the means, categories and ranges of its columns are unknown"
            )
        columns, values_of = [_described(*one) for one in found], [own for _, own in found]
        families = _one_hot(columns, values_of) if groups == "one-hot" else dict(groups or {})
        frozen = tuple((str(name), tuple(map(str, members))) for name, members in families.items())
        made = cls(tuple(columns), library, frozen)
        return dataclasses.replace(made, columns=_with_whole_modes(made, values_of))

    # ---- names ---------------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def positions(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The name and the column indices of each position (a column, or a group that is shown and hidden together). A group has the place
        of its first column."""
        group_of = {name: (group, members) for group, members in self.groups for name in members}
        found: dict[str, tuple[int, ...]] = {}
        for name in self.names:
            group, members = group_of.get(name, (name, (name,)))
            found.setdefault(group, tuple(self.names.index(member) for member in members))
        return tuple(found.items())

    # ---- values --------------------------------------------------------------------------------------------------

    def encode(self, data: Any) -> Tensor:
        """Rows of a frame, or of an array, as float32 ``(N, columns)``.

        A frame must have these columns, in any order, and no others. Categories must be known, and values may be missing only in columns
        that had missing values in the data that described them.
        """
        data = as_frame(data)
        if library_of(data) is None:
            values = _array(data)
            if values.shape[1] != len(self):
                raise InputError(
                    f"rows have {len(self)} columns ({_listed(self.names)}), got {values.shape[1]}"
                )
            return self.check(torch.from_numpy(values.astype(np.float32)))
        self._check_names(Column.names_in(data))
        coded = [_coded(column, *Column.read(data, column.name)) for column in self.columns]
        return torch.from_numpy(np.stack(coded, axis=1).astype(np.float32))

    def decode(self, rows: Tensor) -> Any:
        """Rows ``(N, columns)`` as the model takes them: a data frame of ``library``, or a float64 array if ``library`` is None.

        In a column of whole numbers, values are rounded. In a column with few decimals, float32 noise is removed: 0.7 is 0.7 again.
        """
        by_column = np.ascontiguousarray(self.check(rows).detach().cpu().float().numpy().T)
        values = [_as_written(column, own) for column, own in zip(self.columns, by_column, strict=True)]
        return (
            np.stack(values, axis=1)
            if self.library is None
            else Column.frame_of(self.library, self.columns, values)
        )

    def check(self, rows: Tensor) -> Tensor:
        """The rows; raises an InputError for infinity, for a missing value in a column without missing values, or for an unknown code."""
        for column, values in zip(self.columns, rows.detach().cpu().float().numpy().T, strict=True):
            _check_values(column, values)
        return rows

    def text(self, row: Tensor, k: int) -> str:
        """The value of column ``k`` of one row ``(columns,)``, as people write it.

        >>> Columns.of([[20.5, 1.0]], names=["age", "member"]).text(torch.tensor([20.5, 1.0]), 0)
        '20.5'
        """
        column, value = self.columns[k], float(row[k])
        if np.isnan(value):
            return "missing"
        if column.kind == "category":
            return str(column.categories[int(value)])
        if column.kind == "boolean":
            return "yes" if value else "no"
        return f"{value:.0f}" if column.whole or 1e4 <= abs(value) < 1e9 else f"{value:.4g}"

    def position_text(self, row: Tensor, position: int) -> str:
        """The value of a position of one row ``(columns,)``. For a one-hot group, the part of the column's name after the common prefix.

        >>> columns = Columns.of([[1.0, 0.0], [0.0, 1.0]], names=["city_Ulm", "city_Bonn"], groups="one-hot")
        >>> columns.position_text(torch.tensor([0.0, 1.0]), 0)
        'Bonn'
        """
        group, members = self.positions[position]
        if len(members) == 1:
            return self.text(row, members[0])
        values = row.cpu()[list(members)].tolist()
        if sorted(values) == [0.0] * (len(members) - 1) + [1.0]:
            name = self.names[members[values.index(1.0)]]
            return name[len(group) + 1 :] if name.startswith(group) else name
        return ", ".join(f"{self.names[k]} {self.text(row, k)}" for k in members)

    # ---- records -------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, object]:
        """Plain data for records of results. Settings with default values are left out."""
        defaults = Column(name="")
        columns = [
            {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in vars(column).items()
                if value != getattr(defaults, key)
            }
            for column in self.columns
        ]
        return {
            "columns": columns,
            "library": self.library,
            "groups": [[name, list(members)] for name, members in self.groups],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Columns:
        columns = (
            Column(**{**given, "categories": tuple(given.get("categories", ()))})
            for given in record["columns"]
        )
        groups = tuple((name, tuple(members)) for name, members in record["groups"])
        return cls(tuple(columns), record["library"], groups)

    def _check_names(self, have: list[str]) -> None:
        lacking = [name for name in self.names if name not in have]
        if lacking:
            raise InputError(
                f"the table lacks the column {lacking[0]!r}.{did_you_mean(lacking[0], have)} The model takes "
                f"{_listed(self.names)}"
            )
        extra = [name for name in have if name not in self.names]
        if extra:
            raise InputError(
                f"the table has the column {extra[0]!r}, which the model does not take; leave it out: "
                f"frame.drop(columns={extra[:_SHOWN]!r}); on the command line, --target {extra[0]} if it has the true labels, or "
                f"FILE?name={extra[0]} if it has the names of rows"
            )


def _array(data: Any) -> NDArray[np.float64]:
    array = data.detach().cpu().numpy() if isinstance(data, torch.Tensor) else np.asarray(data)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"a table must be a data frame of pandas or polars, or an array of numbers (N, columns), got "
            f"{type(data).__name__} of shape {array.shape} and type {array.dtype}"
        )
    return array.astype(np.float64)


# ---- one column -------------------------------------------------------------------------------------------------


def _described(column: Column, found: NDArray[Any]) -> Column:
    """The description of a column, completed from its values: whether some are missing, range, center and spread."""
    values = _coded(dataclasses.replace(column, missing=True), column, found)
    present = values[~np.isnan(values)]
    facts: dict[str, Any] = {"missing": len(present) < len(values)}
    if not len(present):
        raise InputError(f"the column {column.name!r} has no values: all are missing; leave it out")
    odd = next((v for v in column.categories if not isinstance(v, (str, int, float, bool))), None)
    if odd is not None:
        raise InputError(
            f"the column {column.name!r} has categories of the type {type(odd).__name__}, such as {odd}; convert them to text"
        )
    if column.kind != "number":
        counts = np.bincount(present.astype(np.int64))
        return dataclasses.replace(column, **facts, center=float(counts.argmax()))
    mean, spread = float(present.mean()), float(present.std())
    facts |= {"low": float(present.min()), "high": float(present.max()), "spread": spread or 1.0}
    center = float(round(mean)) if column.whole else mean
    return dataclasses.replace(column, **facts, decimals=_decimals_of(column, present), center=center)


def _coded(column: Column, found: Column, values: NDArray[Any]) -> NDArray[np.float64]:
    """The values of a frame's column, encoded as ``column`` describes. Raises an InputError if a value does not fit."""
    name = column.name
    if (column.kind == "category") != (found.kind == "category"):
        raise InputError(
            f"the column {name!r} must hold {_WORDS[column.kind]}, as in the data that the columns were read from, got {found.dtype}"
        )
    if column.kind == "category":
        codes = {value: float(code) for code, value in enumerate(column.categories)}
        unknown = next((value for value in values if value is not None and value not in codes), None)
        if unknown is not None:
            raise InputError(
                f"the column {name!r} has the category {unknown!r}, which does not occur in the data that the columns were read from. Known are "
                f"{_listed(list(map(str, column.categories)))}.{did_you_mean(str(unknown), list(map(str, column.categories)))}"
            )
        numbers = np.array([np.nan if value is None else codes[value] for value in values], dtype=np.float64)
    else:
        numbers = values
    _check_values(column, numbers)
    present = numbers[~np.isnan(numbers)]
    if column.whole:
        if (present != np.rint(present)).any():
            raise InputError(
                f"the column {name!r} must hold whole numbers, as in the data that the columns were read from, got "
                f"{present[present != np.rint(present)][0]:g}"
            )
        if (np.abs(present) > _WHOLE_LIMIT).any():
            raise InputError(
                f"the column {name!r} has the whole number {present[np.abs(present) > _WHOLE_LIMIT][0]:.0f}; above 2**24 float32 "
                "is not exact. Leave out the column if it is an identifier, otherwise use another unit, such as thousands"
            )
    return numbers


_WORDS = {"number": "numbers", "category": "text or categories", "boolean": "booleans"}


def _check_values(column: Column, values: NDArray[Any]) -> None:
    """Refuse infinity, a missing value in a column without missing values, and an unknown code."""
    present = values[~np.isnan(values)]
    if not column.missing and len(present) < len(values):
        raise InputError(
            f"the column {column.name!r} has no value in row {int(np.isnan(values).nonzero()[0][0])}, but no value was missing in the data "
            "that the columns were read from, so the model may not take missing values. Fill it in, or read the columns from data that have "
            "missing values there"
        )
    with np.errstate(over="ignore"):
        if np.isinf(present.astype(np.float32)).any():
            raise InputError(f"the column {column.name!r} has infinity, or a number too large for float32")
    top = 1 if column.kind == "boolean" else len(column.categories) - 1
    if column.kind != "number" and ((present < 0) | (present > top) | (present != present.round())).any():
        raise InputError(
            f"the column {column.name!r} is a {column.kind} with the codes 0 to {top}, got [{present.min():g}, {present.max():g}]"
        )


def _as_written(column: Column, values: NDArray[np.float32]) -> NDArray[np.float64]:
    """The values of a column in float64, with the decimals of the data: 0.7 is 0.7 again, and not 0.699999988.

    Otherwise a model with the rule ``x >= 0.7`` would give another output than for the original row. A value that needs more
    decimals is not rounded.

    >>> _as_written(Column(name="a", decimals=1), np.array([0.7, 0.25], dtype=np.float32))
    array([0.7 , 0.25])
    """
    exact = values.astype(np.float64)
    if column.whole:
        return np.rint(exact)
    if column.decimals is None:
        return exact
    scale = 10.0**column.decimals
    short = np.rint(exact * scale) / scale
    return np.where(short.astype(np.float32) == values, short, exact)


def _decimals_of(column: Column, values: NDArray[np.float64]) -> int | None:
    """The smallest number of decimals with which :func:`_as_written` restores the values of a column from float32. None if no number
    does, or if the values are whole numbers.

    >>> [_decimals_of(Column(name="a"), np.array(values)) for values in ([0.7, 12.35], [1 / 3])]
    [2, None]
    """
    if column.whole:
        return None
    for count in range(_MOST_DECIMALS + 1):
        rounded = dataclasses.replace(column, decimals=count)
        if all(  # most columns that fail do so in their first rows
            (_as_written(rounded, part.astype(np.float32)) == part).all() for part in (values[:9], values)
        ):
            return count
    return None


# ---- groups -----------------------------------------------------------------------------------------------------


def _one_hot(columns: Sequence[Column], found: Sequence[NDArray[Any]]) -> dict[str, list[str]]:
    """Groups of columns, by their common prefix (before ``_`` or ``=``), in which every row has a single 1, and 0 elsewhere."""
    families: dict[str, list[int]] = {}
    for k, column in enumerate(columns):
        place = max(column.name.rfind("_"), column.name.rfind("="))
        if place > 0:
            families.setdefault(column.name[:place], []).append(k)
    names = [column.name for column in columns]
    return {
        prefix: [names[k] for k in members]
        for prefix, members in families.items()
        if prefix not in names and _is_one_hot([found[k] for k in members])
    }


def _is_one_hot(found: Sequence[NDArray[Any]]) -> bool:
    if len(found) < 2 or any(values.dtype == object for values in found):  # objects are categories
        return False
    values = np.stack(found)
    return bool(np.isin(values, (0, 1)).all() and (values.sum(axis=0) == 1).all())


def _with_whole_modes(table: Columns, found: Sequence[NDArray[Any]]) -> tuple[Column, ...]:
    """The columns, with the centers of each one-hot group changed to 1 for its most frequent column and 0 for the others. If the most
    frequent value were computed column by column, it would often be 0 in all of them."""
    columns = list(table.columns)
    for _, members in table.positions:
        if _is_one_hot([found[k] for k in members]):
            largest = max(members, key=lambda k: (float(found[k].mean()), -k))
            for k in members:
                columns[k] = dataclasses.replace(columns[k], center=float(k == largest))
    return tuple(columns)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
