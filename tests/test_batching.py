"""Batches that fit: memory that runs out halves them, says so once, and loses nothing."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proofmap.core.batching import BatchSize, OutOfMemory, in_batches, is_out_of_memory
from proofmap.core.errors import ProofmapError

Range = Callable[[int, int], list[int]]


def device_that_holds(items: int, calls: list[tuple[int, int]] | None = None) -> Range:
    """A function of a range that runs out of memory above so many items."""

    def run(start: int, stop: int) -> list[int]:
        if calls is not None:
            calls.append((start, stop))
        if stop - start > items:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return list(range(start, stop))

    return run


@given(total=st.integers(1, 200), size=st.integers(1, 64), cost=st.integers(1, 9))
def test_batches_are_as_few_as_fit_and_even(total: int, size: int, cost: int) -> None:
    lengths = in_batches(lambda a, b: b - a, total, BatchSize(size), cost=cost)
    most = max(1, size // cost)
    assert len(lengths) == -(-total // most)
    assert max(lengths) <= most
    assert max(lengths) - min(lengths) <= 1


def test_running_out_of_memory_halves_the_batch_and_goes_on_from_there() -> None:
    calls: list[tuple[int, int]] = []
    batch = BatchSize(8)
    with pytest.warns(UserWarning, match=r"batches of 4.*batch_size=4"):
        in_batches(device_that_holds(4, calls), 16, batch)
    assert calls == [(0, 8), (0, 4), (4, 8), (8, 12), (12, 16)]
    assert batch.size == 4


def test_it_says_so_once_for_all_that_share_the_batch_size() -> None:
    batch = BatchSize(16)
    with pytest.warns(UserWarning, match="out of memory") as told:
        in_batches(device_that_holds(3), 40, batch)  # 16 -> 8 -> 4 -> 2
    assert len(told) == 1
    in_batches(device_that_holds(1), 40, batch)  # a warning would be an error here
    assert batch.size == 1


@pytest.mark.parametrize("size, cost", [(1, 1), (8, 1), (7, 7), (3, 10)])
def test_a_single_item_that_does_not_fit_is_an_error_with_a_way_out(size: int, cost: int) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "out of memory")
        with pytest.raises(OutOfMemory, match=r"a single map at a time\. Use a smaller input") as error:
            in_batches(device_that_holds(0), 5, BatchSize(size), cost=cost, item="map")
    assert isinstance(error.value, ProofmapError)
    assert isinstance(error.value, MemoryError)


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes"), ValueError("label"), KeyError("x")])
def test_other_errors_pass_through(error: Exception) -> None:
    def run(start: int, stop: int) -> None:
        raise error

    batch = BatchSize(8)
    with pytest.raises(type(error)) as raised:
        in_batches(run, 8, batch)
    assert raised.value is error
    assert batch.size == 8


@pytest.mark.parametrize(
    "error, out_of_memory",
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("expected scalar type Float"), False),
        (ValueError("out of memory"), False),
        (OutOfMemory("said already"), False),
    ],
)
def test_running_out_of_memory_is_known_on_any_device(error: BaseException, out_of_memory: bool) -> None:
    assert is_out_of_memory(error) == out_of_memory


def test_a_cpu_without_memory_halves_the_batch_and_goes_on() -> None:
    """The real error of torch's allocator, for more memory than any machine has."""
    tried: list[int] = []

    def run(start: int, stop: int) -> int:
        tried.append(stop - start)
        torch.empty(2**58 if stop - start > 2 else 1, dtype=torch.uint8)
        return stop - start

    with pytest.warns(UserWarning, match="batches of 2"):
        assert sum(in_batches(run, 8, BatchSize(4))) == 8
    assert tried[0] == 4 and set(tried[1:]) == {2}


def test_tensors_of_the_failed_batch_are_let_go_before_the_next_try() -> None:
    held: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def run(start: int, stop: int) -> None:
        gc.collect()
        alive.extend(ref() is not None for ref in held)
        tensor = torch.zeros(stop - start)
        held.append(weakref.ref(tensor))
        if stop - start > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.warns(UserWarning, match="out of memory"):
        in_batches(run, 4, BatchSize(4))
    assert alive and not any(alive)
