"""Kinds of input: pictures, series, rows of a table.

A *position* is a part of the input that is shown or hidden as a whole, and that has one value in a map: a pixel of a picture (all
channels together), a time step of a series, a column of a row. Code that ranks, composes, reads or draws inputs uses the
classifier's :class:`Inputs`; no other code knows the number of axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Box, Inputs
from proofmap.core.inputs.columns import Columns
from proofmap.core.inputs.frames import Column
from proofmap.core.inputs.pictures import Pictures
from proofmap.core.inputs.rows import Rows
from proofmap.core.inputs.series import Series

__all__ = ["KINDS", "Box", "Column", "Columns", "Inputs", "Pictures", "Rows", "Series", "inputs_of"]

KINDS: Mapping[str, type[Inputs]] = {kind.kind: kind for kind in (Pictures, Series, Rows)}
"""The kinds of inputs, by their names in records."""


def inputs_of(record: Mapping[str, Any]) -> Inputs:
    """The inputs that a classifier's settings describe, without running the user's code.

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
    return kind.from_record(record)
