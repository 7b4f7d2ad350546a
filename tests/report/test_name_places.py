"""Names beside marks: inside the frame, on nothing else, as near as can be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofmap.report.name_places import MARK, NEAR, Box, NamePlace, interval_boxes, place_names

FRAME = (0.0, 0.0, 200.0, 200.0)
places = st.tuples(st.floats(10, 190), st.floats(10, 190))


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def square(mark: tuple[float, float]) -> Box:
    return mark[0] - MARK, mark[1] - MARK, mark[0] + MARK, mark[1] + MARK


@settings(deadline=None, max_examples=30)
@given(st.lists(places, min_size=1, max_size=8, unique=True))
def test_a_free_name_stands_on_no_mark_and_no_name_and_is_tied_to_its_own(
    marks: list[tuple[float, float]],
) -> None:
    found = place_names(marks, [(50, 9)] * len(marks), frame=FRAME)
    for k, name in enumerate(found):
        left, low, right, high = name.box
        assert (right - left, high - low) == pytest.approx((50, 9))
        blocked = any(overlap(name.box, square(m)) for j, m in enumerate(marks) if j != k)
        blocked |= any(overlap(name.box, other.box) for j, other in enumerate(found) if j != k)
        outside = left < -1e-6 or low < -1e-6 or right > 200 + 1e-6 or high > 200 + 1e-6
        assert name.free == (not blocked and not outside)
        assert not overlap(name.box, square(marks[k]))
        near = min(max(marks[k][0], left), right), min(max(marks[k][1], low), high)
        assert name.line_end == (pytest.approx(near) if math.dist(near, marks[k]) > NEAR else None)


def test_a_crowd_in_a_corner_is_named_in_full() -> None:
    """Twelve methods that are nearly alike, where a proof belongs."""
    marks = [(170.0 + 3 * (k % 4), 180.0 + 3 * (k // 4)) for k in range(12)]
    found = place_names(marks, [(60, 9)] * 12, frame=FRAME)
    assert all(name.free for name in found) and any(name.line_end for name in found)


def test_a_single_name_stands_right_of_its_mark_or_left_where_the_frame_ends() -> None:
    (middle,) = place_names([(100, 100)], [(40, 10)], frame=FRAME)
    assert middle == NamePlace((106, 95, 146, 105), None, True)
    (edge,) = place_names([(190, 100)], [(40, 10)], frame=FRAME)
    assert edge.box == (144, 95, 184, 105)


def test_a_name_that_fits_nowhere_says_so() -> None:
    (name,) = place_names([(100, 100)], [(300, 10)], frame=FRAME)
    assert not name.free
    assert place_names([], [], frame=FRAME) == []


def test_the_drawings_scale_does_not_matter() -> None:
    marks = np.random.default_rng(1).uniform(20, 180, (9, 2))
    once = place_names([(x, y) for x, y in marks.tolist()], [(50, 9)] * 9, frame=FRAME)
    larger = place_names(
        [(3 * x, 3 * y) for x, y in marks.tolist()], [(150, 27)] * 9, frame=(0, 0, 600, 600), unit=3
    )
    for a, b in zip(once, larger, strict=True):
        assert [3 * v for v in a.box] == pytest.approx(b.box)


def test_names_avoid_intervals_where_another_place_is_as_near() -> None:
    lines = interval_boxes((100, 100), (60, 140), (100, 100), 1)
    (name,) = place_names([(100, 100)], [(40, 10)], frame=FRAME, lines=lines)
    assert not any(overlap(name.box, line) for line in lines)
    assert interval_boxes((1, 2), None, None, 1) == []


def test_a_name_does_not_stand_where_something_is_written() -> None:
    (free,) = place_names([(50, 50)], [(20, 8)], frame=FRAME)
    (moved,) = place_names([(50, 50)], [(20, 8)], frame=FRAME, taken=[free.box])
    assert moved.free and moved.box != free.box
    left, low, right, high = moved.box
    assert right <= free.box[0] or left >= free.box[2] or high <= free.box[1] or low >= free.box[3]
