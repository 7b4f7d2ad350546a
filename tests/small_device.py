"""A device without float64, as Apple's GPUs are: the CPU under another name, which refuses float64 tensors and tensors of two devices in one operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device(
    "lazy", 0
)  # a name of torch's without a backend here; autograd runs it in the thread that asks


class _There(Tensor):
    """A tensor on the device, whose values are in a tensor on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> _There:
        if inner.dtype in (torch.float64, torch.complex128):
            raise TypeError("this device has no float64")
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert a tensor of this device to numpy; use Tensor.cpu()")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # which would import a compiler

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    there = dict[int, _There]()  # by the tensors on the CPU that hold their values
    here = list[Tensor]()

    def inner(value: Any) -> Any:
        if isinstance(value, _There):
            there[id(value.inner)] = value
            return value.inner
        if isinstance(value, Tensor):
            here.append(value)
        return [inner(each) for each in value] if isinstance(value, (list, tuple)) else value

    name, device, target = str(function), kwargs.get("device"), args[0] if args else None
    args, kwargs = [inner(value) for value in args], {key: inner(value) for key, value in kwargs.items()}
    free = "copy" in name or "index" in name
    if there and not free and any(value.ndim for value in here):
        raise RuntimeError(f"{name} has tensors of two devices")
    wraps = bool(there) if device is None else torch.device(device) == DEVICE
    if function._schema.is_mutable and isinstance(target, Tensor):
        wraps = isinstance(target, _There)
    if device is not None:
        kwargs["device"] = torch.device("cpu")

    def outer(value: Any) -> Any:
        if isinstance(value, Tensor):
            return there[id(value)] if id(value) in there else _There(value)
        return type(value)(map(outer, value)) if isinstance(value, (list, tuple)) else value

    found = function(*args, **kwargs)
    return outer(found) if wraps else found


@contextmanager
def small_device() -> Iterator[torch.device]:
    """A context in which torch has the device."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _Mode():
            yield DEVICE
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
