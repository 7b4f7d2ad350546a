"""Datasets whose items are held in memory, in the form that the net takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.files import digest_of
from proofmap.core.inputs import KINDS
from proofmap.data.arrays import checked_labels
from proofmap.data.dataset import Dataset


class TensorData(Dataset):
    """Series ``(N, C, T)``, rows of a table ``(N, columns)`` or pictures ``(N, C, H, W)``, held in memory.

    Values are given before normalisation, which the classifier applies. They are not changed otherwise, so pictures must be in [0, 1] and
    have the net's size. Use :class:`~proofmap.data.ArrayImages` for pictures that must be resized. An item with NaN or infinity cannot be
    read; other items can.

    Args:
        values: the numbers, a tensor or an array.
        labels: integers ``(N,)``; negative for unknown.
        kind: ``pictures``, ``series``, ``rows`` or another registered kind of input.
        names: one per item, all distinct; by default ``image-00000``, ``series-00000`` or ``row-00000`` and so on.
        label_names: the names of the labels.
        missing: whether NaN means a missing value, so that items with NaN can be read. Set it for rows if the net accepts NaN.

    >>> beats = TensorData([[[0.1, 0.9, 0.2]], [[0.3, 0.2, 0.1]]], [1, 0], kind="series", title="beats")
    >>> beats
    TensorData(beats, 2 series, 0 labels)
    >>> beats.names[1], beats.truth(1), beats.read(1).shape
    ('series-00001', 0, (1, 3))
    """

    def __init__(
        self,
        values: Tensor | NDArray[Any] | Sequence[Any],
        labels: NDArray[Any] | Tensor | Sequence[int] | None = None,
        *,
        kind: str,
        names: Sequence[str] | None = None,
        label_names: Sequence[str] = (),
        title: str = "tensors",
        missing: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        form, singular = KINDS[kind].form, KINDS[kind].singular
        self._values = _numbers(values, kind)
        if self._values.ndim != 1 + form.count(",") or min(self._values.shape[1:]) < 1:
            raise InputError(f"{kind} must be {form}, got {self._values.shape}")
        n = len(self._values)
        self.kind, self.title, self.label_names = kind, title, tuple(map(str, label_names))
        self._missing = missing
        self.names = [f"{singular}-{i:05d}" for i in range(n)] if names is None else list(map(str, names))
        if len(self.names) != n or len(set(self.names)) != n:
            raise InputError(f"names must be {n} distinct names, one per item, got {len(set(self.names))}")
        self.labels = None if labels is None else checked_labels(_array(labels), n, label_names)

    def read(self, i: int) -> NDArray[np.float32]:
        item: NDArray[np.float32] = self._values[i].copy()
        if np.isinf(item).any() or (np.isnan(item).any() and not self._missing):
            raise InputError(
                f"{self.names[i]} of {self.title} has NaN or infinity; remove this item, or replace the values"
            )
        return item

    def digest(self, i: int) -> str:
        item = self._values[i]
        return digest_of(f"{self.kind} {item.shape}", item.tobytes())


def _array(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _numbers(values: Any, kind: str) -> NDArray[np.float32]:
    """The values as float32; too large values become infinity."""
    try:
        array = _array(values.float() if isinstance(values, Tensor) else values)
    except ValueError as error:  # lists of unequal lengths
        raise InputError(f"the values of {kind} must be one array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"the values of {kind} must be numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)
