"""Numbers of results: arrays of NumPy inside, tensors when they are read.

A finished run is read and audited with NumPy alone, because importing torch takes seconds. Users read tensors: the fields of
:class:`~proofmap.MethodResult` and :class:`~proofmap.Evaluation` are declared here. A tensor shares its memory with the array.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from proofmap.core.deferred import torch

if TYPE_CHECKING:
    from torch import Tensor

    from proofmap.metrics.curves import Curves

Array = NDArray[Any]
Given = TypeVar("Given")
Read = TypeVar("Read")


def as_array(values: Tensor | Array) -> Array:
    """The values as an array; those of a tensor on the CPU are not copied."""
    return values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()


def as_tensor(values: Tensor | Array) -> Tensor:
    """The values as a tensor; those of an array are not copied."""
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values


class TensorTable(Mapping[str, "Tensor"]):
    """Tensors by name. Each may be given as an array, and becomes a tensor when it is read.

    >>> table = TensorTable({"soundness": np.array([0.5, 1.0])})
    >>> table["soundness"], table.array("soundness")
    (tensor([0.5000, 1.0000], dtype=torch.float64), array([0.5, 1. ]))
    """

    def __init__(self, columns: Mapping[str, Tensor | Array]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Tensor:
        found = self._columns[name] = as_tensor(self._columns[name])
        return found

    def array(self, name: str) -> Array:
        """The values under this name as an array."""
        return as_array(self._columns[name])

    def __contains__(self, name: object) -> bool:  # that of a mapping reads the tensor
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return repr(dict(self))


@dataclass(frozen=True)
class CurveArrays:
    """The fields of :class:`~proofmap.metrics.curves.Curves` that are stored, as arrays."""

    game: str
    labels: Array
    f: Array
    counts: Array
    positions: int
    probabilities: Array
    auc: Array
    error: Array
    matrix: Array | None
    settings: dict[str, object]

    @classmethod
    def of(cls, curves: Curves) -> CurveArrays:
        held = {each.name: getattr(curves, each.name) for each in fields(cls)}
        found: dict[str, Any] = {
            k: as_array(x) if isinstance(x, torch.Tensor) else x for k, x in held.items()
        }
        return cls(**found)

    def curves(self) -> Curves:
        from proofmap.metrics.curves import Curves

        held = {each.name: getattr(self, each.name) for each in fields(self)}
        found: dict[str, Any] = {k: as_tensor(x) if isinstance(x, np.ndarray) else x for k, x in held.items()}
        return Curves(**found)


class ReadAs(Generic[Given, Read]):
    """A field of a dataclass that is converted when it is first read."""

    @staticmethod
    @abstractmethod
    def convert(value: Any) -> Any:
        """Convert a value for reading. One that is converted already is returned unchanged."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> Read:
        if instance is None:  # so that the dataclass finds no default
            raise AttributeError(self.name)
        held = vars(instance)
        found: Read = self.convert(held[self.name])
        held[self.name] = found
        return found

    def __set__(self, instance: object, value: Given) -> None:
        vars(instance)[self.name] = value


class TensorField(ReadAs["Tensor | Array", "Tensor"]):
    """A field that is given as an array or a tensor, and read as a tensor."""

    @staticmethod
    def convert(value: Tensor | Array) -> Tensor:
        return as_tensor(value)


class TableField(ReadAs["Mapping[str, Tensor] | Mapping[str, Array]", TensorTable]):
    """A field that is given as a mapping, and read as a :class:`TensorTable`."""

    @staticmethod
    def convert(value: Mapping[str, Tensor | Array]) -> TensorTable:
        return value if isinstance(value, TensorTable) else TensorTable(value)


class CurvesField(ReadAs["Curves | CurveArrays", "Curves"]):
    """A field that is given as curves or their arrays, and read as :class:`~proofmap.metrics.curves.Curves`."""

    @staticmethod
    def convert(value: Curves | CurveArrays) -> Curves:
        return value.curves() if isinstance(value, CurveArrays) else value


class HoldsArrays:
    """A dataclass with such fields, which can be read as arrays too."""

    def array(self, name: str) -> Array:
        """A tensor of this name as an array."""
        return as_array(vars(self)[name])
