"""A row of a data frame before it is encoded. The net's columns decide how it is encoded."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from proofmap.core.inputs.columns import Columns


class FrameRows:
    """The rows of a data frame. All of them are encoded at once, and kept, for each description of columns."""

    def __init__(self, frame: Any, columns: Columns | None = None) -> None:
        """``columns`` describe the frame; by default it describes itself."""
        self.frame = frame
        self.columns = Columns.of(frame) if columns is None else columns
        self._lock = threading.Lock()
        self._encoded: dict[Columns, Tensor] = {}

    def encoded(self, columns: Columns) -> Tensor:
        with self._lock:
            if columns not in self._encoded:
                self._encoded[columns] = columns.encode(self.frame)
            return self._encoded[columns]

    def __getstate__(self) -> dict[str, Any]:
        return {"frame": self.frame, "columns": self.columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _encoded={})


class TableRow:
    """Row ``index`` of a frame. As an array it has the codes of the frame's own columns."""

    def __init__(self, rows: FrameRows, index: int) -> None:
        self.rows, self.index = rows, index

    def encoded(self, columns: Columns) -> Tensor:
        """The row ``(columns,)`` as these columns encode it. Rows that do not fit are refused: see :meth:`Columns.encode`."""
        return self.rows.encoded(columns)[self.index].clone()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.encoded(self.rows.columns).numpy(), dtype=dtype)
