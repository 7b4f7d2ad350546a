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


def chosen_images(rows: Sequence[ImageRow], selection: Selection) -> list[ImageRow]:
    """The rows of the pictures that the study uses, in the order in which they were surveyed."""
    eligible = [row for row in rows if row.eligible]
    return eligible if selection.number is None else eligible[: selection.number]


def unreadable_images(rows: Sequence[ImageRow], selection: Selection) -> list[ImageRow]:
    """The rows of unreadable pictures that the study might have used: those that come before the last picture it uses."""
    return [row for row in _passed(rows, selection) if row.failure is not None]


def unlabelled_images(rows: Sequence[ImageRow], selection: Selection) -> list[ImageRow]:
    """The rows of pictures that were left out because the study judges true labels and these pictures have none."""
    return [row for row in _passed(rows, selection) if row.failure is None and not row.labels]


def _passed(rows: Sequence[ImageRow], selection: Selection) -> Sequence[ImageRow]:
    chosen = chosen_images(rows, selection)
    enough = selection.number is not None and len(chosen) >= selection.number
    return rows[: rows.index(chosen[-1])] if enough else rows


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
