"""Digests of code, so that results of two functions with one name are not mixed.

A digest covers the loaded code, the code that it calls, the values that it reads by name (:mod:`proofmap.plugins.reads`), and its
source files (:mod:`proofmap.plugins.source`). So the digest changes if a helper function, a constant, a global tensor or a class attribute
changes.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.plugins.reads import UNSEEN, values_read
from proofmap.plugins.settings import Plugin
from proofmap.plugins.source import NOT_FOLLOWED, is_built_in, is_installed, module_file, source_of

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_SHOWN = 40
_DEEP = 12


def code_record(function: Callable[..., object]) -> dict[str, object]:
    """Entries for a record of results: the ``code`` of a function, the values that it ``reads`` by name (plain, or as digests), and the
    types of ``unseen`` values, whose content cannot be read.

    ``code`` is a digest of the function (code, defaults, bound arguments, closed-over values) or of a callable object (class, attributes).
    The digest includes the functions and classes that the code calls, the values that it reads by name, and their files. ``code`` is
    empty for a built-in function.

    >>> def scaled(k):
    ...     return lambda x: k * x
    >>> code_record(scaled(1)) == code_record(scaled(1)), code_record(scaled(1)) == code_record(scaled(2))
    (True, False)
    >>> code_record(scaled(3))["reads"], code_record(len)["code"]
    ({'k': 3}, '')
    """
    digest = Digest(8)
    found = digest.add_function(function)
    return digest.record() if found else {**digest.record(), "code": ""}


def foreign_code(thing: object) -> dict[str, object]:
    """Entries for a record (:func:`code_record`) with the code of an object's class. If the object is not a dataclass, its attributes are
    included. Empty if the class is part of Proofmap.

    >>> foreign_code(3)
    {}
    """
    if not _foreign(type(thing)):
        return {}
    digest = Digest(8)
    digest.add_class(type(thing))
    if not is_dataclass(thing):
        with digest.within(type(thing).__name__):
            digest.add_value(getattr(thing, "__dict__", {}))
    return digest.record()


def class_record(kind: type) -> dict[str, object]:
    """Entries for a record with the code of a class; see :func:`code_record`."""
    digest = Digest(8)
    digest.add_class(kind)
    return digest.record()


def provenance(plugin: Plugin, *others: Plugin) -> dict[str, object]:
    """Entries for a record about ``plugin``, the plug-ins among its settings, and the plug-ins ``others`` that it uses: the ``revisions``
    that are not 1, and the ``code`` of plug-ins that are not part of Proofmap (:func:`code_record`).
    """
    members, waiting = dict[Plugin, None](), [*reversed(others), plugin]
    while waiting:
        members[one := waiting.pop()] = None
        waiting += reversed(one._members())
    revisions = {f"{one.noun} {one.name}": one.revision for one in members if one.revision != 1}
    records = [record for one in members if (record := foreign_code(one))]
    found: dict[str, object] = {"revisions": revisions} if revisions else {}
    for record in records:
        for key in ("reads", UNSEEN):
            if key in record:
                found[key] = {**found.get(key, {}), **record[key]}  # type: ignore[dict-item]
    if records:
        codes = [record["code"] for record in records]
        found["code"] = codes[0] if len(codes) == 1 else value_digest(codes)
    return found


def value_digest(value: object) -> str:
    """A digest of a value's content."""
    digest = Digest(8)
    digest.add_value(value)
    return digest.hexdigest()


def tensor_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor's values."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


class Digest:
    """A digest of code and values, the same in every process.

    Values are added by their content: nets by layers, weights and code, other objects by what pickle would store. Of an object that
    cannot be pickled (an open file, a generator, a lock) only the type is added, and the object is recorded as unseen.
    """

    def __init__(self, size: int) -> None:
        self._hash = hashlib.blake2b(digest_size=size)
        self._seen: dict[int, object] = {}
        self._pieces: dict[int, tuple[object, str]] = {}
        self._where: list[str] = []
        self._reads: dict[str, object] = {}
        self._unseen: dict[str, str] = {}

    def update(self, content: bytes) -> None:
        self._hash.update(b"%d:" % len(content) + content)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def record(self) -> dict[str, object]:
        """Entries for a record: the digest as ``code`` and, if there are any, the values that the code ``reads`` and the ``unseen`` values."""
        named = {"reads": dict(sorted(self._reads.items())), UNSEEN: dict(sorted(self._unseen.items()))}
        return {"code": self.hexdigest(), **{key: found for key, found in named.items() if found}}

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Record values that are added inside the block under this name, unless they already have another name."""
        self._where.append(name)
        try:
            yield
        finally:
            self._where.pop()

    # ---- code -------------------------------------------------------------------------------------------------

    def add_class(self, kind: type) -> None:
        """Add the methods, attributes and source of a class and of the classes it inherits from."""
        for base in _foreign(kind) or [kind]:
            if id(base) in self._seen:
                continue
            self._seen[id(base)] = base
            self.update(f"class {base.__qualname__} {source_of(base.__module__)}".encode())
            if not _is_own(base.__module__):
                continue
            for name, attribute in sorted(vars(base).items()):
                inner = getattr(attribute, "__func__", None) or getattr(attribute, "fget", None) or attribute
                inner = inner.func if isinstance(inner, functools.cached_property) else inner
                if name == "__repr__":  # a dataclass's own reads a set of what is being printed
                    continue
                if isinstance(getattr(inner, "__wrapped__", inner), types.FunctionType):
                    self.update(name.encode())
                    self.add_function(inner)
                elif not name.startswith(("__", "_abc_")) and not _is_slot(attribute):
                    self.update(name.encode())
                    if isinstance(attribute, _PLAIN):
                        self.add_value(attribute)
                    else:
                        self._add_read(f"{base.__qualname__}.{name}", attribute, base)

    def add_function(self, function: object) -> bool:
        """Add a function or a callable object. Returns whether there was any code to add."""
        if isinstance(function, functools.partial):
            found = self.add_function(function.func)
            self.add_value([function.args, function.keywords])
            return found
        if isinstance(function, types.MethodType):
            self.add_value(function.__self__)
            return self.add_function(function.__func__)
        if isinstance(function, types.FunctionType):
            self._add_own_code(function)
            return True
        if isinstance(function, nn.Module):
            self.add_net(function)
            return True
        if callable(wrapped := getattr(function, "__wrapped__", None)):  # such as functools.cache
            return self.add_function(wrapped)
        called = getattr(type(function).__call__, "__code__", None) if callable(function) else None
        if isinstance(function, type) or not isinstance(called, types.CodeType):
            return False
        self._add_code(called)
        with self.within(type(function).__name__), self._note_unseen(function):
            self._add_object(function)
        return True

    def _add_own_code(self, function: types.FunctionType) -> None:
        """Add a function's code, the values bound to it, its source, and what it reads by name."""
        self._add_code(function.__code__)
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        with self.within(function.__name__):
            self.add_value([function.__defaults__, function.__kwdefaults__])
        self.update(source_of(function.__module__ or "").encode())
        for name, value in values_read(function, _is_own):
            self.update(name.encode())
            if _is_code(value):
                self.add_value(value)
            else:
                self._add_read(name, value, function)

    def _add_code(self, code: types.CodeType) -> None:
        self.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant)
            else:
                self.add_value(constant)

    def _add_read(self, name: str, value: object, reader: type | types.FunctionType) -> None:
        """Add a value that is read by name, and note it for the record."""
        with self.within(name):
            piece = self._piece(value)
        self.update(piece.encode())
        plain = type(value) in (bool, int, float, str) and len(repr(value)) <= _SHOWN
        shown = value if plain else f"{type(value).__name__} {piece}"
        key = name if self._reads.get(name, shown) == shown else f"{name} in {reader.__qualname__}"
        self._reads[key] = shown

    # ---- values -----------------------------------------------------------------------------------------------

    def add_plain(self, values: Mapping[str, object]) -> None:
        """Add those of ``values`` that are plain data, tensors or functions. Other objects are left out, because they may change by
        themselves."""
        for key, value in sorted(values.items()):
            if _is_plain(value):
                self.update(key.encode())
                self.add_value(value)

    def add_value(self, value: object) -> None:
        """Add a value by its content, in the same bytes in every process."""
        if isinstance(value, _PLAIN):
            self.update(f"{type(value).__name__} {value!r}".encode())
        elif isinstance(value, types.ModuleType):
            self.update(f"module {value.__name__} {source_of(value.__name__)}".encode())
        elif isinstance(value, type):
            self._add_type(value)
        elif isinstance(value, (list, tuple)):
            self.update(b"list")
            if all(type(item) in _PLAIN for item in value):
                self.update(repr(list(value)).encode())
            else:
                for item in value:
                    self.update(self._piece(item).encode())
        else:
            self.update(self._piece(value).encode())

    def add_net(self, net: nn.Module) -> None:
        """Add a net: its layers, weights, buffers, code, and plain attributes of layers that are not torch's."""
        self.update(repr(net).encode())
        for key, tensor in [*net.named_parameters(), *net.named_buffers()]:
            self.update(key.encode() + str(tensor.dtype).encode() + str(tuple(tensor.shape)).encode())
            self.update(tensor_bytes(tensor))
        kinds = {type(module) for module in net.modules() if not type(module).__module__.startswith("torch.")}
        for kind in sorted(kinds, key=lambda kind: kind.__qualname__):
            self.add_class(kind)
        for name, module in net.named_modules():
            own = {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training"}
            if type(module) in kinds and own:
                self.update(name.encode())
                self.add_plain(own)

    def _piece(self, value: object) -> str:
        """A separate digest of one value, computed once per value. A value that contains itself is marked."""
        if id(value) in self._pieces:
            return self._pieces[id(value)][1]
        child = copy.copy(self)  # which shares what was seen
        child._hash = hashlib.blake2b(digest_size=8)
        if isinstance(value, _PLAIN):
            child.add_value(value)
            return child.hexdigest()
        self._pieces[id(value)] = (value, "itself")
        if isinstance(value, (types.ModuleType, type, list, tuple)):
            child.add_value(value)
        else:
            child._add_content(value)
        self._pieces[id(value)] = (value, child.hexdigest())
        return child.hexdigest()

    def _add_content(self, value: object) -> None:
        with self._note_unseen(value):
            if isinstance(value, (Tensor, np.ndarray, np.generic)):
                self._add_array(value)
            elif isinstance(value, (set, frozenset)):
                self.update(f"set {sorted(map(self._piece, value))}".encode())
            elif isinstance(value, (dict, Mapping)):
                pieces = sorted((self._piece(key), self._piece(item)) for key, item in value.items())
                self.update(f"{type(value).__name__} {pieces}".encode())
            elif isinstance(value, types.BuiltinFunctionType):
                self.update(value.__qualname__.encode())
                if not isinstance(value.__self__, (types.ModuleType, type(None))):
                    self.add_value(value.__self__)
            elif type(value).__module__.startswith("proofmap.") and hasattr(value, "fingerprint"):
                self.update(str(value.fingerprint()).encode())
            elif not self.add_function(value):
                self._add_object(value)

    @contextmanager
    def _note_unseen(self, value: object) -> Iterator[None]:
        """Note a value as unseen if its content cannot be read."""
        try:
            yield
        except Exception:  # pickling runs code of any class
            self.update(f"unseen {type(value).__qualname__}".encode())
            self._unseen[self._where[0] if self._where else "a value"] = type(value).__name__

    def _add_array(self, value: Tensor | np.ndarray[Any, Any] | np.generic) -> None:
        self.update(f"{value.dtype} {tuple(value.shape)}".encode())
        if isinstance(value, Tensor):
            self.update(tensor_bytes(value))
        elif value.dtype.names is not None:  # field by field: the bytes between fields are random
            for name in value.dtype.names:
                self._add_array(np.asarray(value)[name])
        elif value.dtype.hasobject:
            self.add_value(value.tolist())
        else:
            self.update(value.tobytes())

    def _add_object(self, value: object) -> None:
        """Add an object's class and what pickle would keep of it. Raises if it cannot be pickled."""
        self._add_type(type(value))
        reducer = copyreg.dispatch_table.get(type(value))
        reduced: Any = value.__reduce_ex__(4) if reducer is None else reducer(value)
        if isinstance(reduced, str):
            self.update(reduced.encode())
            return
        made, arguments, *rest = reduced
        state, *items = [*rest, None, None, None][:3]
        self.add_value(made)
        self.add_value(arguments)
        self.add_value(state)
        self.add_value([None if some is None else list(some) for some in items])

    def _add_type(self, kind: type) -> None:
        if _is_own(kind.__module__):
            self.add_class(kind)
        else:
            self.update(f"class {kind.__module__}.{kind.__qualname__} {source_of(kind.__module__)}".encode())


def _foreign(kind: type) -> list[type]:
    """The class and its base classes, without those of Proofmap and torch."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in NOT_FOLLOWED]


def _is_own(module: str) -> bool:
    """Whether a module belongs to the user: neither part of Proofmap nor installed."""
    if module == "__main__":
        return True
    if not module or module.partition(".")[0] in NOT_FOLLOWED:
        return False
    path = module_file(module)
    return not is_installed(path) if path is not None else not is_built_in(module)


def _is_code(value: object) -> bool:
    """Whether a value is a function, a class or a module."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
    return isinstance(getattr(value, "__wrapped__", value), kinds)


def _is_slot(attribute: object) -> bool:
    """Whether a class attribute is a descriptor for values of instances, such as those of ``__slots__``."""
    return inspect.isdatadescriptor(attribute) or inspect.ismethoddescriptor(attribute)


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < _DEEP and all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, Mapping):
        return depth < _DEEP and all(_is_plain(item, depth + 1) for item in value.values())
    plain = (*_PLAIN, Tensor, np.ndarray, types.FunctionType)
    return isinstance(value, plain)
