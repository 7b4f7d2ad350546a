"""Settings written as text, ``key=value,key=value``, read as the types that a class declares."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from proofmap.core.errors import InputError


def read_settings(owner: str, text: str, types: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The settings in ``text``; ``types`` says what each is to become, ``known`` what to list when one is unknown.

    >>> read_settings("method 'm'", "steps=5,fill=gray", {"steps": int, "fill": str}, ["steps", "fill"])
    {'steps': 5, 'fill': 'gray'}
    """
    settings: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if key not in types:
            close = difflib.get_close_matches(key, types, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f"{owner} has no setting {key!r}.{hint} Its settings are: {', '.join(known) or 'none'}"
            )
        if not equals:
            raise InputError(f"{owner}: the setting {key!r} needs a value, {key}=...")
        settings[key] = read_value(key, value.strip(), types[key])
    return settings


def number(text: str) -> float:
    """A number as it is written: whole ones stay whole."""
    try:
        return int(text)
    except ValueError:
        return float(text)


_READERS: Mapping[type, tuple[str, Callable[[str], object]]] = {
    bool: ("true or false", lambda text: {"true": True, "false": False}[text.lower()]),
    int: ("a whole number", int),
    float: ("a number", number),
}


def read_value(key: str, text: str, kind: Any) -> object:
    """The text as the setting's type wants it; what is no number, truth value or ``none`` stays text."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if NoneType in kinds and text.lower() == "none":
        return None
    for wanted, (meant, read) in _READERS.items():
        if wanted in kinds:
            try:
                return read(text)
            except (KeyError, ValueError):
                if str in kinds:
                    continue
                raise InputError(f"{key} must be {meant}, not {text!r}") from None
    return text
