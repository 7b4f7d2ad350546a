"""The bounds of theorem 5.1 hold: against every order of a few coordinates, and in simulation."""

from __future__ import annotations

import importlib.util
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proofmap.core.errors import InputError, MissingExtra
from proofmap.theory.linear import MADE, LinearInput, digits, gaussian, languages, signs, spikes
from proofmap.theory.theorem import Population, Rate, constant, simulate, stated_lengths
from tests.theory.certifiers import exact_probabilities

ROUNDING = 1e-12


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=6).filter(lambda values: sum(values) > 0))
def test_bounds_hold_over_all_orders(values: list[int]) -> None:
    z = torch.tensor(values, dtype=torch.float64)
    measured = Population.measured(z)
    for length in range(1, len(values) + 1):
        complete, sound = exact_probabilities(z, length)
        assert 1 - complete <= measured.incomplete(length) + ROUNDING
        assert 1 - sound <= measured.unsound(length) + ROUNDING
        _, sound = exact_probabilities(z, length, wrap=True)
        assert 1 - sound <= measured.unsound(length, wrap=True) + ROUNDING


@pytest.mark.parametrize("name", MADE)
def test_what_is_assumed_covers_what_is_measured(name: str) -> None:
    found = MADE[name](360, 0.3)
    assumed = Population.assumed(360, found.margin, found.bound)
    measured = Population.measured(found.z)
    assert measured.mean == pytest.approx(assumed.mean)
    assert measured.variance <= assumed.variance + 1e-9
    assert measured.below <= assumed.below + 1e-9 and measured.above <= assumed.above + 1e-9


def test_spikes_are_the_worst_case_of_the_variance() -> None:
    found = spikes(900, 0.2, bound=3)
    assert Population.measured(found.z).variance == pytest.approx(9 - found.margin**2)
    with pytest.raises(InputError, match="at least 18"):
        spikes(17, 0.2)


@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0])
def test_bounds_fall_with_length_and_margin(gamma: float) -> None:
    population = Population.assumed(200, gamma, 2.0)
    falling = [population.one_fails(length) for length in range(1, 201)]
    assert falling == sorted(falling, reverse=True) and falling[-1] == 0.0
    larger = [Population.assumed(200, m, 2.0).one_fails(50) for m in (gamma * 0.5, gamma * 0.75, gamma)]
    assert larger == sorted(larger, reverse=True)


def test_least_lengths_are_the_least() -> None:
    population = Population.assumed(500, 0.4, 1.5)
    for delta in (0.2, 0.01):
        first = population.complete_from(delta)
        assert population.incomplete(first) <= delta < population.incomplete(first - 1)
        first = population.sound_from(delta)
        assert population.unsound(first) <= delta < population.unsound(first - 1)
        assert population.sound_from(delta, wrap=True) >= first


def test_the_stated_lengths_follow_the_formula_and_suffice() -> None:
    gamma, delta, d = 0.5, 0.05, 1 << 20
    c = constant(gamma, 10)
    assert c <= 2 * 100 * (1 + gamma / 3)
    first, second = stated_lengths(d, gamma, delta)
    assert first == math.ceil(c / gamma**2 * math.log(1 / delta))
    assert second == math.ceil(c / gamma**2 * math.log(d / delta))
    assumed = Population.assumed(d, gamma, 10.0)
    assert assumed.incomplete(first) <= delta and assumed.unsound(second) <= delta
    assert stated_lengths(50, 0.1, delta) == (50, 50)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("gamma", [0.3, 0.6])
def test_failures_are_rarer_than_delta_at_the_stated_lengths(name: str, gamma: float) -> None:
    found, delta = MADE[name](512, gamma), 0.05
    measured = Population.measured(found.z)
    first, second = stated_lengths(512, found.margin, delta, bound=found.bound)
    lengths = [first, measured.complete_from(delta), second, measured.sound_from(delta)]
    short, shorter, long, longer = simulate(found.z, lengths, trials=300)
    assert max(short.one.value, shorter.one.value) <= delta
    assert max(short.incomplete.value, shorter.incomplete.value) <= delta
    assert max(long.unsound.value, longer.unsound.value) <= delta


def test_short_intervals_are_not_sound() -> None:
    """So that the test above could fail."""
    found = signs(512, 0.3)
    (short,) = simulate(found.z, [10], trials=100)
    assert short.unsound.value > 0.9 and short.incomplete.value == 0.0 and short.one.value > 0.1


def test_without_a_bound_on_coordinates_no_length_up_to_half_is_sound() -> None:
    """One coordinate has all of the margin, the others speak against the label: margin .5, and yet."""
    z = torch.full((100,), -0.001, dtype=torch.float64)
    z[0] = 0.599
    for found in simulate(z, [1, 20, 50], trials=30):
        assert found.unsound.value == 1.0
    assert Population.measured(z).sound_from(0.05) > 50


def test_simulation_agrees_with_exact_counts() -> None:
    z = torch.tensor([1.0, -1.5, 1.0, 2.0, -1.0])
    for length in (1, 2, 3, 4):
        (found,) = simulate(z, [length], trials=4000)
        complete, sound = exact_probabilities(z, length)
        assert found.incomplete.value == pytest.approx(1 - complete, abs=0.03)
        assert found.unsound.value == pytest.approx(1 - sound, abs=0.03)


def test_simulation_depends_on_neither_batches_nor_company(monkeypatch: pytest.MonkeyPatch) -> None:
    z = gaussian(64, 0.2).z
    usual = simulate(z, [4, 16], trials=50, seed=3)
    monkeypatch.setattr("proofmap.theory.theorem._AT_ONCE", 64 * 7)
    assert simulate(z, [16], trials=50, seed=3) == usual[1:]
    assert simulate(z, [4, 16], trials=50, seed=4) != usual


def test_rates_have_wilsons_interval() -> None:
    rate = Rate(10, 100)
    assert (rate.low, rate.high) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))
    assert Rate(0, 5).low == 0.0 and Rate(5, 5).high == 1.0


@pytest.mark.parametrize("name", MADE)
def test_made_inputs_have_unit_norm_and_the_margin(name: str) -> None:
    found = MADE[name](400, 0.25)
    assert found.margin == pytest.approx(0.25, abs=0.03) and found.bound < 10
    assert float(found.z.abs().sum()) <= 1 + 1e-9  # Cauchy and Schwarz, with norms 1
    assert found.z.abs().max() <= found.bound**2 / 400 + 1e-12


def _check_real(found: list[LinearInput]) -> None:
    for one in found:
        assert 0 < one.margin <= 1 and one.bound >= 1
        assert one.z.abs().max() <= one.bound**2 / len(one.z) + 1e-12


def test_digits_are_told_apart_by_a_linear_classifier() -> None:
    found = digits(5, rivals=3)
    _check_real(found)
    assert len(found) == 15 and {len(one.z) for one in found} == {64}
    assert len({one.name.split()[0] for one in found[:3]}) == 1 and len({one.name for one in found[:3]}) == 3


def test_languages_are_told_apart_by_a_linear_classifier() -> None:
    if importlib.util.find_spec("py3langid") is None:
        with pytest.raises(MissingExtra, match=r"proofmap\[theory\]"):
            languages(1)
        pytest.skip("py3langid is not installed")
    found = languages(3, rivals=2)
    _check_real(found)
    assert [one.name.split()[0] for one in found] == ["en", "en", "de", "de", "fr", "fr"]


@pytest.mark.parametrize(
    "gamma, bound, delta, message",
    [
        (0.0, 2.0, 0.1, "margin"),
        (1.5, 2.0, 0.1, "margin"),
        (0.5, 0.9, 0.1, "bound"),
        (0.5, 2.0, 1.0, "delta"),
    ],
)
def test_impossible_settings_are_refused(gamma: float, bound: float, delta: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        stated_lengths(100, gamma, delta, bound=bound)
