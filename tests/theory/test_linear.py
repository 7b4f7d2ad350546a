"""The linear case: certifiers against brute force, and what the paper says of them."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proofmap.core.errors import InputError
from proofmap.theory.linear import contributions
from proofmap.theory.theorem import Sign, greedy_reach, interval_sums, number_of_sets
from tests.theory.certifiers import best_interval, certifying_intervals, exact_probabilities, greedy_set, tv

whole_numbers = st.lists(st.integers(-9, 9), min_size=1, max_size=9)


def _sets_with_tv_2(d: int, length: int) -> list[tuple[int, ...]]:
    """Every set of that size with TV <= 2, by trying all sets."""

    def changes(chosen: tuple[int, ...]) -> int:
        return sum((i in chosen) != (i + 1 in chosen) for i in range(d - 1))

    return [chosen for chosen in combinations(range(d), length) if changes(chosen) <= 2]


@given(whole_numbers, st.data())
def test_the_search_is_exact_against_brute_force(values: list[int], data: st.DataObject) -> None:
    z, d = torch.tensor(values, dtype=torch.float64), len(values)
    length = data.draw(st.integers(1, d))
    for wrap in (False, True):
        sets = [s for s in _sets_with_tv_2(d, length) if wrap or s == tuple(range(s[0], s[0] + length))]
        sums = sorted(sum(values[i] for i in s) for s in sets)
        assert sorted(interval_sums(z, length, wrap=wrap).tolist()) == sums
        assert number_of_sets(d, length, wrap=wrap) == len(sets)
        labels: tuple[Sign, Sign] = (1, -1)
        for label in labels:
            certifying = sum(label * s > 0 for s in sums)
            assert certifying_intervals(z, length, label=label, wrap=wrap).item() == certifying
            first = int(best_interval(z, length, label=label, wrap=wrap))
            if certifying:
                found = sum(values[(first + k) % d] for k in range(length))
                assert label * found == max(label * s for s in sums)
            else:
                assert first == -1


def test_sums_that_are_nothing_but_rounding_certify_nothing() -> None:
    z = torch.tensor([0.1, 0.2, -0.3] * 50, dtype=torch.float64)
    assert (interval_sums(z, 3) == 0).all() and best_interval(z, 3) == -1


def test_batches_are_searched_row_by_row() -> None:
    z = torch.randn(4, 3, 20, generator=torch.Generator().manual_seed(0))
    one_by_one = torch.stack([best_interval(row, 6) for row in z.flatten(0, 1)]).unflatten(0, (4, 3))
    assert torch.equal(best_interval(z, 6), one_by_one)


def test_a_complement_of_an_interval_has_tv_2_though_it_is_no_interval() -> None:
    """The paper takes TV(S) <= 2 for "S is an interval"."""
    inside = torch.tensor([True, True, False, False, True])
    assert tv(inside) == 2
    z = torch.tensor([1.0, 1.0, -2.0, -2.0, 3.0])
    assert best_interval(z, 3) == -1 and best_interval(z, 3, wrap=True) == 4  # 3 + 1 + 1


@given(whole_numbers)
def test_greedy_certifies_both_labels_up_to_its_reach(values: list[int]) -> None:
    z = torch.tensor(values, dtype=torch.float64)
    labels: tuple[Sign, Sign] = (1, -1)
    for label in labels:
        certified = [
            label * int(z[greedy_set(z, length, label=label)].sum()) > 0
            for length in range(1, len(values) + 1)
        ]
        reach = int(greedy_reach(z, label=label))
        assert certified == [length <= reach for length in range(1, len(values) + 1)]
        for length in range(1, len(values) + 1):  # no set of that size does better
            best = max(sum(label * values[i] for i in s) for s in combinations(range(len(values)), length))
            assert label * int(z[greedy_set(z, length, label=label)].sum()) == best


@given(whole_numbers.filter(lambda values: sum(values) > 0))
def test_completeness_is_certain_where_the_length_divides_d_and_on_the_circle(values: list[int]) -> None:
    z, d = torch.tensor(values, dtype=torch.float64), len(values)
    assert int(greedy_reach(z, label=1)) == d
    for length in range(1, d + 1):
        assert best_interval(z, length, wrap=True) >= 0
        if d % length == 0:
            assert best_interval(z, length) >= 0


def test_completeness_is_not_certain_otherwise() -> None:
    z = torch.tensor([1.0, -1.5, 1.0])
    assert z.sum() > 0 and best_interval(z, 2) == -1


def test_probabilities_over_all_orders_are_counted() -> None:
    complete, sound = exact_probabilities(torch.tensor([1.0, -1.5, 1.0]), 2)
    assert (complete, sound) == (pytest.approx(2 / 3), 0.0)  # only - in the middle hides from both intervals
    assert exact_probabilities(torch.tensor([3.0, -1.0, 2.0]), 2) == (1.0, 1.0)


def test_contributions_speak_for_the_predicted_label() -> None:
    w, x = torch.randn(2, 5, 30, generator=torch.Generator().manual_seed(1))
    z = contributions(w, x)
    assert torch.allclose(z.sum(1), torch.nn.functional.cosine_similarity(w, x).abs().double(), atol=1e-6)
    with pytest.raises(InputError, match="not 0"):
        contributions(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("length", [0, 4])
def test_impossible_lengths_are_refused(length: int) -> None:
    with pytest.raises(InputError, match="between 1 and 3"):
        interval_sums(torch.ones(3), length)
