"""Paired differences agree with scipy, with the plain bootstrap, and with counting by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from proofmap.results.paired import paired_intervals, sign_flip_p
from proofmap.results.statistics import bootstrap_interval
from tests.toys import normal


def test_a_columns_interval_is_the_plain_bootstraps() -> None:
    d = normal(40, 3)
    for column, (low, high) in enumerate(paired_intervals(d, seed=5).tolist()):
        assert (low, high) == pytest.approx(bootstrap_interval(d[:, column], seed=5), abs=1e-9)


def test_images_that_a_column_does_not_count_might_as_well_not_be_there() -> None:
    d = normal(30, 2)
    d[::3, 1] = torch.nan
    both = paired_intervals(d)
    counted = ~d[:, 1].isnan()
    torch.testing.assert_close(both[1:], paired_intervals(d[counted, 1:]))
    torch.testing.assert_close(both[:1], paired_intervals(d[:, :1]))


def test_intervals_are_close_to_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = normal(60, seed=1).double(), normal(60, seed=2).double() + 0.3
    found = paired_intervals((a - b)[:, None])[0].tolist()
    resampled = stats.bootstrap(
        (a.numpy(), b.numpy()),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert found == pytest.approx([resampled.low, resampled.high], abs=0.02)


@pytest.mark.parametrize("n", [1, 3, 8, 12])
def test_all_sign_patterns_of_few_images_are_counted(n: int) -> None:
    d = normal(n, 1, seed=n).double() + 0.4
    values = d[:, 0].tolist()
    far = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) >= abs(sum(values)) - 1e-9
        for signs in product((-1, 1), repeat=n)
    ]
    assert sign_flip_p(d).item() == pytest.approx(sum(far) / 2**n)


def test_p_of_many_images_is_close_to_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    d = normal(50, 3).double() + torch.tensor([0.0, 0.2, 0.6])
    student = stats.ttest_1samp(d.numpy(), 0.0).pvalue
    assert sign_flip_p(d).tolist() == pytest.approx(student.tolist(), abs=0.02)
    assert sign_flip_p(d)[2] >= 1 / 10_001  # never zero: the observed signs are one of the patterns


def test_no_image_means_no_interval_and_no_p() -> None:
    d = torch.full((20, 1), torch.nan)
    assert paired_intervals(d).isnan().all() and sign_flip_p(d).isnan().all()
