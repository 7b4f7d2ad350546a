"""Read the values of settings from text, check them against a type, and convert them to this type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin


def parse_number(text: str) -> float:
    """A number from text; a whole number becomes an int."""
    try:
        return int(text)
    except ValueError:
        return float(text)


READERS: Mapping[type, Any] = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: float,
}
"""Functions that read a value of each plain type from text."""


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a type hint allows."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def fits(value: object, kind: Any) -> bool:
    """Whether ``value`` has the type ``kind``. An int counts as a float; a bool counts neither as an int nor as a float."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float):
        return isinstance(value, (int,) if kind is int else (int, float)) and not isinstance(value, bool)
    if get_origin(kind) is tuple:
        return _fits_tuple(value, get_args(kind))
    return isinstance(value, kind) if isinstance(kind, type) and kind is not Any else True


def _fits_tuple(value: object, kinds: tuple[Any, ...]) -> bool:
    if not isinstance(value, (tuple, list)):
        return False
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return all(fits(item, kinds[0]) for item in value)
    return len(value) == len(kinds) and all(map(fits, value, kinds))


def without_library(value: Any) -> Any:
    """A scalar of NumPy or torch as a Python number, also inside a tuple or list; other values are returned unchanged.

    >>> import numpy
    >>> without_library(numpy.int64(3)), without_library([numpy.bool_(True), "a"])
    (3, [True, 'a'])
    """
    if isinstance(value, (tuple, list)):
        return type(value)(map(without_library, value)) if type(value) in (tuple, list) else value
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def typed(value: Any, kinds: Sequence[Any]) -> Any:
    """The value converted to the first of the types ``kinds`` that it fits: 8 becomes 8.0 for a float, a list becomes a tuple.

    After the conversion, equal values are also equal as text; for this reason -0.0 becomes 0.0. Raises OverflowError for an int that
    is too large for a float.

    >>> (
    ...     typed(8, (float, type(None))),
    ...     typed([0, 1], (tuple[float, ...],)),
    ...     typed("all", (int, Literal["all"])),
    ... )
    (8.0, (0.0, 1.0), 'all')
    """
    kind = next((kind for kind in (float, *kinds) if kind in kinds and fits(value, kind)), Any)
    if kind is float:
        return float(value) + 0.0
    if kind in (int, str):
        return kind(value)
    if get_origin(kind) is Literal:
        return next(choice for choice in get_args(kind) if choice == value)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(typed(item, alternatives(one)) for item, one in zip(value, each, strict=True))
    return value


def split_outside_brackets(text: str, separator: str = ",") -> list[str]:
    """The parts of a text, split at each separator that is not inside round brackets.

    >>> split_outside_brackets("tv=0.1,fill=blur(sigma=3,kernel=5), grad-cam")
    ['tv=0.1', 'fill=blur(sigma=3,kernel=5)', 'grad-cam']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == separator and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
