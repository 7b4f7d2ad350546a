"""Counter-based random numbers: the published generator, and no dependence on batch, order or offset."""

from __future__ import annotations

import math

import pytest
import scipy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.core import streams

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


def test_neighbouring_keys_give_unrelated_streams() -> None:
    drawn = streams.uniform(torch.arange(40), 500)
    correlations = torch.corrcoef(drawn) - torch.eye(40)
    assert correlations.abs().max() < 0.25  # 5.6 standard deviations of independent streams


def test_normal_numbers_stay_finite_whatever_the_words() -> None:
    largest = torch.full((1, 4), 1 - 2.0**-24)
    assert torch.log1p(-largest).isfinite().all()  # the largest uniform number is below one
    assert streams.normal(torch.arange(2000), 50).isfinite().all()


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
