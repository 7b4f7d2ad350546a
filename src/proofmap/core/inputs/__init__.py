"""What a net takes, and what a position of it is: pictures, series, rows of a table.

A *position* is a place of the input that is shown or hidden as a whole, and that a map has one value for: a pixel of a
picture (all channels together), a time step of a series, a column of a table's row. Code that ranks positions, composes
a shown and a hidden input, reads data or draws a result uses the classifier's :class:`Inputs`; no other code knows how
many axes there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Box, Inputs
from proofmap.core.inputs.numbers import Rows, Series
from proofmap.core.inputs.pictures import Pictures

__all__ = ["KINDS", "Box", "Inputs", "Pictures", "Rows", "Series", "inputs_of"]

KINDS: Mapping[str, type[Inputs]] = {kind.kind: kind for kind in (Pictures, Series, Rows)}
"""The kinds of inputs, by their names in records."""


def inputs_of(record: Mapping[str, Any]) -> Inputs:
    """The inputs that a classifier's settings describe: enough to show what it saw, without running the user's code.

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
    names = [field.name for field in fields(kind) if field.name in record]
    given = {name: tuple(v) if isinstance(v := record[name], list) else v for name in names}
    return kind(**given)
