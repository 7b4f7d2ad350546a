"""Identities of the user's functions, classes, nets and values, so that results of two things with one name are not mixed.

A function or a class is identified by its name and the files that it comes from (:mod:`proofmap.plugins.python_file`), not by the values that
it reads by name. What comes from no file is known in this process only.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import PurePath
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.core.files import digest_of
from proofmap.plugins.python_file import HERE_ONLY, source_of
from proofmap.plugins.settings import Plugin

_PLAIN = (type(None), bool, int, float, complex, str, bytes, PurePath, torch.dtype, torch.device)
_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def identity(*things: object) -> str:
    """A digest of functions, classes, nets and values, the same in every process.

    A function counts by its name, its files and the values bound to it (defaults, closed-over values, arguments of a ``partial``); a net by its
    layers, weights, buffers and classes; a dataclass and a callable object by their class and attributes; numbers, texts, tensors and
    arrays, also in lists and dictionaries, by their content. If anything else is among them, or code without a file (from a notebook, or
    run by ``exec``), the identity begins with :data:`HERE_ONLY`.

    >>> identity([1, 2]) == identity([1, 2]), identity(torch.ones(2)) == identity(torch.zeros(2))
    (True, False)
    >>> mine = eval("lambda x: x")
    >>> identity(mine) == identity(mine), identity(mine).startswith(HERE_ONLY)
    (True, True)
    """
    pieces = [piece for thing in things for piece in _pieces(thing)]
    here_only = any(isinstance(piece, str) and HERE_ONLY in piece for piece in pieces)
    return HERE_ONLY * here_only + digest_of(*pieces)[:16]


def provenance(plugin: Plugin, *others: Plugin) -> dict[str, object]:
    """Entries for a record about ``plugin``, the plug-ins among its settings, and the plug-ins ``others`` that it uses: the ``revisions``
    that are not 1, and the ``code`` of classes that are not part of Proofmap.
    """
    members, waiting = dict[Plugin, None](), [*reversed(others), plugin]
    while waiting:
        members[one := waiting.pop()] = None
        waiting += reversed(one._members())
    revisions = {f"{one.noun} {one.name}": one.revision for one in members if one.revision != 1}
    foreign = [type(one) for one in members if any(map(_is_foreign, type(one).__mro__))]
    found: dict[str, object] = {"revisions": revisions} if revisions else {}
    return {**found, "code": identity(*foreign)} if foreign else found


def _is_foreign(kind: type) -> bool:
    return source_of(kind.__module__) != ""


def _pieces(value: Any, *around: object) -> Iterator[str | bytes]:
    """The content of a value that is inside the values ``around``, piece by piece."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
        return
    if any(value is one for one in around):  # a list that contains itself
        yield "itself"
        return
    inside = functools.partial(_pieces_of_all, around=(*around, value))
    if isinstance(value, (list, tuple)):
        yield f"list {len(value)}"
        yield from inside(*value)
    elif isinstance(value, (set, frozenset)):
        yield f"set {sorted(map(identity, value))}"
    elif isinstance(value, Mapping):
        yield f"dict {len(value)}"
        yield from inside(*value, *value.values())
    elif isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)}"
        yield digest_of(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, (np.ndarray, np.generic)):
        yield f"{value.dtype} {value.shape}"
        fields = value.dtype.hasobject or value.dtype.names  # with random bytes between them
        yield from inside(value.tolist()) if fields else [value.tobytes()]
    elif isinstance(value, nn.Module):
        yield from _pieces_of_net(value, inside)
    elif isinstance(value, type):
        for kind in value.__mro__:
            yield _named(kind, kind.__module__)
    elif isinstance(value, functools.partial):
        yield from inside(value.func, value.args, value.keywords)
    elif isinstance(value, types.FunctionType):
        yield from _pieces_of_function(value, inside)
    elif isinstance(value, (types.MethodType, types.BuiltinFunctionType)):
        yield f"{value.__qualname__} of {value.__module__}"
        yield from inside(value.__self__)
    elif isinstance(value, types.ModuleType):  # also that of a built-in function
        yield _named(value, value.__name__)
    elif callable(getattr(value, "fingerprint", None)):  # a classifier
        yield value.fingerprint()
    elif (is_dataclass(value) or callable(value)) and hasattr(value, "__dict__"):
        yield from inside(type(value), vars(value))
    else:
        yield _here_only(value)


def _pieces_of_all(*values: object, around: tuple[object, ...]) -> Iterator[str | bytes]:
    for value in values:
        yield from _pieces(value, *around)


def _pieces_of_function(function: types.FunctionType, inside: Any) -> Iterator[str | bytes]:
    code, module = function.__code__, function.__module__ or ""
    if code.co_filename.startswith("<"):  # made by exec, in a module that may have a file
        yield _here_only(function)
    else:
        yield _named(function, module) + (
            f" line {code.co_firstlineno}" if "<lambda>" in code.co_name else ""
        )
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    yield from inside(function.__defaults__, function.__kwdefaults__, cells)


def _pieces_of_net(net: nn.Module, inside: Any) -> Iterator[str | bytes]:
    """Layers, weights, buffers and classes, and attributes of layers that are not torch's, as far as they can be read."""
    yield repr(net)
    yield from inside(dict(net.named_parameters()), dict(net.named_buffers()))
    for name, module in net.named_modules():
        if not type(module).__module__.startswith("torch."):
            yield name
            yield from inside(type(module))
            own = {k: v for k, v in sorted(vars(module).items()) if not k.startswith("_") and k != "training"}
            for key, value in own.items():
                pieces = list(inside(value))
                if not any(isinstance(piece, str) and HERE_ONLY in piece for piece in pieces):
                    yield from [key, *pieces]


def _named(thing: Any, module: str) -> str:
    """The name of a class, function or module, with what identifies its source; its name in this process if it has none."""
    source = source_of(module)
    return (
        _here_only(thing) if source is None else f"{getattr(thing, '__qualname__', thing.__name__)} {source}"
    )


def _here_only(thing: object) -> str:
    """A name for an object that is the same as long as the process runs."""
    try:
        return HERE_ONLY + _NAMES.setdefault(thing, uuid4().hex)
    except TypeError:  # no hash, or no weak references
        return HERE_ONLY + uuid4().hex
