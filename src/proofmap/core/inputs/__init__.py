"""Kinds of input: pictures, volumes, series, rows of a table, texts, and kinds that other packages register.

A *position* is a part of the input that is shown or hidden as a whole, and that has one value in a map: a pixel of a picture (all
channels together), a voxel of a volume, a time step of a series, a column of a row, a word of a text. Code that ranks, composes, reads or draws inputs uses the
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
from proofmap.core.inputs.text import Text, TextInputs
from proofmap.core.inputs.tokens import Tokens
from proofmap.core.inputs.volumes import Volumes
from proofmap.core.registry import Registry

__all__ = [
    "KINDS",
    "Box",
    "Column",
    "Columns",
    "Inputs",
    "Pictures",
    "Rows",
    "Series",
    "Text",
    "TextInputs",
    "Tokens",
    "Volumes",
]

KINDS: Registry[Inputs] = Registry("kind of input", "proofmap.inputs", attribute="kind")
"""The kinds of inputs, by their names in records."""
for _kind in (Pictures, Series, Rows, Text, Tokens, Volumes):
    KINDS.register(_kind)


def inputs_of(record: Mapping[str, Any]) -> Inputs:
    """The inputs that a classifier's settings ``record`` describe. The user's code is not run.

    >>> inputs_of(
    ...     {"size": [2, 3], "mean": [0.5], "std": [1.0], "resize": None, "interpolation": "box"}
    ... ).positions
    (2, 3)
    """
    kind = str(record.get("inputs", Pictures.kind))
    if kind not in KINDS:
        raise InputError(
            f"inputs of the kind {kind!r} are not known here; import the file that defines them, or install its package"
        )
    return KINDS[kind].from_record(record)
