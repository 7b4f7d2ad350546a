"""What a function or an object does, as a digest: the only thing that tells two of one name apart."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass

import numpy as np
import torch
from torch import Tensor

_DEEP = 12
_NOT_FOLLOWED = ("proofmap", "torch", "builtins", "abc", "typing", "collections")


def code_digest(function: Callable[..., object]) -> str:
    """A digest of a function's own code, its defaults, bound arguments and closed-over values, or of a callable
    object's code and attributes. What it calls by a global name is not looked at.

    Empty for what has no Python code of its own (a built-in).

    >>> def scaled(k):
    ...     return lambda x: k * x
    >>> code_digest(scaled(1)) == code_digest(scaled(1)), code_digest(scaled(1)) == code_digest(scaled(2))
    (True, False)
    >>> code_digest(len)
    ''
    """
    digest = hashlib.blake2b(digest_size=8)
    return digest.hexdigest() if _add_function(digest, function, 0) else ""


def foreign_code(thing: object) -> dict[str, str]:
    """The code of an object's class (and its attributes, unless they are a dataclass's settings) as a setting, where
    the class is not ours: other people's code changes under us.

    >>> foreign_code(3)
    {}
    """
    kinds = [kind for kind in type(thing).__mro__ if kind.__module__.partition(".")[0] not in _NOT_FOLLOWED]
    if not kinds:
        return {}
    digest = hashlib.blake2b(digest_size=8)
    for kind in kinds:
        for name, attribute in sorted(vars(kind).items()):
            inner = getattr(attribute, "__func__", None) or getattr(attribute, "fget", None) or attribute
            if isinstance(inner, types.FunctionType):
                digest.update(name.encode())
                _add_code(digest, inner.__code__)
    if not is_dataclass(thing):
        _add_value(digest, getattr(thing, "__dict__", {}), 0)
    return {"code": digest.hexdigest()}


def add_plain_values(digest: hashlib.blake2b, values: Mapping[str, object]) -> None:
    """Add those values to a digest that are plain data, tensors or functions; other objects may change by themselves."""
    for key, value in sorted(values.items()):
        if _is_plain(value, 0):
            digest.update(key.encode())
            _add_value(digest, value, 0)


def _is_plain(value: object, depth: int) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < _DEEP and all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, Mapping):
        return depth < _DEEP and all(_is_plain(item, depth + 1) for item in value.values())
    plain = (bool, int, float, complex, str, bytes, Tensor, np.ndarray, types.FunctionType)
    return value is None or isinstance(value, plain)


def _add_function(digest: hashlib.blake2b, function: object, depth: int) -> bool:
    """Whether there was any code to add."""
    if isinstance(function, functools.partial):
        found = _add_function(digest, function.func, depth + 1)
        _add_value(digest, [function.args, function.keywords], depth + 1)
        return found
    if isinstance(function, types.MethodType):
        _add_value(digest, function.__self__, depth + 1)
        return _add_function(digest, function.__func__, depth + 1)
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        _add_code(digest, code)
        cells = [
            cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_full(cell)
        ]
        bound = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None), cells]
        _add_value(digest, bound, depth + 1)
        return True
    called = getattr(type(function).__call__, "__code__", None) if callable(function) else None
    if not isinstance(called, types.CodeType):
        return False
    _add_code(digest, called)
    _add_value(digest, getattr(function, "__dict__", {}), depth + 1)
    return True


def tensor_bytes(tensor: Tensor) -> bytes:
    """The values of a tensor of any type, as they lie in memory."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _add_code(digest: hashlib.blake2b, code: types.CodeType) -> None:
    digest.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        else:
            _add_value(digest, constant, 0)


def _add_value(digest: hashlib.blake2b, value: object, depth: int) -> None:
    """Add a value by its content, in the same bytes in every process; what has no content to see, by its type."""
    if isinstance(value, (Tensor, np.ndarray)):
        raw = tensor_bytes(value) if isinstance(value, Tensor) else value.tobytes()
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode() + raw)
    elif depth >= _DEEP:
        digest.update(b"deep")
    elif isinstance(value, Mapping):
        digest.update(b"{")
        for key, item in sorted(value.items(), key=lambda pair: repr(pair[0])):
            digest.update(repr(key).encode())
            _add_value(digest, item, depth + 1)
    elif isinstance(value, (list, tuple)):
        digest.update(b"[")
        for item in value:
            _add_value(digest, item, depth + 1)
    elif isinstance(value, (set, frozenset)):  # printed in an order that changes from process to process
        digest.update(repr(sorted(map(repr, value))).encode())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        digest.update(repr(value).encode())
    elif not isinstance(value, type) and not _add_function(digest, value, depth + 1):
        digest.update(type(value).__qualname__.encode())
        _add_value(digest, getattr(value, "__dict__", {}), depth + 1)
    else:
        digest.update(getattr(value, "__qualname__", type(value).__qualname__).encode())
