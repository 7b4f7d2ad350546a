"""Deprecated names still work, and warn once. The rule is in ``docs/reference/public-api.md``."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from proofmap.core.version import __version__

P = ParamSpec("P")
T = TypeVar("T")

_warned: set[str] = set()


def deprecated(*, since: str, removed_in: str, use: str = "") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator for a function or method that will be removed. The first call warns.

    Args:
        since: the first version in which the function is deprecated.
        removed_in: the first version without the function. From that version on, the decorator raises a ValueError, so that
            nobody forgets to delete the function.
        use: what to use instead.

    >>> @deprecated(since="0.2", removed_in="0.4", use="area()")
    ... def auc() -> float:
    ...     return 0.5
    """
    if not _numbers(since) < _numbers(removed_in):
        raise ValueError(f"removed_in must be later than since, {since}; it is {removed_in}")

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__qualname__
        if _numbers(__version__) >= _numbers(removed_in):
            raise ValueError(f"{name} was to be removed in {removed_in}; this is {__version__}: delete it")

        @functools.wraps(function)
        def warn_and_call(*args: P.args, **settings: P.kwargs) -> T:
            warn_deprecated(f"{name}()", since=since, removed_in=removed_in, use=use)
            return function(*args, **settings)

        return warn_and_call

    return decorate


def warn_deprecated(name: str, *, since: str, removed_in: str, use: str = "") -> None:
    """Warn that ``name`` will be removed. For arguments, classes and modules, on which the decorator cannot be used.

    Each name warns once per process. If warnings are errors, every use raises.

    Args:
        name: as users write it, for example ``evaluate(anyway=...)``.
        since, removed_in, use: as for :func:`deprecated`.
    """
    if name in _warned:
        return
    replacement = f" Use {use} instead." if use else ""
    warnings.warn(
        f"{name} is deprecated since version {since} and will be removed in version {removed_in}.{replacement}",
        FutureWarning,
        stacklevel=3,  # the caller of the function that calls this one
    )
    _warned.add(name)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, as a tuple.

    >>> _numbers("0.2.1.dev3")
    (0, 2, 1)
    """
    found = re.match(r"\d+(\.\d+)*", version)
    if found is None:
        raise ValueError(f"a version has the form 0.2 or 0.2.1, not {version!r}")
    return tuple(map(int, found[0].split(".")))
