"""Where names stand beside their marks, so that they cover no other mark and no other name: rectangles in, rectangles out.

The page's scatter and the figures' both ask here; either may have its vertical axis upwards or downwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Place = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, low, right, high: ``low < high``, whichever way the axis goes."""

MARK = 4.0
"""Half the side of a mark, in units."""
NEAR = 9.0
"""Units: a name farther than this from its mark is tied to it by a line."""
_DISTANCES = (6, 9, 14, 20, 28, 38, 50, 65, 85, 110)
_EIGHTHS = (0, 8, 4, 12, 2, 6, 14, 10, 1, 7, 15, 9, 3, 5, 13, 11)  # of half a turn: right and left come first
_PREFERENCE = np.add.outer(np.array(_DISTANCES) / 6, 0.03 * np.arange(len(_EIGHTHS))).reshape(-1)
_ROUNDS = 4


@dataclass(frozen=True)
class NamePlace:
    """The rectangle of a name, where the line to its mark ends (None beside the mark), and whether the place is free."""

    box: Box
    line_end: Place | None
    free: bool


def place_names(
    marks: Sequence[Place],
    sizes: Sequence[Place],
    *,
    frame: Box,
    lines: Sequence[Box] = (),
    taken: Sequence[Box] = (),
    unit: float = 1.0,
) -> list[NamePlace]:
    """A place for the name of each mark: near it, inside the frame, covering no mark, no other name and nothing that is taken.

    Each name in turn takes its cheapest place given the others. In the next rounds those that fared worst choose first;
    the cheapest round counts. A name without a free place still gets its cheapest one, and says that it is not ``free``.

    Args:
        marks: centres; a mark is a square of ``2 * MARK`` units.
        sizes: width and height of each name.
        frame: what a name should not leave.
        lines: thin rectangles that a name may cover if need be, such as intervals.
        taken: rectangles that are written on already.
        unit: one point (1/72 inch) of the drawing.

    >>> [name.box for name in place_names([(0, 0), (30, 0)], [(20, 8), (20, 8)], frame=(-50, -50, 80, 50))]
    [(6.0, -4.0, 26.0, 4.0), (36.0, -4.0, 56.0, 4.0)]
    """
    centres = np.array(marks, dtype=float).reshape(-1, 2)
    squares = np.concatenate([centres - MARK * unit, centres + MARK * unit], axis=1)
    names = squares
    thin, full = (np.array(boxes, dtype=float).reshape(-1, 4) for boxes in (lines, taken))

    def others(k: int) -> np.ndarray:
        return np.concatenate([full, np.delete(squares, k, axis=0), np.delete(names, k, axis=0)])

    order, costs, best = list(range(len(marks))), np.zeros(len(marks)), (math.inf, names)
    for _ in range(_ROUNDS):
        names = np.full(squares.shape, np.inf)  # nowhere yet
        for k in order * 2:  # the second time all others have their places
            boxes = _candidates(centres[k], np.array(sizes[k]), unit)
            each = _costs(boxes, centres[k], others(k), thin, frame, unit)
            names[k], costs[k] = boxes[each.argmin()], each.min()
        best = min(best, (float(costs.sum()), names), key=lambda found: found[0])
        order.sort(key=lambda k: -costs[k])
    _, names = best
    found = []
    for k, mark in enumerate(centres):
        box = names[k : k + 1]
        free = not _shared_areas(box, others(k)).any() and _outside(box, frame)[0] <= 1e-6 * unit
        left, low, right, high = names[k].tolist()
        x, y = _nearest(box, mark)[0].tolist()
        far = math.dist((x, y), mark) > NEAR * unit
        found.append(NamePlace((left, low, right, high), (x, y) if far else None, bool(free)))
    return found


def interval_boxes(mark: Place, x_ends: Place | None, y_ends: Place | None, thin: float) -> list[Box]:
    """The intervals of a mark, across and along, as rectangles of half-width ``thin``."""
    x, y = mark
    boxes = []
    if x_ends is not None:
        boxes.append((min(x_ends), y - thin, max(x_ends), y + thin))
    if y_ends is not None:
        boxes.append((x - thin, min(y_ends), x + thin, max(y_ends)))
    return boxes


def _candidates(mark: np.ndarray, size: np.ndarray, unit: float) -> np.ndarray:
    """Rectangles ``(C, 4)`` of this size around a mark: all directions at each distance."""
    turns = np.pi / 8 * np.array(_EIGHTHS)
    towards = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    reach = np.clip(math.sqrt(2) * towards, -1, 1) * size / 2  # from the near side, or corner, to the middle
    steps = unit * np.array(_DISTANCES)[:, None, None] * towards
    middles = (mark + steps + reach).reshape(-1, 2)
    return np.concatenate([middles - size / 2, middles + size / 2], axis=1)


def _costs(
    boxes: np.ndarray, mark: np.ndarray, others: np.ndarray, thin: np.ndarray, frame: Box, unit: float
) -> np.ndarray:
    """How bad each place ``(C,)`` is: covering marks, names and intervals, leaving the frame, a long line, one through others."""
    area = (boxes[0, 2] - boxes[0, 0]) * (boxes[0, 3] - boxes[0, 1])
    covered, crossed = _shared_areas(boxes, others), _shared_areas(boxes, thin)
    near = _nearest(boxes, mark)
    far = np.hypot(*(near - mark).T) / unit
    way = mark + np.linspace(0, 1, 13)[:, None, None] * (near - mark)  # (13, C, 2)
    inside = (others[:, :2] <= way[:, :, None]) & (way[:, :, None] <= others[:, 2:])
    through = inside.all(axis=-1).any(axis=0).sum(axis=1) * (far > NEAR)
    hard = 40 * covered.sum(axis=1) / area + 100 * (covered > 0).sum(axis=1)
    soft = 2 * crossed.sum(axis=1) / area + 2 * through + _PREFERENCE
    costs: np.ndarray = hard + soft + 100 * _outside(boxes, frame) / unit
    return costs


def _shared_areas(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The areas ``(C, B)`` that boxes ``(C, 4)`` and others ``(B, 4)`` share."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    areas: np.ndarray = (high - low).clip(min=0).prod(axis=2)
    return areas


def _outside(boxes: np.ndarray, frame: Box) -> np.ndarray:
    """How far each box ``(C,)`` stands out of the frame."""
    over = np.concatenate([np.array(frame[:2]) - boxes[:, :2], boxes[:, 2:] - np.array(frame[2:])], axis=1)
    far: np.ndarray = over.clip(min=0).sum(axis=1)
    return far


def _nearest(boxes: np.ndarray, mark: np.ndarray) -> np.ndarray:
    """The point ``(C, 2)`` of each box that is nearest to the mark."""
    points: np.ndarray = np.clip(mark, boxes[:, :2], boxes[:, 2:])
    return points
