"""Intervals of means, scores and p-values: against scipy, against formulas written out, and in simulated studies."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from statistics import fmean, stdev

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor

from proofmap.reproduce.artifacts import _pooled_interval
from proofmap.results.compare import _holm, _sign_flip_p, _smallest_p, images_needed
from proofmap.results.statistics import (
    NO_LIMITS,
    Limits,
    Score,
    mean_interval,
    mean_intervals,
    student_quantile,
)
from tests.toys import normal

NAN = math.nan
UNIT = (0.0, 1.0)


def written_out(values: list[float], level: float = 0.95) -> tuple[float, float]:
    """Halfway between Student's and Hall's ends, for one list of numbers, by solving Hall's cubic for its statistic."""
    n, mean = len(values), fmean(values)
    error = stdev(values) / math.sqrt(n)
    a = float(scipy.stats.skew(values)) / math.sqrt(n)
    q = float(scipy.stats.t.ppf((1 + level) / 2, n - 1))

    def hall(t: float) -> float:  # z + a z^2 / 3 + a^2 z^3 / 27 + a / 6 = t is monotone in z
        roots = np.roots([a**2 / 27, a / 3, 1, a / 6 - t])
        return float(roots[np.abs(roots.imag).argmin()].real)

    low, high = (mean - error * (t + hall(t)) / 2 for t in (q, -q))
    return low, high


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 19, 200, 999, 1000, 1001, 30_000])
def test_students_quantiles_are_scipys(freedom: int) -> None:
    for p in (0.6, 0.9, 0.975, 0.9995):
        assert student_quantile(p, freedom) == pytest.approx(scipy.stats.t.ppf(p, freedom), rel=1e-7)
    assert math.isnan(student_quantile(0.975, 0))


@pytest.mark.parametrize("n", [3, 5, 12, 60])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_is_its_formula_written_out(n: int, level: float) -> None:
    values = np.random.default_rng(n).beta(0.3, 1.5, n).tolist()
    found = mean_interval(torch.tensor(values, dtype=torch.float64), level=level)
    assert found == pytest.approx(written_out(values, level), rel=1e-12)


def test_each_column_has_the_interval_it_has_alone() -> None:
    d = normal(30, 3).double()
    d[::3, 1] = NAN
    d[1:, 2] = NAN
    both = mean_intervals(d)
    assert both[0] == pytest.approx(mean_intervals(d[:, :1])[0])
    assert tuple(both[1].tolist()) == pytest.approx(mean_interval(d[~d[:, 1].isnan(), 1]))
    assert np.isnan(both[2]).all()  # one image tells no spread


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-math.inf, math.inf)])
def test_equal_values_have_an_interval_without_width(limits: tuple[float, float]) -> None:
    assert mean_interval(torch.full((5,), 0.25), limits=limits) == (0.25, 0.25)
    assert mean_interval(torch.tensor([NAN, 1.0, 1.0]), limits=limits) == (1.0, 1.0)
    rounded = torch.tensor([1.0, 1.0 - 1.2e-7, 1.0 - 2.4e-7])
    low, high = mean_interval(rounded, limits=limits)
    assert low == high == pytest.approx(1.0)
    assert mean_interval(torch.zeros(3)) == (0.0, 0.0)
    low, high = mean_interval(torch.tensor([1e-9, 2e-9, 3e-9]))
    assert low < 2e-9 < high, "small is not equal"


def test_limits_only_cut_the_interval() -> None:
    values = 0.103 + 0.001 * np.linspace(-1, 1, 8)
    assert mean_interval(values, limits=UNIT) == mean_interval(values)
    assert mean_interval(values)[1] < 0.105
    low, high = mean_interval([0.1, 0.2, 0.9])
    assert low < 0 and high > 1 and mean_interval([0.1, 0.2, 0.9], limits=UNIT) == UNIT


# ---- continuity: rounding never moves an end ----------------------------------------------------------------------


def test_no_images_and_infinite_values_have_no_interval() -> None:
    for values in (
        torch.zeros(0),
        torch.tensor([0.3]),
        torch.tensor([NAN, 0.3]),
        torch.tensor([0.1, math.inf]),
    ):
        assert all(map(math.isnan, mean_interval(values)))
    assert mean_intervals(torch.zeros(3, 0)).shape == (0, 2)


# ---- pooled -------------------------------------------------------------------------------------------------------


def test_a_pooled_interval_is_that_of_the_ratios_jackknife_values() -> None:
    """The linear values are the jackknife's pseudo-values up to terms of the order 1 / n."""
    rng = np.random.default_rng(0)
    values = rng.random((400, 4))
    values[rng.random((400, 4)) < 0.4] = NAN
    sums, counts = np.nansum(values, axis=1), (~np.isnan(values)).sum(axis=1)
    sums, counts = sums[counts > 0], counts[counts > 0]
    n, ratio = len(sums), sums.sum() / counts.sum()
    pseudo = n * ratio - (n - 1) * (sums.sum() - sums) / (counts.sum() - counts)
    low, high = written_out(pseudo.tolist())
    assert _pooled_interval(torch.from_numpy(values)) == pytest.approx((low, high), abs=0.02 * (high - low))


def test_labels_of_an_image_are_not_counted_as_images() -> None:
    column = torch.linspace(0, 1, 20)[:, None] ** 2
    once, often = _pooled_interval(column), _pooled_interval(column.expand(20, 50))
    assert often == pytest.approx(once) and once == pytest.approx(mean_interval(column[:, 0]))
    assert all(map(math.isnan, _pooled_interval(column[:1].expand(1, 50))))
    assert all(map(math.isnan, _pooled_interval(torch.tensor([[0.1], [math.inf]]))))
    assert all(map(math.isnan, _pooled_interval(torch.full((3, 2), NAN))))


# ---- scores --------------------------------------------------------------------------------------------------


def test_images_that_do_not_count_do_not_move_the_score() -> None:
    counted = torch.tensor([0.2, 0.9, 0.4, 0.7])
    spread = torch.tensor([NAN, 0.2, 0.9, NAN, 0.4, 0.7, NAN])
    score = Score("soundness").over(spread)
    assert score.n == 4 and score.value == pytest.approx(0.55)
    assert (score.low, score.high) == mean_interval(counted)


def test_one_image_tells_no_spread_and_so_has_no_interval() -> None:
    score = Score("insertion").over(torch.tensor([0.25]))
    assert (score.value, score.n) == (0.25, 1)
    assert math.isnan(score.low) and math.isnan(score.high)
    assert str(score) == "insertion 0.250, n = 1, higher is better"


@pytest.mark.parametrize("values", [torch.zeros(0), torch.tensor([NAN, NAN])])
def test_no_image_has_no_score(values: torch.Tensor) -> None:
    score = Score("best-effort").over(values)
    assert math.isnan(score.value) and math.isnan(score.low) and math.isnan(score.high) and score.n == 0


def test_a_score_prints_and_records_its_direction_and_settings() -> None:
    score = Score("deletion", 0.25, 0.2, 0.3, 7, False, {"fill": "gray", "points": 28})
    assert str(score) == "deletion 0.250 [0.200, 0.300], n = 7, lower is better (fill = gray, points = 28)"
    record = score.record()
    assert record["better"] == "lower" and record["settings"] == {"fill": "gray", "points": 28}
    assert (record["metric"], record["value"], record["low"], record["high"], record["n"]) == (
        "deletion",
        0.25,
        0.2,
        0.3,
        7,
    )


# ---- paired differences --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 8, 12])
def test_all_sign_patterns_of_few_images_are_counted(n: int) -> None:
    d = normal(n, 1, seed=n).double() + 0.4
    values = d[:, 0].tolist()
    far = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) >= abs(sum(values)) - 1e-9
        for signs in product((-1, 1), repeat=n)
    ]
    assert _sign_flip_p(d).item() == pytest.approx(sum(far) / 2**n)


def test_p_of_many_images_is_close_to_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    d = normal(50, 3).double() + torch.tensor([0.0, 0.2, 0.6])
    student = stats.ttest_1samp(d.numpy(), 0.0).pvalue
    assert _sign_flip_p(d).tolist() == pytest.approx(student.tolist(), abs=0.02)
    assert _sign_flip_p(d)[2] >= 1 / 10_001  # never zero: the observed signs are one of the patterns


def test_no_image_means_no_p() -> None:
    assert np.isnan(_sign_flip_p(np.full((20, 1), np.nan))).all()


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 3])
def test_random_signs_are_those_that_torch_draws(seed: int) -> None:
    """p-values of runs that were compared by torch stay the same to the last digit."""
    d = normal(17, 3).double() + torch.tensor([0.0, 0.1, 0.3])
    generator = torch.Generator().manual_seed(seed)
    signs = 2.0 * torch.randint(2, (500, 17), generator=generator).double() - 1
    reached = ((signs @ d).abs() >= d.sum(dim=0).abs() * (1 - 1e-9)).sum(dim=0)
    assert _sign_flip_p(d, resamples=500, seed=seed).tolist() == ((reached.double() + 1) / 501).tolist()


# ---- in simulated studies ------------------------------------------------------------------------------------


Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def mostly_one(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.7, 1.0, rng.random(shape))


def half_zero(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.5, 0.0, rng.beta(0.5, 0.5, shape) - rng.beta(2, 2, shape))


SHARES, FREE = (0.0, 1.0), NO_LIMITS
DRAWS: dict[str, tuple[Draw, float, Limits]] = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0, FREE),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5, SHARES),
    "two ends": (lambda rng, shape: rng.beta(0.5, 0.3, shape), 0.5 / 0.8, SHARES),  # as worst cases are
    "near zero": (lambda rng, shape: rng.beta(0.5, 2, shape), 0.2, SHARES),
    "near one": (lambda rng, shape: rng.beta(8, 1.5, shape), 8 / 9.5, SHARES),
    "mostly one": (mostly_one, 0.85, SHARES),
    "at zero": (lambda rng, shape: rng.beta(0.3, 3, shape), 1 / 11, SHARES),
    "exponential": (lambda rng, shape: rng.exponential(1.0, shape), 1.0, FREE),
    "differences": (
        lambda rng, shape: rng.beta(2, 2, shape) - rng.beta(0.5, 2, shape),
        0.3,
        FREE,
    ),
    "half zero": (half_zero, 0.0, FREE),
}


def drawn(name: str, n: int, studies: int, seed: int = 0) -> tuple[Tensor, float]:
    """Values ``(n, studies)`` of as many studies, and the mean that they come from."""
    draw, mean, _ = DRAWS[name]
    return torch.from_numpy(draw(np.random.default_rng(seed), (n, studies))), mean


def coverage(ends: np.ndarray, mean: float) -> float:
    return float(((ends[:, 0] <= mean) & (mean <= ends[:, 1])).mean())


# ---- intervals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("n", [10, 20, 50])
def test_intervals_cover_the_truth_in_95_of_100_studies(name: str, n: int) -> None:
    values, mean = drawn(name, n, 8000)
    assert 0.92 <= coverage(mean_intervals(values, limits=DRAWS[name][2]), mean) <= 0.98


def test_a_mean_over_pairs_is_covered_too() -> None:
    """Labels of an image are alike, and images have one to four that count, fewer where values are large."""
    rng = np.random.default_rng(0)
    for n in (10, 40):
        common = rng.beta(0.5, 1, (4_000, n, 1))
        values = torch.from_numpy(0.7 * common + 0.3 * rng.random((4_000, n, 4)))
        most = torch.from_numpy(4 - rng.binomial(3, common))
        values = values.masked_fill(torch.arange(4) >= most, torch.nan)
        truth = float(values.nansum() / (~values.isnan()).sum())
        ends = np.array([_pooled_interval(study) for study in values[:400]])
        assert 0.92 <= coverage(ends, truth) <= 0.98


# ---- p-values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 25])
def test_p_is_uniform_where_two_methods_are_alike(n: int) -> None:
    values, _ = drawn("normal", n, 4000, seed=n)
    p = _sign_flip_p(values, resamples=2000)
    for level in (0.01, 0.05, 0.2, 0.5, 0.9):
        within = 4 * (level * (1 - level) / len(p)) ** 0.5 + 2.0 ** (1 - n)
        assert float((p <= level).mean()) == pytest.approx(level, abs=within)


def test_p_is_never_too_small_where_differences_are_few_or_tied() -> None:
    rng = np.random.default_rng(0)
    tied = rng.integers(-1, 2, (8, 4000))
    assert float((_sign_flip_p(tied) <= 0.05).mean()) <= 0.06
    assert _smallest_p(8) == _sign_flip_p(np.ones((8, 1))).item() and _smallest_p(0) == 1.0
    assert _smallest_p(30, 2000) == _sign_flip_p(np.ones((30, 1)), resamples=2000).item()


def test_holm_is_the_step_down_rule_and_does_not_count_nan() -> None:
    def plain(p: list[float]) -> list[float]:
        corrected, largest = [0.0] * len(p), 0.0
        for place, k in enumerate(sorted(range(len(p)), key=p.__getitem__)):
            largest = max(largest, min(1.0, (len(p) - place) * p[k]))
            corrected[k] = largest
        return corrected

    p = np.random.default_rng(1).random(20).tolist()
    assert _holm(p).tolist() == pytest.approx(plain(p))
    assert _holm([0.01, np.nan, 0.02]).tolist() == pytest.approx([0.02, np.nan, 0.02], nan_ok=True)
    assert _holm([]).shape == (0,) and np.isnan(_holm([np.nan])).all()


def test_of_a_hundred_tables_without_a_difference_five_have_a_decided_line() -> None:
    values, _ = drawn("normal", 20, 10 * 400)
    p = _sign_flip_p(values, resamples=2000).reshape(400, 10)
    some = np.stack([_holm(table) for table in p]).min(axis=1) < 0.05
    assert 0.02 <= float(some.mean()) <= 0.08
    assert float((p.min(axis=1) < 0.05).mean()) > 0.3  # uncorrected


# ---- how many images ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("difference, comparisons", [(0.5, 1), (0.8, 1), (0.5, 6)])
def test_theimages_needed_decide_in_four_of_five_studies(difference: float, comparisons: int) -> None:
    n = images_needed(difference, 1.0, comparisons=comparisons)
    values, _ = drawn("normal", n, 1500, seed=n)
    p = _sign_flip_p(values + difference, resamples=2000)
    assert 0.75 <= float((p < 0.05 / comparisons).mean()) <= 0.87
