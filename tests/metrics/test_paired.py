"""Sign-flip tests agree with scipy, and with counting by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from proofmap.results.compare import _sign_flip_p
from tests.toys import normal


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
