"""A mean with its interval: what counts, what is printed, and no images at all."""

from __future__ import annotations

import math

import pytest
import torch

from proofmap.results.statistics import Score, mean_interval, mean_score

NAN = math.nan


def test_images_that_do_not_count_do_not_move_the_score() -> None:
    counted = torch.tensor([0.2, 0.9, 0.4, 0.7])
    spread = torch.tensor([NAN, 0.2, 0.9, NAN, 0.4, 0.7, NAN])
    score = mean_score("soundness", spread, higher_is_better=True)
    assert score.n == 4 and score.value == pytest.approx(0.55)
    assert (score.low, score.high) == mean_interval(counted)


def test_one_image_tells_no_spread_and_so_has_no_interval() -> None:
    score = mean_score("insertion", torch.tensor([0.25]), higher_is_better=True)
    assert (score.value, score.n) == (0.25, 1)
    assert math.isnan(score.low) and math.isnan(score.high)
    assert str(score) == "insertion 0.250, n = 1, higher is better"


@pytest.mark.parametrize("values", [torch.zeros(0), torch.tensor([NAN, NAN])])
def test_no_image_has_no_score(values: torch.Tensor) -> None:
    score = mean_score("best-effort", values, higher_is_better=True)
    assert math.isnan(score.value) and math.isnan(score.low) and math.isnan(score.high) and score.n == 0


def test_a_score_prints_and_records_its_direction_and_settings() -> None:
    score = Score("deletion", 0.25, 0.2, 0.3, 7, False, {"fill": "gray", "points": 28})
    assert str(score) == "deletion 0.250 [0.200, 0.300], n = 7, lower is better (fill = gray, points = 28)"
    record = score.record()
    assert record["better"] == "lower" and record["settings"] == {"fill": "gray", "points": 28}
    assert (record["score"], record["value"], record["low"], record["high"], record["n"]) == (
        "deletion",
        0.25,
        0.2,
        0.3,
        7,
    )
