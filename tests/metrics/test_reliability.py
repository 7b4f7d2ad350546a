"""Reliability and agreement against scipy, a published example of alpha, and plain loops."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pytest
import scipy
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from torch import Tensor

from proofmap.metrics.metric import RunMetric, RunValues
from proofmap.metrics.reliability import (
    InterMethod,
    InternalConsistency,
    InterRater,
    RankingAgreement,
    concordance,
    krippendorff_alpha,
    mean_correlation,
    mean_ranks,
    pearson,
    spearman,
)
from tests.toys import normal

NAN = math.nan
inter_rater = InterRater().of_score

# ---- correlations -------------------------------------------------------------------------------------------------


def test_ranks_and_correlations_are_scipys_with_ties_and_infinities() -> None:
    a, b = normal(6, 50).mul(3).round(), normal(6, 50, seed=1).round()  # many ties
    a[0, 3], a[1, :4] = torch.inf, -torch.inf
    torch.testing.assert_close(
        mean_ranks(a), torch.from_numpy(scipy.stats.rankdata(a.double().numpy(), axis=1))
    )
    for row, found in enumerate(spearman(a, b).tolist()):
        assert found == pytest.approx(scipy.stats.spearmanr(a[row].numpy(), b[row].numpy()).statistic)
    assert pearson(normal(1, 9), normal(1, 9, seed=2)).item() == pytest.approx(
        scipy.stats.pearsonr(normal(9).numpy(), normal(9, seed=2).numpy()).statistic, rel=1e-5
    )


def test_a_constant_row_has_no_correlation() -> None:
    assert spearman(torch.ones(1, 5), normal(1, 5)).isnan().all()
    assert math.isnan(mean_correlation(torch.ones(4, 1))) and math.isnan(mean_correlation(normal(1, 3)))


# ---- alpha --------------------------------------------------------------------------------------------------------


def test_alpha_is_that_of_krippendorffs_own_example() -> None:
    """Four observers, twelve units, some missing: ordinal alpha .815 (Krippendorff 2011, Computing alpha-reliability)."""
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
    assert krippendorff_alpha(torch.tensor(ratings)) == pytest.approx(0.815, abs=5e-4)


def plain_alpha(ratings: list[list[float]]) -> float:
    """Mean distances over all pairs of ratings, of one thing and of any two."""
    flat = [v for row in ratings for v in row]
    often = {v: flat.count(v) for v in flat}

    def distance(a: float, b: float) -> float:
        a, b = min(a, b), max(a, b)
        return (sum(n for v, n in often.items() if a <= v <= b) - (often[a] + often[b]) / 2) ** 2

    things = list(zip(*ratings, strict=True))
    one = [distance(t[i], t[j]) for t in things for i, j in product(range(len(t)), repeat=2) if i != j]
    every = [distance(flat[i], flat[j]) for i, j in product(range(len(flat)), repeat=2) if i != j]
    return 1 - (sum(one) / len(one)) / (sum(every) / len(every))


def test_alpha_is_that_of_all_pairs() -> None:
    values = np.random.default_rng(0).integers(0, 4, (5, 6)).astype(float)
    assert krippendorff_alpha(torch.from_numpy(values)) == pytest.approx(plain_alpha(values.tolist()))


def test_alpha_is_one_where_images_agree_and_near_zero_where_they_are_noise() -> None:
    order = torch.arange(5.0).expand(30, 5)
    assert inter_rater(order + 10 * normal(30, 1)) == pytest.approx(1.0)  # images differ, orders do not
    assert abs(inter_rater(normal(400, 5))) < 0.03
    assert inter_rater(torch.stack([order[0], -order[0]])) < -0.5
    for nothing in (torch.ones(4, 3), torch.zeros(1, 3), torch.zeros(3, 1)):
        assert math.isnan(krippendorff_alpha(nothing)) and math.isnan(inter_rater(nothing))
    assert math.isnan(krippendorff_alpha(torch.tensor([[1.0, NAN], [NAN, 2.0]])))  # no thing has two ratings


# ---- of a run ----------------------------------------------------------------------------------------------------

VALUES = {
    "a": {"up": normal(9) + 1, "down": -normal(9) - 1},
    "b": {"up": normal(9, seed=1), "down": normal(9, seed=2)},
    "c": {"up": normal(9, seed=3), "down": normal(9, seed=4)},
}


def measured(
    metric: RunMetric, values: dict[str, dict[str, Tensor]] = VALUES
) -> dict[str, tuple[float, int]]:
    return dict(metric.over_run(RunValues(values, {"up": True, "down": False})))


def test_every_number_of_a_run_is_that_of_its_definition() -> None:
    up, down = (
        torch.stack([sign * VALUES[m][k] for m in "abc"], dim=1) for k, sign in (("up", 1), ("down", -1))
    )
    assert {name: value for name, (value, _) in measured(InterRater()).items()} == {
        "up": inter_rater(up),
        "down": inter_rater(down),
    }
    assert measured(RankingAgreement())["up"][0] == concordance(up)
    pairs = [(0, 1), (0, 2), (1, 2)]
    between = [scipy.stats.spearmanr(up[:, i].numpy(), up[:, j].numpy()).statistic for i, j in pairs]
    assert measured(InterMethod())["up"][0] == pytest.approx(np.mean(between))
    within = [scipy.stats.spearmanr(v["up"].numpy(), -v["down"].numpy()).statistic for v in VALUES.values()]
    assert measured(InternalConsistency())["up and down"][0] == pytest.approx(np.mean(within))


def test_images_that_a_method_does_not_count_are_left_out_and_nothing_is_made_up() -> None:
    holed = {m: dict(v) for m, v in VALUES.items()}
    holed["b"]["up"] = VALUES["b"]["up"].clone()
    holed["b"]["up"][2] = NAN
    found = measured(InterRater(), holed)
    assert (found["up"][1], found["down"][1]) == (8, 9)
    none = {m: {"up": v["up"], "down": torch.full((9,), NAN)} for m, v in VALUES.items()}
    assert math.isnan(measured(InterRater(), none)["down"][0])


# ---- agreement -----------------------------------------------------------------------------------------------


tables = st.tuples(st.integers(2, 12), st.integers(3, 6))  # scipy asks for three methods


def from_friedman(values: np.ndarray) -> float:
    """W = chi^2 / (m (k - 1)), with the correction for ties; NaN where all is tied."""
    m, k = values.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # 0 / 0 where all is tied
        return float(scipy.stats.friedmanchisquare(*values.T).statistic) / (m * (k - 1))


@given(tables.flatmap(lambda shape: npst.arrays(np.float64, shape, elements=st.floats(0, 1), unique=True)))
def test_without_ties_it_is_that_of_friedmans_test(values: np.ndarray) -> None:
    assert concordance(torch.from_numpy(values)) == pytest.approx(from_friedman(values))


@given(tables.flatmap(lambda shape: npst.arrays(np.int64, shape, elements=st.integers(0, 3))))
def test_with_ties_it_is_that_of_friedmans_test(values: np.ndarray) -> None:
    found = concordance(torch.from_numpy(values).double())
    if (values == values[:, :1]).all():
        assert math.isnan(found)  # no image has an order
    else:
        assert found == pytest.approx(from_friedman(values.astype(float)), abs=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 1), (5, 0)])
def test_there_is_nothing_to_agree_on_with_one_image_or_one_method(shape: tuple[int, int]) -> None:
    assert math.isnan(concordance(torch.zeros(shape)))
