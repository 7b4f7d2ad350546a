"""Contracts: the promises of every plug-in of one kind, each as a check that can run by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from unittest import TestCase

Thing = TypeVar("Thing")

raises = TestCase().assertRaisesRegex
"""``with raises(InputError, "pattern"):`` fails unless the block raises an error with this type and message."""


@dataclass(frozen=True)
class Check(Generic[Thing]):
    """One promise. A call with a plug-in that breaks it raises an AssertionError with the promise. ``str(check)`` is a test id."""

    function: Callable[[Thing], None]

    @property
    def promise(self) -> str:
        return self.function.__name__.replace("_", " ")

    def __call__(self, thing: Thing) -> None:
        if not __debug__:
            raise RuntimeError("the checks are assertions, which python -O removes; run Python without -O")
        try:
            self.function(thing)
        except Exception as error:
            reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise AssertionError(f"{self.promise}: {reason}") from error

    def __str__(self) -> str:
        return self.function.__name__


class Contract(Generic[Thing]):
    """The promises of one ``kind`` of plug-in. A call with a plug-in runs all ``checks`` and reports each broken promise.

    >>> check_even = Contract[int]("even number")
    >>> @check_even.promise
    ... def half_of_it_is_whole(number: int) -> None:
    ...     assert number % 2 == 0, f"{number} / 2 is {number / 2}"
    >>> check_even(4)
    >>> check_even(3)
    Traceback (most recent call last):
        ...
    AssertionError: 3 breaks 1 of the 1 promises of every even number:
    - half of it is whole: 3 / 2 is 1.5
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.checks: list[Check[Thing]] = []

    def promise(self, function: Callable[[Thing], None]) -> Callable[[Thing], None]:
        """Add a function that asserts the promise in its name."""
        self.checks.append(Check(function))
        return function

    def __call__(self, thing: Thing) -> None:
        errors: list[AssertionError] = []
        for check in self.checks:
            try:
                check(thing)
            except AssertionError as error:
                errors.append(error)
        if errors:
            name = getattr(thing, "__name__", None) or repr(thing)
            heading = f"{name} breaks {len(errors)} of the {len(self.checks)} promises of every {self.kind}:"
            raise AssertionError("\n- ".join([heading, *map(str, errors)])) from errors[0]
