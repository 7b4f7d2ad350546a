"""Where things stand in the page's scatter: points, intervals and names that do not cover one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 420, 404
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 52
_LETTER, _LINE, _MARK = 7.2, 15, 8  # sizes of the names' letters and lines, and of a mark with its margin
_LONGEST = 24
SHAPES = (
    "M0,-5.5A5.5,5.5 0 1 1 0,5.5A5.5,5.5 0 1 1 0,-5.5Z",
    "M-5,-5H5V5H-5Z",
    "M0,-6.5L6,4.5H-6Z",
    "M0,-7L7,0L0,7L-7,0Z",
    "M0,6.5L6,-4.5H-6Z",
    "M-2,-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
)
COLOURS = 7
"""A method's mark is its colour and its shape: 42 methods can be told apart, and seven of them without colour."""


@dataclass(frozen=True)
class Mark:
    """One method in the plot; places in the drawing's units, with y downwards."""

    method: int
    x: float
    y: float
    x_ends: tuple[float, float] | None
    y_ends: tuple[float, float] | None
    hollow: bool
    name: str
    name_x: float
    name_y: float
    anchor: str


def across(share: float) -> float:
    """The place of a value in [0, 1] on the horizontal axis."""
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1), 1)


def down(share: float) -> float:
    """The place of a value in [0, 1] on the vertical axis."""
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0), 1), 1)


def marks(points: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Mark]:
    """The points that have both values, each with its name beside it where there is room, and without where not."""
    known = [p for p in points if p["x"][0] is not None and p["y"][0] is not None]
    places = [(across(p["x"][0]), down(p["y"][0])) for p in known]
    taken = [_box(x - _MARK, x + _MARK, y) for x, y in places]
    found = []
    for point, (x, y) in zip(known, places, strict=True):
        name = _shortened(names[point["method"]])
        name_x, name_y, anchor, box = _beside(x, y, _LETTER * len(name), taken)
        if box is None:
            name = ""
        else:
            taken.append(box)
        found.append(
            Mark(
                point["method"],
                x,
                y,
                _span(point["x"], across),
                _span(point["y"], down),
                point["label_free"],
                name,
                name_x,
                name_y,
                anchor,
            )
        )
    return found


Box = tuple[float, float, float, float]


def _beside(x: float, y: float, wide: float, taken: Sequence[Box]) -> tuple[float, float, str, Box | None]:
    """The first free place for a name: right or left of its mark, then above or below it."""
    for shift in (0, -_LINE, _LINE, -2 * _LINE, 2 * _LINE):
        gap = _MARK + 3 if shift == 0 else _MARK - 2
        right, left = x + gap, x - gap
        middle = y + shift
        if right + wide <= WIDTH and _free(box := _box(right, right + wide, middle), taken):
            return round(right, 1), round(middle + 4, 1), "start", box
        if left - wide >= LEFT and _free(box := _box(left - wide, left, middle), taken):
            return round(left, 1), round(middle + 4, 1), "end", box
    return x, y, "start", None


def _box(left: float, right: float, middle: float) -> Box:
    return left, right, middle - _LINE / 2, middle + _LINE / 2


def _free(box: Box, taken: Sequence[Box]) -> bool:
    left, right, top, bottom = box
    inside = top >= 0 and bottom <= HEIGHT - BOTTOM + 2
    return inside and not any(left < b and a < right and top < d and c < bottom for a, b, c, d in taken)


def _span(value: Sequence[float | None], place: Any) -> tuple[float, float] | None:
    _, low, high = value
    return None if low is None or high is None else (place(low), place(high))


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
