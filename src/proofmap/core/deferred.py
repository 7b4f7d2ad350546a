"""Lazy imports: PyTorch, and the public names of packages.

``import torch`` takes seconds, and commands that only read a finished run do not need it. A module that these commands share with
code that runs nets writes ``from proofmap.core.deferred import Tensor, torch``; ``Tensor`` is only for annotations.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ForwardRef


class Deferred(ModuleType):
    """A module that is imported when one of its names is first read.

    >>> import copy, math
    >>> Deferred("math").sqrt(9.0), copy.deepcopy(Deferred("math")) is math
    (3.0, True)
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)  # so that Ray can send a function that uses it


def type_in(module: str, name: str) -> ForwardRef:
    """A reference to the type ``name`` of ``module``, for annotations. :func:`typing.get_type_hints` imports the module.

    >>> def half(x: type_in("decimal", "Decimal")): ...
    >>> from typing import get_type_hints
    >>> get_type_hints(half)
    {'x': <class 'decimal.Decimal'>}
    """
    return ForwardRef(f"import_module({module!r}).{name}", module=__name__)


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` for a package whose names are imported when they are first read (PEP 562).

    ``modules`` maps each module of the package to the names that it defines, separated by blanks.
    """
    module_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in module_of:
            made = re.sub("(?<=[a-z])(?=[A-Z])|_", "-", name).lower()
            hint = f"; methods and metrics are made by name: {package}.make_method({made!r})"
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{'' if '.' in package or name[0] == '_' else hint}"
            )
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: [*{**vars(sys.modules[package]), **module_of}]


if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
else:
    torch, Tensor = Deferred("torch"), type_in("torch", "Tensor")
