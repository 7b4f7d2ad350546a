"""The figure of bounds: every pair where there are few, medians of columns where there are many."""

from __future__ import annotations

import dataclasses
import math
from statistics import median

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.report.figures import bounds as drawing_of_bounds
from proofmap.report.figures.bounds import bounds_figure
from tests.report.test_bounds import NAN, by_hand, with_areas
from tests.report.test_figures import drawn, words

pytestmark = pytest.mark.usefixtures("drawn_figures")


def many(n: int, methods: int = 2) -> pm.Evaluation:
    """n images of four labels: f, and areas around it."""
    generator = torch.Generator().manual_seed(0)
    f = 10.0 ** (-2.5 * torch.rand(n, 4, generator=generator))
    areas = [f * 2 ** (2 * torch.rand(n, 4, generator=generator) - 1) for _ in range(methods)]
    named = {f"method {k}": a.tolist() for k, a in enumerate(areas)}
    return with_areas(f.tolist(), (f / 3).tolist(), (f * 3).tolist(), named)


def test_few_pairs_stand_alone_by_growing_f() -> None:
    figure = bounds_figure(by_hand())
    assert not figure.is_grouped and figure.pairs == 5
    assert figure.f == pytest.approx((1e-4, 0.005, 0.1, 0.8, 0.8))
    assert figure.low == pytest.approx((5e-4, 1e-4, 0.2, 0.1, 0.1))
    assert figure.high == pytest.approx((0.3, 0.002, 0.5, 0.9, 0.4))
    (marks,) = figure.marks
    assert marks.areas == marks.low == marks.high == pytest.approx((0.004, 0.002, 0.4, 0.4, 0.2))
    assert "5 pairs by growing f." in figure.caption() and "found" in figure.caption()


def test_many_pairs_are_medians_of_columns_with_their_middle_half() -> None:
    evaluation = many(100)
    figure = bounds_figure(evaluation)
    assert figure.is_grouped and figure.pairs == 400 and len(figure.f) == drawing_of_bounds.MOST_COLUMNS
    assert "400 pairs in 30 columns" in figure.caption() and list(figure.f) == sorted(figure.f)
    areas = evaluation["method 1"].insertion.auc.flatten().tolist()
    pairs = sorted(zip(evaluation.f.flatten().tolist(), areas, strict=True))
    first = [area for _, area in pairs[:14]]  # 400 in 30 columns: ten of 14, twenty of 13
    marks = figure.marks[1]
    assert marks.areas[0] == pytest.approx(median(first))
    assert (marks.low[0], marks.high[0]) == pytest.approx(tuple(np.quantile(first, [0.25, 0.75])))
    assert figure.f[-1] == pytest.approx(median(f for f, _ in pairs[-13:]))


def test_the_drawing_shows_the_record_and_cuts_at_the_floor() -> None:
    record = bounds_figure(by_hand())
    assert record.floor == pytest.approx(5e-4)
    assert "Values below .0005 stand at the lower edge." in record.caption()
    figure = drawn(record)
    (axis,) = figure.axes
    assert axis.get_yscale() == "log"
    bars = [(p.get_y(), p.get_y() + p.get_height()) for p in axis.patches]
    assert bars == [
        pytest.approx(ends) for ends in zip((5e-4, 5e-4, 0.2, 0.1, 0.1), record.high, strict=True)
    ]
    (line,) = axis.get_lines()
    assert list(line.get_ydata()) == pytest.approx(record.marks[0].areas)
    dashes = [segment[0][1] for segment in axis.collections[0].get_segments()]
    assert dashes == pytest.approx([5e-4, *record.f[1:]])
    assert "mine" in words(figure)
    assert "lower edge" not in bounds_figure(many(2)).caption()


@pytest.mark.parametrize("thresholds, floor", [("restricted", 0.005), ("appendix", 1e-4)])
def test_the_floor_lies_below_both_thresholds(thresholds: str, floor: float) -> None:
    metrics = pm.default_metrics(thresholds)
    evaluation = with_areas([[0.5]], [[0.1]], [[0.9]], {"mine": [[0.5]]}, metrics=metrics)
    assert bounds_figure(evaluation).floor == pytest.approx(floor)


def test_marks_of_a_column_stand_side_by_side_and_within_it() -> None:
    figure = drawn(bounds_figure(many(50, methods=7)))
    places = [line.get_xdata()[3] for line in figure.axes[0].get_lines()]
    assert places == sorted(places) and len(set(places)) == 7
    assert places[0] > 2.5 and places[-1] < 3.5
    assert len({line.get_color() for line in figure.axes[0].get_lines()}) == 7


def test_more_methods_than_colours_are_said_and_missing_areas_left_out() -> None:
    evaluation = many(3, methods=9)
    caption = bounds_figure(evaluation).caption()
    assert "Shown: 7 of 9 methods." in caption
    first, second, third, *others = evaluation.results
    nothing = torch.full_like(third.insertion.auc, NAN)
    gone = dataclasses.replace(third, insertion=dataclasses.replace(third.insertion, auc=nothing))
    record = bounds_figure(dataclasses.replace(evaluation, results=(first, second, gone, *others[:1])))
    assert all(map(math.isnan, record.marks[0].areas)) and not any(map(math.isnan, record.marks[1].areas))
    assert drawn(record).axes
