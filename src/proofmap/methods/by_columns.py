"""Maps of a table whose columns and classes have names: arrays with their names, SHAP's explanations, data frames, the local scores of an EBM.

What the model's preprocessing made of a column, such as its one-hot columns, is summed into that column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Columns, Rows
from proofmap.core.inputs.frames import as_frame, library_of
from proofmap.core.text import did_you_mean, shortened

_TERMS = " & "
"""What stands between the columns of one term of an EBM."""


def shares_of(names: Sequence[str], columns: Columns, who: str) -> NDArray[np.float64]:
    """How much of each named value belongs to each column of a model, ``(names, columns)``.

    A name is that of a column, also behind the name of a step (``cat__city``), or of a value of it (``city_Ulm``, ``city=Ulm``). A term of several
    columns (``age & city``) belongs to them in equal parts.

    >>> columns = Columns.of([[20.0, 1.0], [40.0, 0.0]], names=["age", "city"])
    >>> shares_of(["one-hot__city_Ulm", "age", "age & city"], columns, "maps").tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
    """
    found = np.zeros((len(names), len(columns)))
    for row, name in zip(found, names, strict=True):
        parts = [name] if name in columns.names else name.split(_TERMS)
        for part in parts:
            row[_column_of(part, columns, who)] += 1 / len(parts)
    lacking = [name for name, own in zip(columns.names, found.T, strict=True) if not own.any()]
    if lacking:
        raise InputError(
            f"{who} have no values of the column {lacking[0]!r}; their columns are {shortened(', '.join(names), 200)}"
        )
    return found


def _column_of(name: str, columns: Columns, who: str) -> int:
    """The index of the column that a name is of."""
    for given in (name, name.partition("__")[2]):
        if given in columns.names:
            return columns.names.index(given)
        made = [
            (bool(given[len(column.name) + 1 :] in map(str, column.categories)), len(column.name), k)
            for k, column in enumerate(columns.columns)
            if given.startswith((f"{column.name}_", f"{column.name}="))
        ]
        if made:
            return max(made)[2]
    raise InputError(
        f"{who} have the column {name!r}, which comes from no column of the model.{did_you_mean(name, columns.names)} The model has "
        f"{shortened(', '.join(columns.names), 200)}"
    )


def by_columns(maps: Any, net: Classifier, count: int, who: str) -> tuple[Any, list[str], bool]:
    """Maps of ``count`` inputs as an array or a list. Of rows whose columns or classes have names, ``(N, L, columns)`` or ``(N, columns)`` in the
    order of the model's columns and labels, and words that say what was done. Last, whether the labels of others come last, as in SHAP's.
    """
    of_shap = hasattr(maps, "base_values")
    names, classes = getattr(maps, "feature_names", None), getattr(maps, "output_names", None)
    columns = net.inputs.table if isinstance(net.inputs, Rows) else None
    if callable(getattr(maps, "data", None)):  # an explanation of an EBM
        maps = [maps.data(k) for k in range(count)]
    if isinstance(maps, (list, tuple)) and len(maps) and isinstance(maps[0], Mapping):
        maps, names, classes = _of_terms(maps, who)
    elif library_of(frame := as_frame(maps)) is not None:
        names, maps = list(frame.columns), frame.to_numpy()
    if not isinstance(maps, (Tensor, np.ndarray, list, tuple)):
        maps = getattr(maps, "values", maps)
    if columns is None or isinstance(maps, (list, tuple)) or (names is None and classes is None):
        return maps, [], of_shap
    words, values = (
        [],
        np.asarray(maps.detach().cpu() if isinstance(maps, Tensor) else maps, dtype=np.float64),
    )
    axis = 1
    if names is not None and not isinstance(names, str):
        names = [str(name) for name in names]
        axis = _axis_of(values, len(names), 1, who, "columns")
        if tuple(names) != columns.names:
            values = np.moveaxis(np.tensordot(values, shares_of(names, columns, who), (axis, 0)), -1, axis)
            words = [
                "columns in the model's order"
                if len(names) == len(columns)
                else f"{len(names)} columns summed into {len(columns)}"
            ]
    if classes is not None and not isinstance(classes, str):
        given = [str(name) for name in classes]
        if sorted(given) != sorted(net.names):
            if given != [str(k) for k in range(len(net.names))]:
                raise InputError(
                    f"{who} have the classes {shortened(', '.join(given), 100)}, but the labels of the model are {shortened(', '.join(net.names), 100)}"
                )
            given = list(net.names)
        if values.ndim == 2 and len(given) == 2:  # of the second class
            values = np.stack([-values, values], axis=2)
        if values.ndim == 2:  # of one label
            return values, words, False
        at = _axis_of(values, len(given), -1 if axis == 1 else 1, who, "classes")
        axis = 3 - at  # of the columns
        if tuple(given) != net.names:
            values = np.take(values, [given.index(name) for name in net.names], axis=at)
            words.append("classes in the model's order")
    return np.moveaxis(values, axis, -1), words, False


def _axis_of(values: NDArray[np.float64], size: int, usual: int, who: str, what: str) -> int:
    """The axis of named columns or classes: the usual one, or the other end."""
    for axis in (usual, -usual if usual < 0 else -1):
        if values.ndim > 1 and values.shape[axis] == size:
            return axis % values.ndim
    raise InputError(f"{who} have the shape {values.shape}, but {size} {what} are named")


def _of_terms(rows: Sequence[Any], who: str) -> tuple[NDArray[np.float64], list[str], Any]:
    """The scores of the terms of an EBM, ``(N, terms)`` or ``(N, terms, classes)``, with the names of terms and classes."""
    try:
        names = [str(name) for name in rows[0]["names"]]
        if any([*map(str, row["names"])] != names for row in rows):
            raise InputError(f"{who} have rows with different terms; give the scores of one model")
        scores = np.array([row["scores"] for row in rows], dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{who} are dictionaries, but not the local scores of an EBM, which have names and scores for each row: {error}"
        ) from None
    known = (rows[0].get("meta") or {}).get("label_names")
    return scores, names, known if known is not None else (["0", "1"] if scores.ndim == 2 else None)
