"""CSV and Parquet files as data frames."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError, require

PARQUET = (".parquet", ".pq")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


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
                frame, first = pandas.read_parquet(source), []
            else:
                frame = pandas.read_csv(source, sep=separator, index_col=False)
                first = _first_line(pandas, source, separator)
    except Exception as error:  # pandas and pyarrow have many kinds of errors
        raise InputError(f"{title} cannot be read as a table: {error}") from None
    check_header([name for name in first if name], title)
    for column in frame.columns:
        values = [value for value in frame[column].tolist() if not is_missing(value)]
        if values and all(isinstance(value, str) and _DATE.fullmatch(value) for value in values):
            raise InputError(
                f"the column {column!r} of {title} holds dates such as {values[0]!r}. A date has no mean and is not a category, so no "
                "fill can hide it. Replace it by numbers, such as the year or the days since a day, or leave it out"
            )
    return frame


def _first_line(pandas: Any, source: Path | BytesIO, separator: str) -> list[str]:
    """The fields of a file's first line as they are written. In its column names pandas changes a repeated name: the second 1 becomes 1.1."""
    if isinstance(source, BytesIO):
        source.seek(0)
    options = {"sep": separator, "header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
    return list(map(str, pandas.read_csv(source, **options).iloc[0]))


def check_header(names: Sequence[str], title: str) -> None:
    """Refuse a file whose first line has numbers instead of names, because this line of data would be lost. Increasing numbers are
    accepted: they may name time steps or columns.

    >>> check_header(["0", "1", "2"], "a.csv")
    >>> check_header(["0.3", "-1.2"], "a.csv")
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


def is_missing(value: object) -> bool:
    """Whether a value of a frame is None, NaN or pandas' NA."""
    return value is None or value != value or type(value).__name__ == "NAType"
