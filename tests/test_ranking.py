"""Ranks: what a plain sort gives, unmoved by monotone transforms, with ties decided as declared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.ranking import Ties, as_maps, in_float32, keep_top, rank
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


@given(maps=stacks())
def test_ranks_are_those_of_a_plain_sort(maps: Tensor) -> None:
    ranks = rank(maps)
    rows = maps.flatten(1).tolist()
    assert ranks.dtype == torch.int32
    assert ranks.tolist() == [ranks_by_a_plain_sort(row, [0] * len(row)) for row in rows]


@given(maps=stacks(), seed=st.integers(0, 10))
def test_random_ties_order_only_what_is_equal(maps: Tensor, seed: int) -> None:
    keys = torch.tensor([key_of(seed, i) for i in range(len(maps))])
    ranks = rank(maps, ties="random", keys=keys)
    for row, order in zip(maps.flatten(1).tolist(), ranks.tolist(), strict=True):
        assert sorted(order) == list(range(len(row)))
        by_rank = [value for _, value in sorted(zip(order, row, strict=True))]
        assert by_rank == sorted(row, reverse=True)


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


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="share must lie between 0 and 1"):
        keep_top(torch.zeros(1, 4), share)


# ---- maps of other precisions ------------------------------------------------------------------------------------

wide = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -1e-80, 1e-80, 3e-80, 1.0, 1 + 1e-9, 1 + 2e-9, 1e300, -1e300, 1.7e308]),
)


def order_of(values: list[Any]) -> list[int]:
    return [sorted(set(values)).index(value) for value in values]


@given(st.lists(wide, min_size=1, max_size=12))
def test_maps_in_64_bits_have_the_same_order_and_signs_in_float32(row: list[float]) -> None:
    found = in_float32(torch.tensor([[row]], dtype=torch.float64))[0, 0]
    assert found.dtype == torch.float32 and bool(found.isfinite().all())
    assert order_of(found.tolist()) == order_of(row)
    assert found.sign().tolist() == [math.copysign(1, x) if x else 0 for x in row]


def test_values_that_float32_tells_apart_are_only_rounded() -> None:
    maps = torch.randn(2, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(in_float32(maps), maps.float())
    close = torch.tensor([[[0.25, 1.0, 1.0 + 1e-9, 8.0]]], dtype=torch.float64)
    torch.testing.assert_close(in_float32(close), close.float(), rtol=2e-7, atol=0)


@pytest.mark.parametrize(
    "given",
    [
        np.arange(6, dtype=np.int64) + 10**9,
        np.arange(6, dtype=np.uint64) + 2**63,
        np.arange(6, dtype=np.uint64) + 2**62,
        np.arange(6, dtype=np.int32) + 2**30,
        np.arange(6, dtype=">f8") * 1e-80,
        np.arange(6, dtype=">f4"),
        np.arange(6, dtype=">i2"),
        np.arange(6, dtype=np.uint16),
        np.longdouble(1) + np.arange(6) * np.finfo(np.longdouble).eps,
        np.arange(6, dtype=np.float16),
        torch.arange(6) + 2**60,
        torch.arange(6).to(torch.uint16),
        [torch.tensor(float(k)) for k in range(6)],
        [k * 1e-60 for k in range(6)],
    ],
    ids=lambda given: str(getattr(given, "dtype", "list")),
)
def test_maps_of_every_type_of_numbers_are_read_in_order(given: Any) -> None:
    found = in_float32(as_maps(given, "maps must be given").view(1, 1, 6))
    assert found.flatten().argsort().tolist() == list(range(6)) and len(found.unique()) == 6


def test_masked_arrays_are_refused_with_what_to_write() -> None:
    maps = np.ma.masked_less(np.arange(4.0), 2)
    for found in (maps, [maps, maps]):
        with pytest.raises(InputError, match=r"mine must return maps without masked entries.*maps\.filled"):
            as_maps(found, "mine must return maps")
