"""Where things stand in the page's scatter: points, intervals and names that do not cover one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proofmap.core.text import shortened
from proofmap.report.name_places import Box, interval_boxes, place_names
from proofmap.results.strength import BAR

WIDTH, HEIGHT = 420, 404
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 52
_LETTER, _LINE, _UNIT = 7.2, 15, 2.0  # sizes of the names' letters and lines, and of a point in them
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
    """One method in the plot; places in the drawing's units, with y downwards.

    ``name`` is empty where there is no room for it; ``line`` ties a name that stands farther away to its mark.
    """

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
    line: tuple[float, float] | None


def across(share: float) -> float:
    """The place of a value in [0, 1] on the horizontal axis."""
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1), 1)


def down(share: float) -> float:
    """The place of a value in [0, 1] on the vertical axis."""
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0), 1), 1)


GOAL_END = (across(1) - 6, down(BAR) - 6)
"""Where the word in the corner ends, on its line."""
GOAL_NAME = (GOAL_END[0] - 40, GOAL_END[1] - 12, GOAL_END[0], GOAL_END[1] + 4)


def marks(points: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Mark]:
    """The points that have both values, each with its name beside it where there is room, and without where not."""
    drawn = [p for p in points if p["x"][0] is not None and p["y"][0] is not None]
    places = [(across(p["x"][0]), down(p["y"][0])) for p in drawn]
    ends = [(_span(p["x"], across), _span(p["y"], down)) for p in drawn]
    texts = [shortened(names[p["method"]], _LONGEST) for p in drawn]
    named = place_names(
        places,
        [(_LETTER * len(text), _LINE) for text in texts],
        frame=(LEFT, 0, WIDTH, HEIGHT - BOTTOM + 2),
        lines=[box for at, own in zip(places, ends, strict=True) for box in interval_boxes(at, *own, 1)],
        taken=[GOAL_NAME],
        unit=_UNIT,
    )
    found = []
    for point, (x, y), (x_ends, y_ends), text, name in zip(drawn, places, ends, texts, named, strict=True):
        hollow, shown = point["label_free"], text if name.free else ""
        end = name.line_end if name.free else None
        line = None if end is None else (round(end[0], 1), round(end[1], 1))
        name_x, name_y, anchor = _anchored(name.box, x)
        found.append(Mark(point["method"], x, y, x_ends, y_ends, hollow, shown, name_x, name_y, anchor, line))
    return found


def _anchored(box: Box, x: float) -> tuple[float, float, str]:
    """Where a text is written to stand in its box: by the side towards the mark, since letters differ in width."""
    left, top, right, bottom = box
    at, anchor = (
        (left, "start") if left >= x else (right, "end") if right <= x else ((left + right) / 2, "middle")
    )
    return round(at, 1), round((top + bottom) / 2 + 4, 1), anchor


def _span(value: Sequence[float | None], place: Any) -> tuple[float, float] | None:
    _, low, high = value
    return None if low is None or high is None else (place(low), place(high))
