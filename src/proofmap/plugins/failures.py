"""Messages for exceptions in the user's code: the place in the user's file, and what Proofmap was doing."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.text import shortened

_LONGEST = 2000  # characters of the text of an exception
_FILES: set[Path] = set()
"""The user's files that were run, and the modules that these files import from their own folders."""


def belong_to_user(files: Iterable[Path]) -> None:
    """Count these files as the user's: from now on, messages name places in them."""
    _FILES.update(file.resolve() for file in files)


def place_of(error: BaseException) -> str:
    """The last place in the user's files in an exception's traceback, such as ``mine.py, line 7, in bright``; empty if there is none."""
    places = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).resolve() in _FILES
    ]
    if not places:
        return ""
    code, line = places[-1]
    inside = "" if code.co_qualname == "<module>" else f", in {code.co_qualname}"
    return f"{Path(code.co_filename).name}, line {line}{inside}"


def reason_of(error: BaseException) -> str:
    """An exception as one line of text, which can be stored and shown: it is cut if it is very long, and has no surrogates. For errors of
    Proofmap this is the message; for others the type and the place are added.

    >>> reason_of(ValueError("no such layer"))
    'ValueError: no such layer'
    """
    try:
        text = str(error)
    except Exception:  # a class of the user's may fail here, too
        text = ""
    text = text.partition("Stack trace:")[0]  # XGBoost adds the addresses of its functions
    text = " ".join(text[: 2 * _LONGEST].encode("utf-8", "backslashreplace").decode().split())
    text = shortened(text, _LONGEST)
    if isinstance(error, ProofmapError):
        return text
    place = place_of(error)
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{named} ({place})" if place else named


def check_call(function: Callable[..., Any], who: str, form: str, *given: object, **named: object) -> None:
    """Raise an InputError if a user's function cannot be called with the arguments ``given`` and ``named``. The message calls the function
    ``who`` and shows in ``form`` how to write it.

    >>> check_call(lambda x: x, "the function f", "f(x, y)", 1, 2)
    Traceback (most recent call last):
        ...
    proofmap.core.errors.InputError: the function f must be written f(x, y): too many positional arguments
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        raise InputError(f"{who} must be written {form}: {error}") from None
