"""What the statistics promise, held against simulations: intervals cover, p-values are uniform, power is what is said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from proofmap.reproduce.artifacts import _pooled_interval
from proofmap.results.compare import _holm, _images_needed, _sign_flip_p, _smallest_p
from proofmap.results.statistics import NO_LIMITS, Limits, mean_intervals

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def mostly_one(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.7, 1.0, rng.random(shape))


def half_zero(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.5, 0.0, rng.beta(0.5, 0.5, shape) - rng.beta(2, 2, shape))


UNIT, FREE = (0.0, 1.0), NO_LIMITS
DRAWS: dict[str, tuple[Draw, float, Limits]] = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0, FREE),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5, UNIT),
    "two ends": (lambda rng, shape: rng.beta(0.5, 0.3, shape), 0.5 / 0.8, UNIT),  # as worst cases are
    "near zero": (lambda rng, shape: rng.beta(0.5, 2, shape), 0.2, UNIT),
    "near one": (lambda rng, shape: rng.beta(8, 1.5, shape), 8 / 9.5, UNIT),
    "mostly one": (mostly_one, 0.85, UNIT),
    "at zero": (lambda rng, shape: rng.beta(0.3, 3, shape), 1 / 11, UNIT),
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
def test_the_images_needed_decide_in_four_of_five_studies(difference: float, comparisons: int) -> None:
    n = _images_needed(difference, 1.0, comparisons=comparisons)
    assert n is not None
    values, _ = drawn("normal", n, 1500, seed=n)
    p = _sign_flip_p(values + difference, resamples=2000)
    assert 0.75 <= float((p < 0.05 / comparisons).mean()) <= 0.87
