"""Labels that are ranges of a number, by their names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise


def range_names(limits: Sequence[float]) -> tuple[str, ...]:
    """The names of the ranges below, between and above some limits, which ascend. A range contains its lower limit.

    >>> range_names([120_000, 300_000])
    ('< 120 000', '120 000 to 300 000', '>= 300 000')
    """
    ends = [f"{limit:,.10g}".replace(",", " ") for limit in limits]
    return (f"< {ends[0]}", *(f"{low} to {high}" for low, high in pairwise(ends)), f">= {ends[-1]}")


def range_of(number: float | str, names: Sequence[str]) -> int | None:
    """The index of the range that contains a number; None if ``names`` are not names of ranges, or ``number`` is not a number.

    >>> range_of("120000", ["< 120 000", "120 000 to 300 000", ">= 300 000"]), range_of(3, ["cat", "dog"])
    (1, None)
    """
    if not names or not names[-1].startswith(">= "):
        return None
    try:
        limits = [float(name.split(" to ")[-1].lstrip("<>= ").replace(" ", "")) for name in names[:-1]]
        place = bisect_right(limits, float(number))
    except ValueError:
        return None
    return place if limits and range_names(limits) == tuple(names) else None
