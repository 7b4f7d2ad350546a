"""From a curve to one number: the paper's mean over all s, the released sum, RISE's trapezoid."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from proofmap.core.errors import InputError
from proofmap.metrics import make_game
from proofmap.metrics.games import Nodes, Quadrature, Rule

PHOTO = 224 * 224
RULES: tuple[Rule, ...] = ("mean", "right", "trapezoid")

rules = st.sampled_from(RULES)
sizes = st.integers(1, 400)
points = st.one_of(st.just("all"), st.integers(1, 60))
ranges = st.tuples(st.integers(0, 99), st.integers(1, 100)).filter(lambda r: r[0] < r[1])


def area(nodes: Nodes, p: np.ndarray) -> float:
    """The number that nodes make of a curve given at every count 0 .. n."""
    return float(nodes.weights.numpy() @ p[nodes.counts.numpy()])


def error(nodes: Nodes, p: np.ndarray) -> float:
    return abs(float((nodes.weights - nodes.coarse).numpy() @ p[nodes.counts.numpy()]))


# ---- the definition ----------------------------------------------------------------------------------------


@given(n=sizes, seed=st.integers(0, 9))
def test_with_all_points_it_is_the_mean_over_s_from_1_to_n(n: int, seed: int) -> None:
    p = np.random.default_rng(seed).random(n + 1)
    for rule in ("mean", "right"):
        assert area(Quadrature(points="all", rule=rule).nodes(n), p) == pytest.approx(p[1:].mean(), abs=1e-12)


@given(n=sizes, steps=st.integers(1, 60), seed=st.integers(0, 9))
def test_a_curve_that_is_linear_between_the_points_is_summed_exactly(n: int, steps: int, seed: int) -> None:
    nodes = Quadrature(points=steps).nodes(n)
    values = np.random.default_rng(seed).random(len(nodes.counts))
    p = np.interp(np.arange(n + 1), nodes.counts.numpy(), values)
    assert area(nodes, p) == pytest.approx(p[1:].mean(), abs=1e-12)


@given(n=st.integers(5, 400), steps=points, share=ranges, seed=st.integers(0, 9))
@example(n=100, steps="all", share=(29, 58), seed=0)  # 100 * 0.29 is 28.999999999999996
def test_a_range_means_the_counts_above_its_low_end_up_to_its_high_end(
    n: int, steps: int | str, share: tuple[int, int], seed: int
) -> None:
    low, high = (Fraction(s, 100) * n // 1 for s in share)
    quadrature = Quadrature(points=steps, within=(share[0] / 100, share[1] / 100))  # type: ignore[arg-type]
    if high == low:
        with pytest.raises(InputError, match="holds none"):
            quadrature.nodes(n)
        return
    nodes = quadrature.nodes(n)
    values = np.random.default_rng(seed).random(len(nodes.counts))
    p = np.interp(np.arange(n + 1), nodes.counts.numpy(), values)
    assert area(nodes, p) == pytest.approx(p[int(low) + 1 : int(high) + 1].mean(), abs=1e-12)


@given(n=sizes, steps=points, rule=rules)
def test_counts_are_distinct_whole_numbers_and_weights_sum_to_one(
    n: int, steps: int | str, rule: Rule
) -> None:
    nodes = Quadrature(points=steps, rule=rule).nodes(n)  # type: ignore[arg-type]
    counts = nodes.counts.tolist()
    assert counts == sorted(set(counts)) and counts[-1] == n
    assert counts[0] > 0 if rule == "right" else counts[0] == 0
    assert nodes.counts.dtype == torch.int64
    for weights in (nodes.weights, nodes.coarse):
        assert bool((weights >= 0).all()) and weights.sum().item() == pytest.approx(1, abs=1e-12)


# ---- other people's sums -----------------------------------------------------------------------------------


def test_the_released_sum_takes_28_points_of_1792_pixels_each() -> None:
    nodes = make_game("insertion", curve="released").quadrature.nodes(PHOTO)
    assert nodes.counts.tolist() == [1792 * j for j in range(1, 29)]
    assert nodes.weights.tolist() == pytest.approx([1 / 28] * 28)


def test_rise_is_the_trapezoid_over_29_points() -> None:
    nodes = make_game("insertion", curve="rise").quadrature.nodes(PHOTO)
    assert nodes.counts.tolist() == [1792 * j for j in range(29)]
    p = np.random.default_rng(0).random(PHOTO + 1)
    taken = p[::1792]
    assert area(nodes, p) == pytest.approx((taken.sum() - taken[0] / 2 - taken[-1] / 2) / 28, abs=1e-12)


def test_the_three_sums_of_a_square_root() -> None:
    """Exact .6667; with 28 points the plain mean gives .6832 and the trapezoid .6653."""
    p = np.sqrt(np.arange(PHOTO + 1) / PHOTO)
    sums = [
        area(make_game("insertion", curve=name).quadrature.nodes(PHOTO), p) for name in ("released", "rise")
    ]
    assert [round(s, 4) for s in sums] == [0.6832, 0.6653]
    exact = area(Quadrature(points="all").nodes(PHOTO), p)
    assert exact == pytest.approx(2 / 3, abs=2e-5)
    paper = make_game("insertion", curve="paper").quadrature.nodes(PHOTO)
    assert abs(area(paper, p) - exact) <= error(paper, p) < 0.003


def test_the_released_range_from_2_to_6_tenths_holds_points_6_to_16_of_28() -> None:
    nodes = Quadrature(points=28, rule="right", within=(0.2, 0.6)).nodes(PHOTO)
    assert nodes.counts.tolist() == [1792 * j for j in range(6, 17)]
    assert nodes.weights.tolist() == pytest.approx([1 / 11] * 11)


@pytest.mark.parametrize("rule", ["mean", "right"])
def test_the_papers_range_on_cifar_is_every_s_from_205_to_614(rule: Rule) -> None:
    nodes = Quadrature(points="all", rule=rule, within=(0.2, 0.6)).nodes(1024)
    counted = nodes.counts[nodes.weights > 0]
    assert counted.tolist() == list(range(205, 615))
    assert nodes.weights[nodes.weights > 0].tolist() == pytest.approx([1 / 410] * 410)


def test_the_preset_restricted_is_that_range() -> None:
    p = np.random.default_rng(1).random(1025).cumsum()
    p /= p[-1]
    nodes = make_game("insertion", curve="restricted").quadrature.nodes(1024)
    assert (nodes.counts[0].item(), nodes.counts[-1].item()) == (204, 614)
    assert area(nodes, p) == pytest.approx(p[205:615].mean(), abs=1e-3)


# ---- the error told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["mean", "trapezoid"])
def test_a_straight_curve_has_no_step_error(rule: Rule) -> None:
    for steps in (1, 2, 7, 32):
        assert error(Quadrature(points=steps, rule=rule).nodes(1000), np.linspace(0.1, 0.9, 1001)) < 1e-12


@pytest.mark.parametrize("rule", RULES)
def test_the_step_error_compares_with_every_second_point(rule: Rule) -> None:
    """With 32 and 16 points over 320 counts the coarse rule is the same rule with half the points."""
    fine, half = (Quadrature(points=k, rule=rule).nodes(320) for k in (32, 16))
    p = np.random.default_rng(3).random(321)
    assert error(fine, p) == pytest.approx(abs(area(fine, p) - area(half, p)), abs=1e-12)


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [(0.6, 0.2), (0.0, 1.5)])
def test_bad_ranges_are_named(within: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="range of shares"):
        Quadrature(within=within)


def test_the_released_range_is_not_moved_by_rounding() -> None:
    nodes = Quadrature(points=100, rule="right", within=(0.29, 0.58)).nodes(100)
    assert nodes.counts.tolist() == list(range(30, 59))


def test_a_range_without_a_point_is_refused() -> None:
    with pytest.raises(InputError, match=r"holds none of 4 points"):
        Quadrature(points=4, rule="right", within=(0.3, 0.4)).nodes(1000)
    with pytest.raises(InputError, match=r"holds none of 3 positions"):
        Quadrature(within=(0.0, 0.2)).nodes(3)
