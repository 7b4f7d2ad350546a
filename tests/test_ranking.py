"""Ranks: what a plain sort gives, unmoved by monotone transforms, with ties decided as declared."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.ranking import Ties, center_distance, keep_top, rank
from proofmap.core.streams import key_of

# few distinct values, so that ties are common
values = st.sampled_from([-math.inf, -2.5, -1.0, -0.0, 0.0, 1e-30, 1.0, 7.0, math.inf])


@st.composite
def stacks(draw: st.DrawFn, elements: st.SearchStrategy[float] = values) -> Tensor:
    """Some maps (P, *positions) with one to three axes of positions."""
    shape = [draw(st.integers(1, 3)), *draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))]
    n = math.prod(shape)
    return torch.tensor(draw(st.lists(elements, min_size=n, max_size=n))).view(shape)


def ranks_by_a_plain_sort(row: list[float], tie_order: list[float]) -> list[int]:
    """Largest first; among equals the smallest ``tie_order`` first, and then the first index."""
    order = sorted(range(len(row)), key=lambda i: (-row[i], tie_order[i], i))
    ranks = [0] * len(row)
    for place, i in enumerate(order):
        ranks[i] = place
    return ranks


def distance_to_the_middle(index: int, positions: list[int]) -> float:
    total = 0.0
    for length in reversed(positions):
        index, place = divmod(index, length)
        total += (place - (length - 1) / 2) ** 2
    return total


@given(maps=stacks())
def test_ranks_are_those_of_a_plain_sort(maps: Tensor) -> None:
    ranks = rank(maps)
    rows = maps.flatten(1).tolist()
    assert ranks.dtype == torch.int32
    assert ranks.tolist() == [ranks_by_a_plain_sort(row, [0] * len(row)) for row in rows]


@given(maps=stacks())
def test_center_ties_go_to_the_position_nearest_to_the_middle(maps: Tensor) -> None:
    positions = list(maps.shape[1:])
    distance = [distance_to_the_middle(i, positions) for i in range(math.prod(positions))]
    assert center_distance(positions, maps.device).flatten().tolist() == distance
    expected = [ranks_by_a_plain_sort(row, distance) for row in maps.flatten(1).tolist()]
    assert rank(maps, ties="center").tolist() == expected


@given(maps=stacks(), seed=st.integers(0, 10))
def test_random_ties_order_only_what_is_equal(maps: Tensor, seed: int) -> None:
    keys = torch.tensor([key_of(seed, i) for i in range(len(maps))])
    ranks = rank(maps, ties="random", keys=keys)
    for row, order in zip(maps.flatten(1).tolist(), ranks.tolist(), strict=True):
        assert sorted(order) == list(range(len(row)))
        by_rank = [value for _, value in sorted(zip(order, row, strict=True))]
        assert by_rank == sorted(row, reverse=True)


@given(maps=stacks(), ties=st.sampled_from(["index", "random", "center"]))
def test_monotone_transforms_change_nothing(maps: Tensor, ties: Ties) -> None:
    keys = torch.arange(len(maps))
    expected = rank(maps, ties=ties, keys=keys)
    finite = maps.clamp(-100, 100)
    for changed in (finite * 3 + 8, finite.double().exp(), finite.double() ** 3, finite.atan()):
        # a transform that rounds two values together is not monotone any more
        if all(len(set(a)) == len(set(b)) for a, b in _distinct(maps, changed)):
            assert torch.equal(rank(changed, ties=ties, keys=keys), expected)


def _distinct(maps: Tensor, changed: Tensor) -> list[tuple[list[float], list[float]]]:
    return list(zip(maps.flatten(1).tolist(), changed.flatten(1).tolist(), strict=True))


@given(maps=stacks(), ties=st.sampled_from(["index", "random", "center"]))
def test_a_map_is_ranked_the_same_alone_in_a_batch_and_again(maps: Tensor, ties: Ties) -> None:
    keys = torch.tensor([key_of(i) for i in range(len(maps))])
    together = rank(maps, ties=ties, keys=keys)
    assert torch.equal(rank(maps, ties=ties, keys=keys), together)
    for i in range(len(maps)):
        assert torch.equal(rank(maps[i : i + 1], ties=ties, keys=keys[i : i + 1])[0], together[i])


def test_random_ties_depend_on_the_key_and_are_uniform() -> None:
    flat = torch.zeros(2000, 4)
    ranks = rank(flat, ties="random", keys=torch.arange(2000))
    first = (ranks == 0).float().mean(dim=0)  # how often each position comes first
    assert first.tolist() == pytest.approx([0.25] * 4, abs=0.04)
    equal = rank(flat[:2], ties="random", keys=torch.tensor([5, 5]))
    assert torch.equal(equal[0], equal[1])


def test_random_ties_need_keys() -> None:
    with pytest.raises(InputError, match="one stream key per map"):
        rank(torch.zeros(1, 4), ties="random")


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InputError, match="ties must be one of index, random, center, not 'first'"):
        rank(torch.zeros(1, 4), ties="first")  # type: ignore[arg-type]


@pytest.mark.parametrize("ties", ["index", "random", "center"])
def test_a_map_with_nan_cannot_be_ranked_and_is_named(ties: Ties) -> None:
    maps = torch.zeros(3, 2, 2)
    maps[1, 0, 1] = math.nan
    with pytest.raises(InputError, match="map 1 contains NaN"):
        rank(maps, ties=ties, keys=torch.arange(3))


def test_the_middle_of_an_odd_grid_is_one_position_and_of_an_even_grid_four() -> None:
    assert rank(torch.zeros(1, 5, 5), ties="center").view(5, 5)[2, 2] == 0
    even = rank(torch.zeros(1, 4, 4), ties="center").view(4, 4)
    assert sorted(even[1:3, 1:3].flatten().tolist()) == [0, 1, 2, 3]
    assert sorted(even[[0, 0, 3, 3], [0, 3, 0, 3]].tolist()) == [12, 13, 14, 15]  # the corners are farthest


@given(maps=stacks(), share=st.floats(0, 1))
def test_the_top_share_is_kept_and_nothing_else(maps: Tensor, share: float) -> None:
    assume(maps.numel() > 0)
    kept = keep_top(maps, share)
    assert kept.shape == maps.shape
    assert kept.dtype == torch.bool
    count = round(share * math.prod(maps.shape[1:]))
    for row, keep in zip(maps.flatten(1).tolist(), kept.flatten(1).tolist(), strict=True):
        assert sum(keep) == count
        inside = [v for v, k in zip(row, keep, strict=True) if k]
        outside = [v for v, k in zip(row, keep, strict=True) if not k]
        assert min(inside, default=math.inf) >= max(outside, default=-math.inf)


@given(maps=stacks(), low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_larger_share_keeps_all_that_a_smaller_one_keeps(maps: Tensor, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert (keep_top(maps, high) | ~keep_top(maps, low)).all()


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="share must lie between 0 and 1"):
        keep_top(torch.zeros(1, 4), share)


def test_ranking_changes_neither_the_maps_nor_needs_them_in_order() -> None:
    maps = torch.rand(2, 3, 4)
    before = maps.clone()
    turned = maps.transpose(1, 2)  # not contiguous
    assert torch.equal(rank(turned), rank(turned.contiguous()))
    assert torch.equal(maps, before)
