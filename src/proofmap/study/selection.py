"""Selects the pictures of a dataset that a study judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proofmap.core.errors import InputError
from proofmap.plugins.settings import check_settings, setting
from proofmap.study.store import ImageRow


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rules that select the pictures of the dataset that a study judges."""

    number: int | None = setting(
        None,
        "number of pictures, chosen at random; a larger number adds to the same pictures; none: all, in the data's order",
        least=1,
    )
    seed: int = setting(0, "seed for the random choice of pictures")
    correct: bool = setting(False, "only pictures whose most probable label is the true one")
    min_second_probability: float | None = setting(
        None, "only pictures whose second label has at least this probability", least=0, most=1
    )
    names: tuple[str, ...] = ()
    """Only pictures with these names, in this order; empty for no such restriction."""

    def __post_init__(self) -> None:
        names = (self.names,) if isinstance(self.names, str) else self.names
        object.__setattr__(self, "names", list_of("images.names", names, (str,), "names of pictures"))
        check_settings(self, "images.")

    def chosen(self, rows: Sequence[ImageRow]) -> list[ImageRow]:
        """The rows of the pictures that the study uses, in the order in which they were surveyed."""
        eligible = [row for row in rows if row.eligible]
        return eligible if self.number is None else eligible[: self.number]

    def passed_over(self, rows: Sequence[ImageRow]) -> tuple[list[ImageRow], list[ImageRow]]:
        """Pictures that the study might have used, because they come before the last picture that it uses: the rows of those that cannot
        be read, and of those without a label to judge, if true labels are judged."""
        chosen = self.chosen(rows)
        if self.number is not None and len(chosen) >= self.number:
            rows = rows[: rows.index(chosen[-1])]
        unreadable = [row for row in rows if row.failure is not None]
        return unreadable, [row for row in rows if row.failure is None and not row.labels]


def list_of(name: str, value: object, kinds: tuple[type, ...], words: str) -> tuple[Any, ...]:
    """The value of the setting ``name`` as a tuple. Raises if it is not a list with entries of these types (or functions).

    ``words`` describes the entries in the error message.
    """
    if not isinstance(value, Sequence):
        raise InputError(f"{name} must be a list of {words}, not {value!r}")
    for entry in value:
        if isinstance(entry, bool) or not (isinstance(entry, kinds) or callable(entry)):
            raise InputError(f"{name} must be a list of {words}, and {entry!r} is not one of them")
    return tuple(value)
