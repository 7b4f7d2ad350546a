"""One proof at a glance: its numbers against plain loops over the curve, and what its words say, case by case."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from proofmap.results.proof_shape import ProofShape, shape_of
from tests.report.pages import judged


def shape(
    f: float, average: float, peak: float, *, reach: float | None = 0.1, completeness: float = 1.0
) -> ProofShape:
    soundness = min(max(f, 0.001) / average, 1.0) if average else 1.0
    return ProofShape(f, average, peak, reach, completeness, soundness, peak / max(f, 0.001))


def test_numbers_are_those_of_a_loop_over_the_curve() -> None:
    found = judged(2, 8, methods=["gradient", "random"], labels="top3", metrics=["completeness", "soundness"])
    for result in found.results:
        curves = result.insertion
        for i in range(2):
            for j in range(3):
                points = [
                    (int(c) / curves.positions, float(p))
                    for c, p in zip(curves.counts, curves.probabilities[i, j], strict=True)
                    if c > 0
                ]
                f = float(found.f[i, j])
                there = [share for share, p in points if p >= 0.9 * f]
                got = shape_of(found, result, i, j)
                assert got.peak == pytest.approx(max(p for _, p in points))
                assert got.reach == pytest.approx(min(there, default=1.0))
                assert (got.belief, got.average) == (f, float(curves.auc[i, j]))
                assert got.overshoot == pytest.approx(got.peak / f)


def test_a_label_that_the_net_does_not_believe_has_no_reach() -> None:
    found = judged(1, 8, methods=["gradient"], labels="top2")
    unbelieved = replace(found, f=found.f * 0 + 0.002)
    assert shape_of(unbelieved, found.results[0], 0, 0).reach is None


@pytest.mark.parametrize(
    "given, said",
    [
        (shape(0.39, 0.43, 0.45), "on average as strong as the belief"),
        (shape(0.39, 0.43, 0.74), "on average as strong as the belief, peak 1.9 times"),
        (shape(0.5, 0.23, 0.45, completeness=0.46), "too weak: on average 46 % of the belief"),
        (shape(0.5, 0.3999, 0.45, completeness=0.7998), "too weak: on average 79 % of the belief"),
        (shape(0.3, 0.6, 0.95), "too strong: on average 2.0 times the belief, peak 3.2 times"),
        (shape(0.002, 0.2, 0.6, reach=None), "proves too much: 20 % on average, at most 60 %"),
        (
            shape(0.002, 0.8, 0.999, reach=None),
            "proves too much: 80 % on average, more than 99 % at its peak",
        ),
        (shape(0.0002, 0.0005, 0.001, reach=None), "no proof, as it should be: always below 1 %"),
        (shape(0.002, 0.002, 0.3, reach=None), "no proof on average, but 30 % at its peak"),
        (shape(0.5, 0.5, 0.5, completeness=math.nan), "not judged"),
    ],
)
def test_the_words_say_what_the_curve_does(given: ProofShape, said: str) -> None:
    assert given.summary == said


def test_the_bar_of_a_terminal_shows_average_belief_and_peak() -> None:
    assert shape(0.5, 0.5, 0.5).text(10) == "█████│····"
    assert shape(0.0, 0.3, 0.9).text(10) == "│██──────·"
    assert shape(1.0, 1.0, 1.0).text(10) == "█████████│"
    assert shape(math.nan, math.nan, math.nan).text(4) == "····"
