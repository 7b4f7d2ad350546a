"""Messages for exceptions in the user's code: the place in the user's file, and what Proofmap was doing."""

from __future__ import annotations

import inspect
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
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
    return _last_place(error, lambda frame: Path(frame.f_code.co_filename).resolve() in _FILES)


def _last_place(error: BaseException, counts: Callable[[FrameType], bool]) -> str:
    """The last place in an exception's traceback for which ``counts(frame)`` is true; empty if there is none."""
    places = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__) if counts(frame)]
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


@contextmanager
def note_errors(what: str) -> Iterator[None]:
    """Add the note ``what`` to exceptions that are raised inside the block, except errors of Proofmap. ``sys.exit()`` becomes an error."""
    try:
        with exit_as_error(what):
            yield
    except ProofmapError:
        raise
    except Exception as error:
        error.add_note(what)
        raise


@contextmanager
def exit_as_error(what: str = "") -> Iterator[None]:
    """Turn ``SystemExit`` of the user's code into an InputError that names the place, so that the user's code cannot end the program.

    Ctrl-C and exits from a signal handler are not changed.

    >>> with exit_as_error("while the method mine made maps"):
    ...     sys.exit(3)
    Traceback (most recent call last):
        ...
    proofmap.core.errors.InputError: sys.exit(3) was called in <doctest ...>, line 2, while the method mine made maps. Code that Proofmap runs...
    """
    try:
        yield
    except SystemExit as error:
        if _asked_by_signal(error):
            raise
        place = place_of(error) or _last_place(
            error, lambda frame: _module_of(frame) not in sys.stdlib_module_names
        )
        call = f"sys.exit({'' if error.code is None else repr(error.code)})"
        during = f", {what}" if what else ""
        raise InputError(
            f"{call} was called in {place}{during}. Code that Proofmap runs must not end the program: raise an exception "
            "instead, such as ValueError"
        ) from error


def _module_of(frame: FrameType) -> str:
    """The top-level module of a frame's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _asked_by_signal(error: BaseException) -> bool:
    """Whether a signal handler raised the exception."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))
