"""Rows of a table: a data frame, or a CSV or Parquet file, with the column of true labels."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.files import digest_of, distinct_names, suggest_path
from proofmap.core.inputs import Columns, Rows
from proofmap.core.inputs.frames import Column, as_frame, library_of, read_frame
from proofmap.data.dataset import Dataset, numbered, reader
from proofmap.data.tables import check_columns


class TableData(Dataset):
    """Rows of a data frame of pandas or polars.

    Args:
        frame: the data frame. It has the columns that the model takes, in the model's order, and the columns ``target`` and ``name``.
        target: the column of true labels, which the model does not take. A missing value is an unknown label.
        name: the column of names of rows, which the model does not take; by default the index of pandas, or ``row-0`` and so on.
        columns: a description of the columns, if the frame has too few rows to describe its columns (ranges, categories) itself.

    >>> import pandas as pd  # doctest: +SKIP
    >>> TableData(pd.read_csv("customers.csv"), target="churned")  # doctest: +SKIP
    TableData(table, 7043 rows, 2 labels)
    """

    kind = Rows.kind

    def __init__(
        self,
        frame: Any,
        *,
        target: str | None = None,
        name: str | None = None,
        title: str = "table",
        settings: dict[str, object] | None = None,
        columns: Columns | None = None,
    ) -> None:
        frame = as_frame(frame)
        if library_of(frame) is None:
            raise InputError(f"a table must be a data frame of pandas or polars, not {type(frame).__name__}")
        have = Column.names_in(frame)
        check_columns(title, [target or "", name or ""], have)
        features = [column for column in have if column not in (target, name)]
        if not features:
            raise InputError(f"{title} has no columns for the model other than target and name")
        self.frame = frame[features]
        """The columns that the model takes."""
        self.columns = Columns.of(self.frame) if columns is None else columns
        self._lock, self._encoded = threading.Lock(), dict[Columns, Tensor]()
        self.title, self._settings = title, settings
        self.names = (
            Column.row_names(frame) if name is None else distinct_names(list(map(str, frame[name].to_list())))
        )
        if target is not None:
            values = [None if _is_missing(value) else value for value in frame[target].to_list()]
            self.label_names, self.labels = numbered(values, lambda value: (str(type(value)), value))

    def encoded(self, columns: Columns) -> Tensor:
        """All rows as numbers, as ``columns`` encode them; computed once for each description of columns."""
        with self._lock:
            if columns not in self._encoded:
                self._encoded[columns] = columns.encode(self.frame)
            return self._encoded[columns]

    def read(self, i: int) -> _Row:
        return _Row(self, i)

    def digest(self, i: int) -> str:
        row = self.read(i)
        columns = self.columns
        texts = (columns.text(row.encoded(columns), k) for k in range(len(columns)))
        return digest_of(repr(list(zip(columns.names, texts, np.asarray(row).tolist(), strict=True))))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_encoded": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class _Row:
    """Row ``index`` of a table. ``numpy.asarray`` turns the row into numbers, as the table's own columns encode it."""

    def __init__(self, table: TableData, index: int) -> None:
        self.table, self.index = table, index

    def encoded(self, columns: Columns) -> Tensor:
        """The row ``(columns,)`` as ``columns`` encode it. Rows that do not fit these columns are refused: see :meth:`Columns.encode`."""
        return self.table.encoded(columns)[self.index].clone()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.encoded(self.table.columns).numpy(), dtype=dtype)


@reader(
    "table",
    "table:FILE?target=COLUMN&name=COLUMN",
    "rows of a CSV or Parquet file; target has the true labels, name the names of rows",
)
def table_file(path: str | Path, *, target: str = "", name: str = "") -> TableData:
    """The rows of a CSV or Parquet file, as pandas reads it.

    A column that has a date in every row, such as ``2024-05-31``, is refused: as a category it would have a value for every day.
    """
    file = Path(os.path.abspath(path))
    if not file.is_file():
        raise InputError(f"there is no file {path}.{suggest_path(path)}")
    frame = read_frame(file, str(path), file.suffix)
    settings: dict[str, object] = {"dataset": "table", "path": str(file), "target": target, "name": name}
    return TableData(frame, target=target or None, name=name or None, title=file.name, settings=settings)


def _is_missing(value: object) -> bool:
    """Whether a value of a frame is None, NaN or pandas' NA."""
    return value is None or value != value or type(value).__name__ == "NAType"
