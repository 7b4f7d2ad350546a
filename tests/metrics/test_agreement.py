"""Do the images agree on the order of the methods? Kendall's W against Friedman's test in scipy."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from proofmap.metrics import RunValues
from proofmap.metrics.reliability import RankingAgreement, concordance
from tests.toys import normal

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


def test_only_the_order_on_each_image_counts() -> None:
    values = normal(9, 5)
    stretched = values * torch.arange(1, 10)[:, None] + normal(9, 1, seed=1)
    assert concordance(stretched.exp()) == pytest.approx(concordance(values))
    assert concordance(-values) == pytest.approx(concordance(values)), "whichever direction is better"


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 1), (5, 0)])
def test_there_is_nothing_to_agree_on_with_one_image_or_one_method(shape: tuple[int, int]) -> None:
    assert math.isnan(concordance(torch.zeros(shape)))


def test_images_that_do_not_count_for_a_method_are_left_out() -> None:
    table = normal(8, 3)
    holes = table.clone()
    holes[2, 0], holes[5, 1], holes[5, 2] = (torch.nan,) * 3
    run = RunValues(
        {f"method {k}": {"insertion": table[:, k], "effort": holes[:, k]} for k in range(3)},
        {"insertion": True, "effort": True},
    )
    whole, some = RankingAgreement().over_run(run)
    kept = [i for i in range(8) if i not in (2, 5)]
    assert (whole.subject, whole.n, some.subject, some.n) == ("insertion", 8, "effort", 6)
    assert whole.value == pytest.approx(from_friedman(table.numpy()))
    assert some.value == pytest.approx(from_friedman(table[kept].numpy()))
