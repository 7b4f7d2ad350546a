"""Fields of results that are stored as NumPy arrays and converted to tensors when they are first read.

Reading and auditing a finished run needs only NumPy, because importing torch takes seconds. Users get tensors from the fields of
:class:`~proofmap.results.records.MethodResult` and :class:`~proofmap.Evaluation`, which use :class:`HoldsArrays`. A tensor shares its memory with the array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from proofmap.core.deferred import Tensor, torch

if TYPE_CHECKING:
    from proofmap.metrics.curves import Curves

Array = NDArray[Any]


def as_array(values: Tensor | Array) -> Array:
    """The values as a NumPy array. A tensor on the CPU is not copied."""
    return values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()


def as_tensor(values: Tensor | Array) -> Tensor:
    """The values as a tensor. An array is not copied."""
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values


@dataclass(frozen=True)
class CurveArrays:
    """The stored fields of :class:`~proofmap.metrics.curves.Curves`, with NumPy arrays instead of tensors."""

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


def as_tensors(columns: Mapping[str, Tensor | Array]) -> Mapping[str, Tensor]:
    """The columns as tensors. If all columns are tensors already, the same mapping is returned, so that a user can add a column to it."""
    if not any(isinstance(values, np.ndarray) for values in columns.values()):
        return cast("Mapping[str, Tensor]", columns)
    return {name: as_tensor(values) for name, values in columns.items()}


def as_curves(curves: Curves | CurveArrays) -> Curves:
    return curves.curves() if isinstance(curves, CurveArrays) else curves


class ReadAs:
    """Descriptor for a field of a dataclass. The field's value is converted by ``convert`` when it is read."""

    def __init__(self, name: str, convert: Callable[[Any], Any]) -> None:
        self.name, self.convert = name, convert

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:  # so that the dataclass finds no default
            raise AttributeError(self.name)
        held = vars(instance)
        held[self.name] = self.convert(held[self.name])
        return held[self.name]

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)[self.name] = value


class HoldsArrays:
    """Base class of dataclasses whose fields may be given as NumPy arrays and are read as tensors.

    A subclass lists the names of these fields: ``tensors``, ``tables`` (mappings from names to tensors) and ``curves``.

    >>> @dataclass
    ... class Answers(HoldsArrays, tensors=["labels"]):
    ...     labels: Tensor
    >>> answers = Answers(np.array([1, 2]))
    >>> answers.array("labels"), answers.labels
    (array([1, 2]), tensor([1, 2]))
    """

    def __init_subclass__(
        cls, tensors: Sequence[str] = (), tables: Sequence[str] = (), curves: Sequence[str] = ()
    ) -> None:
        for names, convert in ((tensors, as_tensor), (tables, as_tensors), (curves, as_curves)):
            for name in names:
                setattr(cls, name, ReadAs(name, convert))

    @classmethod
    def from_arrays(cls, **values: Any) -> Self:
        """Create an object from values that may be arrays. The constructor does the same, but its type annotations allow only tensors."""
        return cls(**values)

    def array(self, name: str) -> Array:
        """The field ``name``, one of ``tensors``, as a NumPy array."""
        return as_array(vars(self)[name])

    def arrays(self, table: str) -> dict[str, Array]:
        """The field ``table``, one of ``tables``, as a dict of NumPy arrays."""
        return {name: as_array(values) for name, values in vars(self)[table].items()}

    def replaced(self, **changes: Any) -> Self:
        """A copy with these fields changed, like :func:`dataclasses.replace`, but arrays in the other fields are not converted to tensors."""
        held = {each.name: vars(self)[each.name] for each in fields(self)}  # type: ignore[arg-type]
        return self.from_arrays(**{**held, **changes})
