"""The values that a function reads by name: globals, closed-over values, and attributes such as ``config.scale``.

The names come from the function's code, so a value is found even if no call has read it yet.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

UNSEEN = "unseen"
"""The key in a record for values whose content cannot be read. A run with such values cannot be continued."""
_NOTHING = object()


def values_read(function: types.FunctionType, is_own: Callable[[str], bool]) -> Iterator[tuple[str, object]]:
    """Yields the name and the value of everything that a function, or a function defined inside it, reads by name.

    For an object, and for a module for which ``is_own(module name)`` is true, only the attribute that is read counts: ``config.scale``,
    not all of ``config``. Built-in names and names that Python gives a module, such as ``__file__``, are left out.

    >>> scale, other = 2.0, 3.0
    >>> def double(x):
    ...     return scale * x
    >>> double.__globals__.update(scale=scale)
    >>> list(values_read(double, lambda module: True))
    [('scale', 2.0)]
    """
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = {}
    for name, cell in closure.items():
        with suppress(ValueError):  # an empty cell
            cells[name] = cell.cell_contents
    own = is_own(str(function.__globals__.get("__name__", "")))
    seen: set[tuple[str, ...]] = set()
    for kind, *path in _chains(function.__code__):
        if (kind, *path) in seen:
            continue
        seen.add((kind, *path))
        if kind == "closed":
            found = _follow(cells, path, is_own)
        elif not own:
            continue
        elif kind == "global":
            found = _follow(function.__globals__, path, is_own)
        else:
            found = _imported(path, is_own)
        if found is not None:
            yield found


def _chains(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Yields each name that code reads, with its kind before it and the attributes that are read after it:
    ``("global", "config", "scale")``."""
    instructions = list(dis.get_instructions(code))
    for at, one in enumerate(instructions):
        name = str(one.argval)
        if one.opname == "IMPORT_NAME":
            imported = []
            for after in instructions[at + 1 :]:
                if after.opname == "IMPORT_FROM":
                    imported.append(str(after.argval))
                elif not after.opname.startswith(("STORE_", "NOP", "CACHE")):
                    break
            yield from (("import", name, inner) for inner in imported)
            yield ("import", name)
        elif one.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_GLOBAL", "LOAD_NAME") or (
            one.opname.startswith("LOAD_FROM_DICT_OR_")
        ):
            attributes = []
            for after in instructions[at + 1 :]:
                if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                attributes.append(str(after.argval))
            kind = "closed" if "DEREF" in one.opname else "global"
            yield (kind, name, *attributes)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _chains(constant)


def _follow(
    scope: Mapping[str, Any], path: list[str], is_own: Callable[[str], bool]
) -> tuple[str, object] | None:
    """The name and the value at the end of ``path``, a name in ``scope`` and attributes. The path ends early before an attribute that is
    not stored in its object. None if the scope has no such name."""
    name, *attributes = path
    value = scope.get(name, _NOTHING)
    if value is _NOTHING or (name.startswith("__") and name.endswith("__")):
        return None
    for attribute in attributes:
        if isinstance(value, types.ModuleType):
            if not is_own(value.__name__):
                break
        elif isinstance(value, type) or _is_computed(value, attribute):
            break
        inner = getattr(value, "__dict__", {}).get(attribute, _NOTHING)
        if inner is _NOTHING:
            break
        name, value = f"{name}.{attribute}", inner
    return name, value


def _imported(path: list[str], is_own: Callable[[str], bool]) -> tuple[str, object] | None:
    """The name and the value that an import inside a function gives; None if the module is not loaded."""
    module = sys.modules.get(path[0])
    if module is None:
        return None
    if len(path) == 1 or not is_own(module.__name__):
        return path[0], module
    return _follow(vars(module), path[1:], is_own)


def _is_computed(value: object, attribute: str) -> bool:
    """Whether the class computes this attribute, such as by a property."""
    return hasattr(inspect.getattr_static(type(value), attribute, None), "__set__")


def unseen_in(record: Mapping[str, Any]) -> dict[str, str]:
    """The type of each ``unseen`` value (one whose content cannot be read) in a record and in records inside it, by name."""
    found: dict[str, str] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= {name: str(kind) for name, kind in value.items()} if key == UNSEEN else unseen_in(value)
    return found
