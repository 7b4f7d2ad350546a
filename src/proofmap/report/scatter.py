"""The geometry of scatter plots of scores: where marks and intervals are drawn on the page, and how marks are numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 420, 404
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 52
SHAPES = (
    "M0,-5.5A5.5,5.5 0 1 1 0,5.5A5.5,5.5 0 1 1 0,-5.5Z",
    "M-5,-5H5V5H-5Z",
    "M0,-6.5L6,4.5H-6Z",
    "M0,-7L7,0L0,7L-7,0Z",
    "M0,6.5L6,-4.5H-6Z",
    "M-2,-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
)
COLOURS = 7
"""A method's mark is its colour and its shape: 42 methods have different marks."""
_NEAR = (12, 12)  # marks closer than this, across and down, share the text with their numbers


@dataclass(frozen=True)
class Mark:
    """One method in the plot; coordinates in the drawing's units, with y downwards. ``text`` is empty if another mark has its number."""

    method: int
    x: float
    y: float
    x_ends: tuple[float, float] | None
    y_ends: tuple[float, float] | None
    hollow: bool
    text: str


def across(share: float) -> float:
    """The horizontal coordinate of a value in [0, 1]."""
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1), 1)


def down(share: float) -> float:
    """The vertical coordinate of a value in [0, 1]."""
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0), 1), 1)


def marks(points: Sequence[dict[str, Any]]) -> list[Mark]:
    """The points that have both values, with their intervals and numbers."""
    drawn = [p for p in points if p["x"][0] is not None and p["y"][0] is not None]
    places = [(across(p["x"][0]), down(p["y"][0])) for p in drawn]
    texts = mark_texts(places, [p["method"] + 1 for p in drawn], near=_NEAR)
    return [
        Mark(p["method"], *place, _span(p["x"], across), _span(p["y"], down), p["label_free"], text)
        for p, place, text in zip(drawn, places, texts, strict=True)
    ]


def mark_texts(
    places: Sequence[tuple[float, float]], numbers: Sequence[int], *, near: tuple[float, float]
) -> list[str]:
    """The text beside each mark: its number. Marks closer than ``near`` share one text, beside the first of them.

    >>> mark_texts([(0, 0), (50, 0), (1, 2)], [1, 2, 3], near=(9, 9))
    ['1, 3', '2', '']
    """
    texts: list[str] = []
    for k, ((x, y), number) in enumerate(zip(places, numbers, strict=True)):
        texts.append("")
        first = next(
            j
            for j, (left, top) in enumerate(places)
            if j == k or (texts[j] and abs(x - left) < near[0] and abs(y - top) < near[1])
        )
        texts[first] += f", {number}" if texts[first] else str(number)
    return texts


def _span(value: Sequence[float | None], place: Callable[[float], float]) -> tuple[float, float] | None:
    _, low, high = value
    return None if low is None or high is None else (place(low), place(high))
