"""A mean with its interval: against scipy, against all resamples there are, and without images."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch

from proofmap.results.statistics import (
    Score,
    bootstrap_interval,
    mean_score,
    pooled_interval,
    usual_resamples,
)

NAN = math.nan


@pytest.mark.parametrize("n", [4, 37, 400])
def test_the_interval_is_scipys_percentile_bootstrap(n: int) -> None:
    values = np.random.default_rng(n).beta(0.5, 0.3, n)  # many near 0 and 1, like worst cases
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    low, high = bootstrap_interval(torch.from_numpy(values))
    tolerance = 0.03 * (theirs.high - theirs.low)  # two draws of 10,000 resamples
    assert low == pytest.approx(theirs.low, abs=tolerance)
    assert high == pytest.approx(theirs.high, abs=tolerance)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_interval_is_that_of_all_the_resamples_there_are(level: float) -> None:
    values = [0.1, 0.25, 0.4, 0.7, 0.85, 1.0]
    means = np.array([np.mean(resample) for resample in itertools.product(values, repeat=len(values))])
    expected = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    interval = bootstrap_interval(torch.tensor(values), level=level)
    assert interval == pytest.approx(expected, abs=0.012)


def test_the_interval_is_the_same_every_time_and_depends_on_the_seed() -> None:
    values = torch.linspace(0, 1, 30) ** 3
    assert bootstrap_interval(values) == bootstrap_interval(values.clone())
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_the_interval_does_not_depend_on_how_the_resamples_are_cut_into_blocks() -> None:
    values = torch.linspace(0, 1, 3000)  # 666 resamples at a time
    low, high = bootstrap_interval(values, resamples=2000)
    spread = 1.96 * values.std().item() / math.sqrt(3000)
    assert (low, high) == pytest.approx((0.5 - spread, 0.5 + spread), abs=0.1 * spread)


def test_images_that_do_not_count_do_not_move_the_interval() -> None:
    counted = torch.tensor([0.2, 0.9, 0.4, 0.7])
    spread = torch.tensor([NAN, 0.2, 0.9, NAN, 0.4, 0.7, NAN])
    assert bootstrap_interval(spread) == bootstrap_interval(counted)
    score = mean_score("soundness", spread, higher_is_better=True)
    assert score.n == 4 and score.value == pytest.approx(0.55)


def test_the_interval_over_pairs_is_that_of_all_the_resamples_of_images() -> None:
    rows = [
        [0.13, 0.91, NAN],
        [0.42, NAN, NAN],
        [0.71, 0.24, 0.37],
        [1.0, 0.86, 0.95],
        [NAN, NAN, NAN],
        [0.02, 0.11, NAN],
        [0.55, NAN, 0.68],
    ]
    values = torch.tensor(rows, dtype=torch.float64)
    counted = [[v for v in row if not math.isnan(v)] for row in rows if not math.isnan(row[0])]
    drawn = itertools.product(counted, repeat=len(counted))
    means = [np.mean([v for row in resample for v in row]) for resample in drawn]
    expected = np.quantile(means, [0.025, 0.975])
    assert pooled_interval(values) == pytest.approx(expected, abs=0.012)


def test_labels_of_an_image_are_not_counted_as_images() -> None:
    column = torch.linspace(0, 1, 20)[:, None] ** 2
    once, often = pooled_interval(column), pooled_interval(column.expand(20, 50))
    assert often == pytest.approx(once) and once == pytest.approx(bootstrap_interval(column[:, 0]))
    assert all(map(math.isnan, pooled_interval(column[:1].expand(1, 50))))
    assert all(map(math.isnan, pooled_interval(torch.tensor([[0.1], [math.inf]]))))


def test_one_image_tells_no_spread_and_so_has_no_interval() -> None:
    score = mean_score("insertion", torch.tensor([0.25]), higher_is_better=True)
    assert (score.value, score.n) == (0.25, 1)
    assert math.isnan(score.low) and math.isnan(score.high)
    assert str(score) == "insertion 0.250, n = 1, higher is better"


@pytest.mark.parametrize("values", [torch.zeros(0), torch.tensor([NAN, NAN])])
def test_no_image_has_no_score(values: torch.Tensor) -> None:
    score = mean_score("best-effort", values, higher_is_better=True)
    assert math.isnan(score.value) and math.isnan(score.low) and math.isnan(score.high) and score.n == 0


def test_the_mean_lies_inside_its_interval() -> None:
    score = mean_score("x", torch.linspace(0, 1, 11) ** 2, higher_is_better=False)
    assert score.value == pytest.approx(0.35) and score.low < score.value < score.high


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


def test_the_interval_of_many_images_takes_fewer_resamples_and_is_that_of_the_normal_distribution() -> None:
    n = 20_000
    values = torch.from_numpy(np.random.default_rng(0).beta(0.5, 0.3, n))
    assert usual_resamples(n) == 1_000
    low, high = bootstrap_interval(values)
    mean, spread = values.mean().item(), 1.96 * values.std().item() / math.sqrt(n)
    assert (low, high) == pytest.approx((mean - spread, mean + spread), abs=0.05 * 2 * spread)
    assert (low, high) == bootstrap_interval(values, resamples=1_000)


@pytest.mark.parametrize("n", [2, 500, 2_000])
def test_up_to_two_thousand_images_take_ten_thousand_resamples(n: int) -> None:
    values = torch.linspace(0, 1, n)
    assert bootstrap_interval(values) == bootstrap_interval(values, resamples=10_000)


def test_more_images_never_take_more_resamples_nor_fewer_than_a_thousand() -> None:
    counts = [usual_resamples(n) for n in range(1, 100_000, 37)]
    assert counts == sorted(counts, reverse=True) and counts[-1] == 1_000
    assert all(n * usual_resamples(n) <= 20_000_000 for n in range(2_000, 20_001, 37))
