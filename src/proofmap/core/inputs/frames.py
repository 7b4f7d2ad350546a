"""Data frames of pandas and polars: a column read as numbers, a frame built from numbers, and CSV and Parquet files as frames.

A library is imported only when one of its frames is used. All code that differs between the two libraries is in this file.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proofmap.core.errors import InputError, require

Kind = Literal["number", "category", "boolean"]
PARQUET = (".parquet", ".pq")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_DATES = (datetime.date, datetime.time, datetime.timedelta)


@dataclass(frozen=True, kw_only=True)
class Column:
    """The type, range and typical value of a column of a table.

    Attributes:
        kind: ``number``, ``category`` or ``boolean``.
        dtype: the name of its type in the frame; empty for a column of an array.
        categories: the values of a category, by their codes 0, 1, ...
        whole: whether the numbers are whole numbers.
        decimals: how many decimals the numbers have, if they have few.
        ordered: whether the frame's type orders the categories.
        missing: whether a value may be missing.
        none: whether missing values are Python's None in the frame. Some models do not treat None as NaN.
        low, high: the least and the greatest number in the data.
        center: the typical value: the mean of numbers (rounded if they are whole), the code of the most frequent category, or the more
            frequent of 0 and 1 for booleans.
        spread: the standard deviation of numbers; 1 for other kinds and constant columns.
    """

    name: str
    kind: Kind = "number"
    dtype: str = ""
    categories: tuple[Any, ...] = ()
    whole: bool = False
    decimals: int | None = None
    ordered: bool = False
    missing: bool = False
    none: bool = False
    low: float = 0.0
    high: float = 0.0
    center: float = 0.0
    spread: float = 1.0

    @staticmethod
    def names_in(frame: Any) -> list[str]:
        """The names of a frame's columns; names that are not text or that appear twice are refused."""
        names = list(frame.columns)
        for name in names:
            if not isinstance(name, str):
                raise InputError(
                    f"a column of the table is named {name!r}, which is not text; use frame.columns = "
                    "frame.columns.astype(str)"
                )
            if names.count(name) > 1:
                raise InputError(
                    f"the table has {names.count(name)} columns named {name!r}; names must differ"
                )
        return names

    @staticmethod
    def check_header(names: Sequence[str], title: str) -> None:
        """Refuse a file whose first line has numbers instead of names, because this line of data would be lost. Increasing numbers are
        accepted: they may name time steps or columns.

        >>> Column.check_header(["0", "1", "2"], "a.csv")
        >>> Column.check_header(["0.3", "-1.2"], "a.csv")
        Traceback (most recent call last):
            ...
        proofmap.core.errors.InputError: the first line of a.csv has numbers (0.3, -1.2), but it must name the columns; add a line of names above it
        """
        try:
            numbers = [float(name) for name in names]
        except ValueError:
            return
        if not all(a < b for a, b in pairwise(numbers)):
            shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            raise InputError(
                f"the first line of {title} has numbers ({shown}), but it must name the columns; add a line of names above it"
            )

    @staticmethod
    def row_names(frame: Any) -> list[str]:
        """A name for each row: its label in the pandas index if the label is text, otherwise ``row-`` and the label or the row number."""
        labels = frame.index.tolist() if library_of(frame) == "pandas" else range(len(frame))
        return [label if isinstance(label, str) else f"row-{label}" for label in labels]

    @staticmethod
    def read(frame: Any, name: str) -> tuple[Column, NDArray[Any]]:
        """One column of a frame: its kind according to its type, and its values. Numbers and booleans are float64, and NaN if missing.
        Categories are Python objects, and None if missing. Dates and other objects are refused."""
        return _from_pandas(frame[name]) if library_of(frame) == "pandas" else _from_polars(frame[name])

    @staticmethod
    def frame_of(library: str, columns: Sequence[Column], values: Sequence[NDArray[np.float64]]) -> Any:
        """A frame from the values of each column: numbers, codes of categories, 0 or 1 for booleans, and NaN for missing values."""
        module = require(library, extra=library, purpose="a row of a table as the model takes it")
        build = _to_pandas if library == "pandas" else _to_polars
        return module.DataFrame(
            {c.name: build(module, c, own) for c, own in zip(columns, values, strict=True)}
        )


def as_frame(given: Any) -> Any:
    """A frame of another library that can become one of pandas (a table of Arrow, a frame of narwhals, a dataset of Hugging Face), as such a frame;
    anything else as it is."""
    other = library_of(given) is None and callable(getattr(given, "to_pandas", None))
    return given.to_pandas() if other else given


def library_of(given: object) -> str | None:
    """The library that a frame belongs to; None if ``given`` is not a frame.

    >>> library_of([[1, 2]]) is None
    True
    """
    kind = type(given)
    library = kind.__module__.partition(".")[0]
    return library if kind.__name__ == "DataFrame" and library in ("pandas", "polars") else None


# ---- pandas -----------------------------------------------------------------------------------------------------


def _from_pandas(series: Any) -> tuple[Column, NDArray[Any]]:
    name, dtype, text = series.name, series.dtype, str(series.dtype)
    kind = getattr(dtype, "kind", "O")
    if kind in "mM" or text.startswith("period"):
        raise _is_date(name, text)
    if text == "category":
        categories, codes = tuple(dtype.categories.tolist()), series.cat.codes.to_numpy()
        values = np.array([*categories, None], dtype=object)[codes]  # the code -1 is a missing value
        known = Column(
            name=name, kind="category", dtype=text, categories=categories, ordered=bool(dtype.ordered)
        )
        return (known, values)
    if kind in "iufb":
        known = Column(name=name, kind="boolean" if kind == "b" else "number", dtype=text, whole=kind in "iu")
        return (known, series.to_numpy(dtype=np.float64, na_value=np.nan))
    missing = series.isna().to_numpy()
    values = series.to_numpy(dtype=object, copy=True)
    none = text == "object" and any(value is None for value in values[missing])
    values[missing] = None
    return _from_objects(name, text, values, none)


def _from_objects(name: str, dtype: str, values: NDArray[Any], none: bool) -> tuple[Column, NDArray[Any]]:
    present = [value for value in values if value is not None]
    odd = next((value for value in present if not isinstance(value, (str, bool, np.bool_))), None)
    if isinstance(odd, _DATES):
        raise _is_date(name, type(odd).__name__)
    kinds = {isinstance(value, str) for value in present}
    if odd is not None or len(kinds) > 1:
        sample = odd if odd is not None else next(v for v in present if not isinstance(v, str))
        raise InputError(
            f"the column {name!r} holds {type(sample).__name__} objects such as {sample!r}, as {dtype}; a column must hold "
            f"numbers, text, categories or booleans. Convert it, such as by frame[{name!r}].astype(float), or leave it out"
        )
    if kinds == {False}:
        floats = np.array([np.nan if value is None else float(value) for value in values])
        return (Column(name=name, kind="boolean", dtype=dtype, none=none), floats)
    known = Column(name=name, kind="category", dtype=dtype, categories=tuple(sorted(set(present))), none=none)
    return (known, values)


def _to_pandas(pandas: Any, column: Column, values: NDArray[np.float64]) -> Any:
    missing = np.isnan(values)
    if column.dtype == "category":
        kind = pandas.CategoricalDtype(list(column.categories), ordered=column.ordered)
        return pandas.Categorical.from_codes(np.where(missing, -1, values).astype(np.int64), dtype=kind)
    if column.kind == "category" or column.dtype == "object":
        known: Sequence[Any] = column.categories if column.kind == "category" else (False, True)
        codes = np.where(missing, len(known), values).astype(np.int64)
        objects = np.array([*known, None if column.none else np.nan], dtype=object)[codes]
        return pandas.Series(objects, dtype=column.dtype)
    if column.dtype[:1].islower() and not missing.any():  # a type of NumPy, or boolean
        return pandas.Series(values.astype(bool) if column.kind == "boolean" else values).astype(column.dtype)
    return pandas.Series(values, dtype="Float64" if missing.any() else None).astype(column.dtype)


# ---- polars -----------------------------------------------------------------------------------------------------


def _from_polars(series: Any) -> tuple[Column, NDArray[Any]]:
    name, dtype = series.name, series.dtype
    text = str(dtype)
    if dtype.is_temporal():
        raise _is_date(name, text)
    if dtype.is_numeric() or text == "Boolean":
        known = Column(
            name=name,
            kind="boolean" if text == "Boolean" else "number",
            dtype=text,
            whole=dtype.is_integer(),
        )
        return (known, np.array([np.nan if v is None else float(v) for v in series.to_list()]))
    family = text.partition("(")[0]
    if family not in ("String", "Categorical", "Enum"):
        raise InputError(
            f"the column {name!r} has the type {text}; a column must hold numbers, text, categories or booleans. Convert it, "
            "or leave it out"
        )
    values = np.array([*series.to_list(), None], dtype=object)[:-1]
    listed = dtype.categories.to_list() if family == "Enum" else sorted({v for v in values if v is not None})
    return (Column(name=name, kind="category", dtype=family, categories=tuple(listed)), values)


def _to_polars(polars: Any, column: Column, values: NDArray[np.float64]) -> Any:
    series = polars.Series(column.name, values, nan_to_null=True)
    if column.kind == "boolean":
        return series.cast(polars.Boolean)
    if column.kind == "number":
        return series.cast(getattr(polars, column.dtype.partition("(")[0]))
    known = [*column.categories, None]
    codes = np.where(np.isnan(values), len(column.categories), values).astype(np.int64)
    kind = polars.Enum(list(column.categories)) if column.dtype == "Enum" else getattr(polars, column.dtype)
    return polars.Series(column.name, [known[code] for code in codes], dtype=kind)


def _is_date(name: str, dtype: str) -> InputError:
    return InputError(
        f"the column {name!r} holds dates ({dtype}). A date has no mean and is no category, so no fill can hide it. Replace it "
        f"by numbers, such as the year or the days since a day, or leave it out"
    )


# ---- files ------------------------------------------------------------------------------------------------------


def read_frame(source: Path | BytesIO, title: str, suffix: str) -> Any:
    """Read a CSV or Parquet file, or its content, as a pandas data frame. Error messages call the file ``title``. A column of dates
    is refused."""
    is_parquet = suffix.lower() in PARQUET
    bare = Path(title).name
    pandas = require("pandas", extra="pandas", purpose=f"the table {bare}")
    if is_parquet:
        require("pyarrow", extra="parquet", purpose=f"the Parquet file {bare}")
    try:
        separator = "\t" if suffix.lower() == ".tsv" else ","
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas only warns when a line has too many fields
            if is_parquet:
                frame = pandas.read_parquet(source)
            else:
                frame = pandas.read_csv(source, sep=separator, index_col=False)
    except Exception as error:  # pandas and pyarrow have many kinds of errors
        raise InputError(f"{title} cannot be read as a table: {error}") from None
    if not is_parquet:
        Column.check_header(
            [str(name) for name in frame.columns if not str(name).startswith("Unnamed:")], title
        )
    for column in frame.columns:
        values = frame[column].dropna().tolist()
        if values and all(isinstance(value, str) and _DATE.fullmatch(value) for value in values):
            raise InputError(
                f"the column {column!r} of {title} holds dates such as {values[0]!r}. A date has no mean and is not a category, so no "
                "fill can hide it. Replace it by numbers, such as the year or the days since a day, or leave it out"
            )
    return frame
