"""The interval of a mean: against scipy, against its formula written out, and at its edges."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import numpy as np
import pytest
import scipy
import torch
from hypothesis import given
from hypothesis import strategies as st

from proofmap.reproduce.artifacts import _pooled_interval
from proofmap.results.statistics import mean_interval, mean_intervals, student_quantile
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


def test_the_longer_side_is_that_of_the_longer_tail_and_follows_scale_and_sign() -> None:
    values = torch.tensor([0.01, 0.02, 0.02, 0.05, 0.6], dtype=torch.float64)
    (low, high), mean = mean_interval(values), float(values.mean())
    assert high - mean > 1.5 * (mean - low)
    assert mean_interval(-values) == pytest.approx((-high, -low))
    assert mean_interval(3 * values + 1) == pytest.approx((3 * low + 1, 3 * high + 1))


def test_many_images_have_the_normal_interval() -> None:
    values = torch.from_numpy(np.random.default_rng(0).beta(0.5, 0.3, 20_000))
    mean, half = values.mean().item(), 1.96 * values.std().item() / math.sqrt(20_000)
    assert mean_interval(values) == pytest.approx((mean - half, mean + half), abs=0.01 * half)


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


@given(
    z=st.lists(st.floats(-1, 1), min_size=2, max_size=12),
    spreads=st.tuples(st.floats(0, 0.3), st.floats(0, 0.3)),
    at=st.floats(0.3, 0.7),
)
def test_more_spread_never_makes_a_shorter_interval(
    z: list[float], spreads: tuple[float, float], at: float
) -> None:
    away = np.array(z) - np.mean(z)
    some, more = sorted(spreads)
    for limits in (UNIT, (-math.inf, math.inf)):
        (low, high), (lower, higher) = (
            mean_interval(at + s * away / max(1, np.abs(away).max()), limits=limits) for s in (some, more)
        )
        assert higher - lower >= high - low - 1e-5


def test_limits_only_cut_the_interval() -> None:
    values = 0.103 + 0.001 * np.linspace(-1, 1, 8)
    assert mean_interval(values, limits=UNIT) == mean_interval(values)
    assert mean_interval(values)[1] < 0.105
    low, high = mean_interval([0.1, 0.2, 0.9])
    assert low < 0 and high > 1 and mean_interval([0.1, 0.2, 0.9], limits=UNIT) == UNIT


# ---- continuity: rounding never moves an end ----------------------------------------------------------------------


def interval(values: list[float], limits: tuple[float, float] = UNIT) -> tuple[float, float]:
    return mean_interval(torch.tensor(values, dtype=torch.float64), limits=limits)


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
