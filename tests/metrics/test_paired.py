"""Sign-flip tests agree with scipy, and with counting by hand."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from proofmap.results.paired import sign_flip_p
from tests.toys import normal


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


def test_no_image_means_no_p() -> None:
    assert sign_flip_p(torch.full((20, 1), torch.nan)).isnan().all()
