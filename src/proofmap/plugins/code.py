"""What a function or an object does, as a digest: the only thing that tells two of one name apart.

The code that is loaded counts, with what it calls, and so do the files it comes from
(:mod:`proofmap.plugins.source`): a helper, a constant or a class attribute that was edited gives another digest.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass

import numpy as np
import torch
from torch import Tensor

from proofmap.plugins.source import NOT_FOLLOWED, is_installed, module_file, source_of

_DEEP = 12


def code_digest(function: Callable[..., object]) -> str:
    """A digest of a function's code, its defaults, bound arguments and closed-over values, or of a callable object's
    class and attributes; with the functions and classes it calls by name, and the files that they come from.

    Empty for what has no Python code of its own (a built-in).

    >>> def scaled(k):
    ...     return lambda x: k * x
    >>> code_digest(scaled(1)) == code_digest(scaled(1)), code_digest(scaled(1)) == code_digest(scaled(2))
    (True, False)
    >>> code_digest(len)
    ''
    """
    digest = Digest(8)
    return digest.hexdigest() if digest.add_function(function) else ""


def foreign_code(thing: object) -> dict[str, str]:
    """The code of an object's class (and its attributes, unless they are a dataclass's settings) as a setting, where
    the class is not ours: other people's code changes under us.

    >>> foreign_code(3)
    {}
    """
    if not _foreign(type(thing)):
        return {}
    digest = Digest(8)
    digest.add_class(type(thing))
    if not is_dataclass(thing):
        digest.add_value(getattr(thing, "__dict__", {}))
    return {"code": digest.hexdigest()}


def tensor_bytes(tensor: Tensor) -> bytes:
    """The values of a tensor of any type, as they lie in memory."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


class Digest:
    """A digest of code and values, the same in every process."""

    def __init__(self, size: int) -> None:
        self._hash = hashlib.blake2b(digest_size=size)
        self._seen: set[int] = set()

    def update(self, content: bytes) -> None:
        self._hash.update(content)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def add_plain(self, values: Mapping[str, object]) -> None:
        """Add those values that are plain data, tensors or functions; other objects may change by themselves."""
        for key, value in sorted(values.items()):
            if _is_plain(value):
                self.update(key.encode())
                self.add_value(value)

    def add_class(self, kind: type) -> None:
        """Add all methods and constant attributes of a class, also of the classes it inherits from, and their source."""
        for base in _foreign(kind) or [kind]:
            if id(base) in self._seen:
                continue
            self._seen.add(id(base))
            self.update(f"class {base.__qualname__} {source_of(base.__module__)}".encode())
            for name, attribute in sorted(vars(base).items()):
                inner = getattr(attribute, "__func__", None) or getattr(attribute, "fget", None)
                inner = inspect.unwrap(inner or getattr(attribute, "func", attribute))
                if isinstance(inner, types.FunctionType):
                    self.update(name.encode())
                    self.add_function(inner, 1)
                elif not name.startswith("__") and _is_constant(attribute):
                    self.update(name.encode())
                    self.add_value(attribute, 1)

    def add_function(self, function: object, depth: int = 0) -> bool:
        """Add a function or a callable object. Returns whether there was any code to add."""
        if isinstance(function, functools.partial):
            found = self.add_function(function.func, depth + 1)
            self.add_value([function.args, function.keywords], depth + 1)
            return found
        if isinstance(function, types.MethodType):
            self.add_value(function.__self__, depth + 1)
            return self.add_function(function.__func__, depth + 1)
        if isinstance(function, types.FunctionType):
            self._add_own_code(function, depth)
            return True
        if callable(wrapped := getattr(function, "__wrapped__", None)):  # such as functools.cache
            return self.add_function(wrapped, depth + 1)
        called = getattr(type(function).__call__, "__code__", None) if callable(function) else None
        if not isinstance(called, types.CodeType):
            return False
        self._add_code(called)
        if _foreign(type(function)):
            self.add_class(type(function))
        self.add_value(getattr(function, "__dict__", {}), depth + 1)
        return True

    def add_value(self, value: object, depth: int = 0) -> None:
        """Add a value by its content, in the same bytes in every process; what has no content to see, by its type."""
        if isinstance(value, (Tensor, np.ndarray)):
            raw = tensor_bytes(value) if isinstance(value, Tensor) else value.tobytes()
            self.update(f"{value.dtype} {tuple(value.shape)}".encode() + raw)
        elif depth >= _DEEP:
            self.update(b"deep")
        elif isinstance(value, Mapping):
            self.update(b"{")
            for key, item in sorted(value.items(), key=lambda pair: repr(pair[0])):
                self.update(repr(key).encode())
                self.add_value(item, depth + 1)
        elif isinstance(value, (list, tuple)):
            self.update(b"[")
            for item in value:
                self.add_value(item, depth + 1)
        elif isinstance(value, (set, frozenset)):  # printed in an order that changes from process to process
            self.update(repr(sorted(map(repr, value))).encode())
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.update(repr(value).encode())
        elif not isinstance(value, type) and not self.add_function(value, depth + 1):
            self.update(type(value).__qualname__.encode())
            self.add_value(getattr(value, "__dict__", {}), depth + 1)
        else:
            self.update(getattr(value, "__qualname__", type(value).__qualname__).encode())

    def _add_own_code(self, function: types.FunctionType, depth: int) -> None:
        """The function's code, the values bound to it, its source, and what of a user's own it calls by name."""
        self._add_code(function.__code__)
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
        self.add_value([function.__defaults__, function.__kwdefaults__, cells], depth + 1)
        self.update(source_of(function.__module__ or "").encode())
        if not _is_own(function.__module__ or ""):
            return
        no_file = function.__module__ == "__main__" or module_file(function.__module__) is None
        for name in sorted(set(_names(function.__code__))):
            called = function.__globals__.get(name)
            called = getattr(called, "__wrapped__", called)
            if isinstance(called, types.FunctionType) and _is_own(called.__module__ or ""):
                self.add_function(called, depth + 1)
            elif isinstance(called, type) and _is_own(called.__module__):
                self.add_class(called)
            elif isinstance(called, types.ModuleType) and _is_own(called.__name__):
                self.update(source_of(called.__name__).encode())
            elif no_file and called is not None and _is_constant(called):
                self.update(name.encode())
                self.add_value(called, depth + 1)

    def _add_code(self, code: types.CodeType) -> None:
        self.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant)
            else:
                self.add_value(constant)


def _foreign(kind: type) -> list[type]:
    """Those classes among a class and what it inherits from that are neither ours nor torch's."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in NOT_FOLLOWED]


def _is_own(module: str) -> bool:
    """Whether a module is a user's own: not ours, and not installed."""
    if not module or module.partition(".")[0] in NOT_FOLLOWED:
        return False
    path = module_file(module)
    return path is None or not is_installed(path)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_constant(value: object) -> bool:
    """Whether a value cannot change by itself, as a list that serves as a memory can."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_constant, value))
    return isinstance(value, (bool, int, float, complex, str, bytes))


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < _DEEP and all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, Mapping):
        return depth < _DEEP and all(_is_plain(item, depth + 1) for item in value.values())
    plain = (bool, int, float, complex, str, bytes, Tensor, np.ndarray, types.FunctionType)
    return value is None or isinstance(value, plain)


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
