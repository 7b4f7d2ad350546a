"""What a person is told of an exception in code of their own: its place in their file, and what was being done."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError, ProofmapError

_FILES: set[Path] = set()
"""The files of users that were run, with the modules beside them that they import."""


def belong_to_user(files: Iterable[Path]) -> None:
    """From now on, exceptions are placed in these files too."""
    _FILES.update(file.resolve() for file in files)


def place_of(error: BaseException) -> str:
    """The last place in a file of the user's that an exception came by, such as ``mine.py, line 7, in bright``.

    That line raised it, or called what did. Empty where no such file had a part in it.
    """
    places = [
        (code.co_filename, line, code.co_qualname)
        for code, line in ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
        if Path(code.co_filename).resolve() in _FILES
    ]
    if not places:
        return ""
    file, line, name = places[-1]
    return f"{Path(file).name}, line {line}" + ("" if name == "<module>" else f", in {name}")


def reason_of(error: BaseException) -> str:
    """An exception as one line for a person; one of ours says all in its message, another one also has its type and place.

    >>> reason_of(ValueError("no such layer"))
    'ValueError: no such layer'
    """
    text = " ".join(str(error).split())
    if isinstance(error, ProofmapError):
        return text
    place = place_of(error)
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{named} ({place})" if place else named


def check_call(function: Callable[..., Any], who: str, form: str, *given: object, **named: object) -> None:
    """Refuse a function of the user's that cannot be called with these arguments; ``form`` is how it must be written.

    >>> check_call(lambda x: x, "the function f", "f(x, y)", 1, 2)
    Traceback (most recent call last):
        ...
    proofmap.core.errors.InputError: the function f must be written f(x, y): too many positional arguments
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are not written in Python have none
        return
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        raise InputError(f"{who} must be written {form}: {error}") from None


@contextmanager
def noted(what: str) -> Iterator[None]:
    """Exceptions that are raised meanwhile stay what they are, and have a note that says during what; ours need none."""
    try:
        yield
    except ProofmapError:
        raise
    except Exception as error:
        error.add_note(what)
        raise
