"""Read true labels in the forms in which users pass them: by name or index, one or several for an input, in columns, or from
datasets with classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs.frames import library_of
from proofmap.core.labels import NO_LABEL, label_index
from proofmap.core.text import counted
from proofmap.data.dataset import match_labels

Truth = Sequence[int | str | Sequence[int | str | None] | None] | Tensor
"""The true label of each image, or a list of its true labels, by name or index; None, -1 or -100 for unknown. Or a tensor, an array or a
data frame with a column of 0 and 1 for each output."""
_UNKNOWN = (None, NO_LABEL, -100)  # the last is what torch's losses ignore


def label_rows(
    truth: Truth, outputs: Sequence[str], n: int, item: str = "image", of: Any = None
) -> list[tuple[int, ...]]:
    """The true labels of each of ``n`` inputs as output indices, each index once. A tuple is empty if the labels are unknown. Messages call
    an input ``item``. If the inputs are ``of`` a data frame, the labels must be in its order.

    >>> label_rows(["dog", None, [0, "dog"], -1, -100], ["cat", "dog"], 5)
    [(1,), (), (0, 1), (), ()]
    >>> label_rows(np.array([[0, 1, 1], [1, 0, 0]]), ["cat", "dog", "cow"], 2)  # a column for each output
    [(1, 2), (0,)]
    """
    _check_order(truth, of)
    given: Any = truth
    columns: Sequence[Any] = ()
    if library_of(truth) is not None:
        columns, given = list(given.columns), given.to_numpy()
        given = given[:, 0] if len(columns) == 1 else given
    is_array = isinstance(given, (Tensor, np.ndarray))
    given = given.tolist() if isinstance(given, (Tensor, np.ndarray)) else list(given)
    if len(given) != n:
        raise InputError(f"{len(given)} true labels were given for {counted(n, item)}")
    rows = [_as_list(entry) for entry in given]
    if _are_columns(rows, len(outputs), is_array, named=len(columns) > 1):
        places = _outputs_of(columns, outputs)
        return [tuple(sorted(a for a, mark in zip(places, row, strict=True) if mark)) for row in rows]
    return [tuple(dict.fromkeys(label_index(a, outputs) for a in row if a not in _UNKNOWN)) for row in rows]


def _are_columns(rows: Sequence[Sequence[Any]], outputs: int, is_array: bool, named: bool) -> bool:
    """Whether true labels are a table with a column of 0 and 1 for each output, and not rows of label indices.

    A list such as ``[0, 1]`` for two outputs may be both labels, so it is; an array or a data frame is a table.
    """
    width = len(rows[0]) if rows else 0
    if width < 2 or any(len(row) != width for row in rows):
        return False
    if any(isinstance(a, str) or a not in (0, 1, NO_LABEL) for row in rows for a in row):
        return False
    is_marked = all(a != NO_LABEL for row in rows for a in row)
    if is_marked and (width == outputs or named) and (width > 2 or is_array):
        return True
    if any(row.count(0) > 1 or row.count(1) > 1 for row in rows):  # no label is listed twice
        raise InputError(
            f"truth has {width} columns of 0{' and 1' if is_marked else ', 1 and -1'}, and the net has {outputs} outputs; give an array with a "
            f"column of 0 and 1 for each output{'' if is_marked else ' (truth == 1)'}, or lists with the names or indices of the true labels"
        )
    return False


def _outputs_of(columns: Sequence[Any], outputs: Sequence[str]) -> Sequence[int]:
    """The output that each column is for: by the names of a data frame's ``columns``, by position without names."""
    places = match_labels(list(map(str, columns)), outputs) if columns else range(len(outputs))
    for column, place in zip(columns, places, strict=False):
        if place is None:
            raise InputError(
                f"truth has the column {column!r} of 0 and 1, but the net has no output of this name; its outputs are "
                f"{', '.join(map(repr, outputs[:5]))}{', ...' if len(outputs) > 5 else ''}. Name the columns like the outputs, or give truth.to_numpy() "
                "with a column for each output in their order"
            )
    return [place for place in places if place is not None]


def _as_list(entry: object) -> Sequence[Any]:
    listed = hasattr(entry, "tolist") and entry.tolist()
    entry = listed if isinstance(listed, list) else entry
    return entry if isinstance(entry, (list, tuple)) else [entry]


def _check_order(truth: Any, given: Any) -> None:
    """Refuse true labels in a pandas Series if its index has the rows of the data frame ``given`` in another order."""
    own, rows = getattr(truth, "index", None), getattr(given, "index", None)
    if own is None or rows is None or not hasattr(own, "equals") or not hasattr(rows, "equals"):
        return
    if len(own) == len(rows) and not own.equals(rows) and own.isin(rows).all() and rows.isin(own).all():
        aligned = "write truth.loc[frame.index]" if rows.is_unique else "sort both alike"
        raise InputError(
            f"truth has the rows of the frame in another order, by its index; {aligned}, or write truth.to_numpy() if the order is meant"
        )
