"""Values of settings: how plain ones and lists are read from text, and whether one has the type that a setting wants."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin


def number(text: str) -> float:
    """A number as it is written: whole ones stay whole."""
    try:
        return int(text)
    except ValueError:
        return float(text)


READERS: Mapping[type, Any] = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: number,
}
"""How a value of each plain type is read from text."""


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a type hint allows."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of one of these types: whole numbers are numbers too, truth values are not."""
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


def split_outside_brackets(text: str, separator: str = ",") -> list[str]:
    """The parts of a list with commas (or another separator); one inside round brackets does not separate.

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
