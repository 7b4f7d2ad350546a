"""The terms of the mask-learning objective, against formulas, finite differences and torch's own."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.methods.grids import smoothing, upsampling
from proofmap.methods.masks.learned import Objective, data_term
from proofmap.methods.masks.method import total_variation
from tests.toys import normal

# ---- enlarging ---------------------------------------------------------------------------------------------

SIDES = [
    (1, 1),
    (1, 7),
    (2, 8),
    (56, 224),
    (28, 224),
    (7, 224),
    (4, 15),
    (5, 13),
    (9, 32),
    (10, 10),
    (75, 299),
]


def plain_interpolation(values: np.ndarray, high: int) -> np.ndarray:
    """Sample i of the fine grid lies at (i + 1/2) low / high - 1/2 of the coarse one; edges are repeated."""
    low = len(values)
    places = (np.arange(high) + 0.5) * low / high - 0.5
    return np.interp(places, np.arange(low), values)


@pytest.mark.parametrize("low, high", SIDES)
def test_enlarging_is_the_plain_formula(low: int, high: int) -> None:
    values = np.random.default_rng(low).standard_normal(low)
    ours = upsampling(low, high).double().numpy() @ values
    np.testing.assert_allclose(ours, plain_interpolation(values, high), atol=1e-6)


@pytest.mark.parametrize("low, high", SIDES)
def test_enlarging_is_torchs_bilinear_without_aligned_corners(low: int, high: int) -> None:
    masks = normal(2, 3, low, low).double()  # in float32 torch rounds the places, by up to 5e-5 of a value
    matrix = upsampling(low, high).double()
    theirs = F.interpolate(masks, size=(high, high), mode="bilinear", align_corners=False)
    torch.testing.assert_close(matrix @ masks @ matrix.T, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("low, high", SIDES)
def test_aligned_corners_are_torchs(low: int, high: int) -> None:
    masks, matrix = normal(2, 3, low, low).double(), upsampling(low, high, corners=True).double()
    theirs = F.interpolate(masks, size=(high, high), mode="bilinear", align_corners=True)
    torch.testing.assert_close(matrix @ masks @ matrix.T, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("side, sigma", [(1, 2.0), (9, 0.0), (9, 0.7), (20, 3.0), (5, 4.0)])
def test_smoothing_is_scipys_gaussian_filter(side: int, sigma: float) -> None:
    line = normal(side, seed=side).double().numpy()
    ours = smoothing(side, sigma).double().numpy() @ line
    expected = (
        scipy.ndimage.gaussian_filter1d(line, sigma, mode="nearest", radius=math.ceil(4 * sigma))
        if sigma
        else line
    )
    np.testing.assert_allclose(ours, expected, atol=1e-6)


# ---- total variation and size ------------------------------------------------------------------------------

Variation = Literal["squared", "absolute"]
WAYS: list[tuple[Variation, bool]] = [
    ("squared", True),
    ("squared", False),
    ("absolute", True),
    ("absolute", False),
]


def plain_variation(mask: np.ndarray, power: Variation, whole: bool) -> float:
    total, (height, width) = 0.0, mask.shape
    for i in range(height):
        for j in range(width):
            if not whole and (i == height - 1 or j == width - 1):
                continue  # the released code looks at the top-left crop only
            down = mask[i, j] - mask[i + 1, j] if i + 1 < height else 0.0
            across = mask[i, j] - mask[i, j + 1] if j + 1 < width else 0.0
            total += down**2 + across**2 if power == "squared" else abs(down) + abs(across)
    return total


@pytest.mark.parametrize("power, whole", WAYS)
@pytest.mark.parametrize("size", [(5, 7), (1, 4), (3, 1), (2, 2)])
def test_total_variation_is_a_sum_over_neighbours(
    power: Variation, whole: bool, size: tuple[int, int]
) -> None:
    masks = normal(2, 3, *size).double()
    ours = total_variation(masks, power=power, border=whole)
    assert ours.shape == (2, 3)
    for k in range(2):
        for m in range(3):
            expected = plain_variation(masks[k, m].numpy(), power, whole)
            assert ours[k, m].item() == pytest.approx(expected, abs=1e-12)


# ---- objectives --------------------------------------------------------------------------------------------


def probabilities(pairs: int, draws: int, labels: int, seed: int = 0) -> Tensor:
    return (2 * normal(pairs, draws, labels, seed=seed)).double().softmax(dim=2)


def plain_objective(p: np.ndarray, label: int, members: list[int], objective: Objective) -> float:
    """For one pair, p ``(D, A)``."""
    if objective == "nll":
        return float(np.mean(-np.log(p[:, label])))
    mean = p.mean(axis=0)
    if objective == "nll-of-mean":
        return -math.log(mean[label])
    return -mean[label] + math.log(sum(math.exp(mean[c]) for c in members))


@pytest.mark.parametrize("objective", ["nll", "nll-of-mean", "released"])
@pytest.mark.parametrize("members", [[0, 1, 2, 3, 4], [1, 3, 4]])
def test_objectives_are_their_formulas(objective: Objective, members: list[int]) -> None:
    p, labels = probabilities(4, 3, 5), torch.tensor([1, 3, 4, 1])
    ours = data_term(p.log(), labels, torch.tensor(members), objective)
    expected = [plain_objective(p[k].numpy(), int(labels[k]), members, objective) for k in range(4)]
    assert ours.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("labels, worst, best", [(6, 2.044, 1.044), (10, 2.461, 1.461), (1000, 6.909, 5.909)])
def test_the_released_objective_is_one_wide(labels: int, worst: float, best: float) -> None:
    """A net that is certain of another label, and one that is certain of this one."""
    certain = torch.full((2, 1, labels), -math.inf)
    certain[0, 0, 1] = certain[1, 0, 0] = 0
    ours = data_term(certain, torch.tensor([0, 0]), torch.arange(labels), "released")
    assert [round(v, 3) for v in ours.tolist()] == [worst, best]


# ---- independent labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["nll", "nll-of-mean", "released"])
def test_objectives_of_independent_labels_are_their_formulas(objective: Objective) -> None:
    p, labels = (2 * normal(4, 3, 5)).double().sigmoid(), torch.tensor([1, 3, 4, 1])
    ours = data_term(p.log(), labels, None, objective).tolist()
    for k, label in enumerate(labels.tolist()):
        own = [float(v) for v in p[k, :, label]]
        mean = sum(own) / 3
        expected = {
            "nll": sum(-math.log(v) for v in own) / 3,
            "nll-of-mean": -math.log(mean),
            "released": -mean + math.log(math.exp(mean) + math.exp(1 - mean)),
        }[objective]
        assert ours[k] == pytest.approx(expected, rel=1e-6)
