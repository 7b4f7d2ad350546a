"""A registry that finds classes by name: classes of this package, and of installed packages that declare an entry point."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from proofmap.core.errors import InputError
from proofmap.core.text import did_you_mean, shortened

T = TypeVar("T")
_SHOWN = 8
"""Number of known names in a message about an unknown one."""
_LONGEST = 200
"""Number of characters of the unknown name in that message."""


class Registry(Generic[T]):
    """A mapping from names to classes. The name of a class is its attribute ``name``, or another ``attribute``.

    Entry points of ``group`` are loaded at the first look-up.

    >>> things: Registry[object] = Registry("thing", "proofmap.nothing")
    >>> @things.register
    ... class Cup:
    ...     name = "cup"
    >>> things["cup"] is Cup, list(things)
    (True, ['cup'])
    """

    def __init__(self, kind: str, group: str, *, attribute: str = "name") -> None:
        self.kind, self.group, self.attribute = kind, group, attribute
        self._known: dict[str, type[T]] = {}
        self._asked = False

    def register(self, thing: type[Any]) -> type[Any]:
        """Add a class under its name; usable as a decorator.

        Two classes cannot share a name, but a class may be defined again, as in a notebook or an edited file.
        """
        name = getattr(thing, self.attribute)
        before = self._known.get(name, thing)
        again = before.__qualname__ == thing.__qualname__ and not before.__module__.startswith("proofmap.")
        if before is not thing and not again:
            raise InputError(f"a {self.kind} named {name!r} is already registered; choose another name")
        self._known[name] = thing
        return thing

    def __getitem__(self, name: str) -> type[T]:
        self._ask_plugins()
        if name not in self._known:
            name = shortened(name, _LONGEST)
            nearest = sorted(difflib.get_close_matches(name.lower(), self._known, n=_SHOWN, cutoff=0))
            left = len(self._known) - len(nearest)
            more = f", and {left} more; proofmap list {self.kind}s lists them" if left else ""
            hint = did_you_mean(name, self._known)
            raise InputError(f"no {self.kind} is named {name!r}.{hint} Known are: {', '.join(nearest)}{more}")
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._ask_plugins()
        return iter(self._known)

    def __contains__(self, name: str) -> bool:
        return name in list(self)

    def _ask_plugins(self) -> None:
        if self._asked:
            return
        self._asked = True
        for point in entry_points(group=self.group):
            try:
                self.register(point.load())
            except Exception as error:  # a broken package must not hide the others
                package = point.dist.name if point.dist else "?"
                warnings.warn(
                    f"the {self.kind} {point.name!r} of the installed package {package} cannot be loaded: {error}",
                    stacklevel=4,
                )
