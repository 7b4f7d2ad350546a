"""Ranks: what a plain sort gives, with ties decided as declared; and random streams against Philox as printed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.core import streams
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


# ---- random streams ------------------------------------------------------------------------------------------


Words = tuple[int, int, int, int]

LOW = 0xFFFFFFFF
KEYS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Philox-4x32-10 as printed by Salmon et al. (SC 2011), in plain integers."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & LOW, (k1 + 0xBB67AE85) & LOW
    return c0, c1, c2, c3


def expected_words(key: int, start: int, n: int) -> list[int]:
    """Words number ``start .. start + n - 1`` of a stream, one after the other."""
    row = []
    for i in range(start, start + n):
        counter = i // 4
        row.append(philox((counter & LOW, counter >> 32, 0, 0), (key & LOW, (key >> 32) & LOW))[i % 4])
    return row


@pytest.mark.parametrize(
    "counter, key, result",
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((LOW,) * 4, (LOW, LOW), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_oracle_gives_the_known_answers_of_random123(
    counter: Words, key: tuple[int, int], result: Words
) -> None:
    assert philox(counter, key) == result


def test_few_and_many_numbers_are_computed_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = torch.tensor([0, -1, 2**62 + 12345, -(2**63)])
    few = streams.random_words(keys, 50, start=3)
    monkeypatch.setattr(streams, "_FEW", 0)
    many = streams.random_words(keys, 50, start=3)
    assert torch.equal(few, many)
    assert many.tolist() == [expected_words(key, 3, 50) for key in keys.tolist()]


@given(key=KEYS, start=st.integers(0, 2**40), n=st.integers(1, 9))
def test_words_are_philox_of_key_and_counter(key: int, start: int, n: int) -> None:
    assert streams.random_words(torch.tensor(key), n, start).tolist() == expected_words(key, start, n)


@given(keys=st.lists(KEYS, min_size=1, max_size=5), start=st.integers(0, 50), n=st.integers(1, 30))
def test_a_draw_depends_neither_on_its_batch_nor_on_where_reading_began(
    keys: list[int], start: int, n: int
) -> None:
    together = streams.random_words(torch.tensor(keys), start + n)
    for key, row in zip(keys, together, strict=True):
        assert torch.equal(streams.random_words(torch.tensor(key), n, start), row[start:])


@given(keys=st.lists(KEYS, min_size=2, max_size=6), n=st.integers(1, 20))
def test_every_kind_of_draw_is_the_same_alone_and_in_a_batch(keys: list[int], n: int) -> None:
    def draws(batch: Tensor) -> list[Tensor]:
        return [
            streams.uniform(batch, n),
            streams.normal(batch, n),
            streams.integers(batch, n, 10),
            streams.permutations(batch, n),
        ]

    for i, key in enumerate(keys):
        for together, alone in zip(draws(torch.tensor(keys)), draws(torch.tensor([key])), strict=True):
            assert torch.equal(together[i], alone[0])


def test_uniform_numbers_are_the_upper_24_bits() -> None:
    keys = torch.tensor([3, -5])
    expected = [[(w >> 8) / 2**24 for w in expected_words(k, 0, 7)] for k in (3, -5)]
    assert streams.uniform(keys, 7).tolist() == expected  # 24 bits fit a float32 exactly


def test_integers_divide_the_words_into_equal_ranges() -> None:
    expected = [w * 10 // 2**32 for w in expected_words(9, 2, 20)]
    assert streams.integers(torch.tensor(9), 20, 10, start=2).tolist() == expected


def test_normal_numbers_are_box_muller_of_uniform_ones() -> None:
    n = 9  # odd: the last one of a pair is dropped
    u = [(w >> 8) / 2**24 for w in expected_words(17, 0, 10)]
    pairs = list(zip(u[:5], u[5:], strict=True))
    expected = [math.sqrt(-2 * math.log(1 - a)) * math.cos(2 * math.pi * b) for a, b in pairs]
    expected += [math.sqrt(-2 * math.log(1 - a)) * math.sin(2 * math.pi * b) for a, b in pairs]
    assert streams.normal(torch.tensor(17), n).tolist() == pytest.approx(expected[:n], rel=1e-4, abs=1e-6)


def test_all_permutations_are_equally_likely() -> None:
    orders = streams.permutations(torch.arange(6000), 3)
    _, counts = orders.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert scipy.stats.chisquare(counts.numpy()).pvalue > 1e-3


parts = st.lists(st.one_of(st.integers(0, 12), st.text("a1", max_size=2), st.binary(max_size=2)), max_size=3)


@given(a=parts, b=parts)
def test_keys_are_equal_exactly_when_their_printed_parts_are(
    a: list[int | str | bytes], b: list[int | str | bytes]
) -> None:
    def printed(parts: list[int | str | bytes]) -> list[bytes]:
        return [p if isinstance(p, bytes) else str(p).encode() for p in parts]

    assert (streams.key_of(*a) == streams.key_of(*b)) == (printed(a) == printed(b))


def test_an_images_key_depends_on_its_content_alone() -> None:
    images = torch.rand(5, 3, 4, 4)
    keys = streams.image_keys(images, 0, "noise")
    order = [3, 0, 4, 1, 2]
    assert torch.equal(streams.image_keys(images[order], 0, "noise"), keys[order])
    laid_out = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(streams.image_keys(laid_out, 0, "noise"), keys)
    assert len(set(keys.tolist())) == 5
    changed = images.clone()
    changed[2, 0, 0, 0] += 1e-6
    assert (streams.image_keys(changed, 0, "noise") != keys).tolist() == [False, False, True, False, False]


def test_pairs_have_a_key_for_each_image_and_label() -> None:
    images = torch.rand(2, 3, 2, 2)
    pairs = [(0, 7), (1, 7), (0, 8)]
    keys = streams.pair_keys(images, pairs, 0, "mask").tolist()
    assert len(set(keys)) == 3
    assert streams.pair_keys(images.flip(0), [(1, 7)], 0, "mask").tolist() == keys[:1]
