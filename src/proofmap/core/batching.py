"""Batches that fit the device: if memory runs out, the batch is halved and tried again, with one warning."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from proofmap.core.errors import BatchSizeWarning, ProofmapError

__all__ = ["BatchSize", "in_batches"]

T = TypeVar("T")


class OutOfMemory(ProofmapError, MemoryError):
    """The device has too little memory for a batch of one."""


@dataclass
class BatchSize:
    """Number of items in one pass of the net, shared by all users of a classifier. The number only shrinks.

    Results depend on the batch size only by rounding.
    """

    size: int
    warned: bool = field(default=False, repr=False)

    def shrink(self, failed: int, *, cost: int, item: str) -> None:
        """Halve the batch size after ``failed`` items of ``cost`` passes each ran out of memory, and free cached memory."""
        self.size = 1 if failed == 1 else min(self.size, failed * cost)
        if self.size <= 1:
            raise OutOfMemory(
                f"the device runs out of memory with a single {item} at a time. "
                "Use a smaller input, a smaller net, fewer distractors, or another device."
            )
        self.size //= 2
        if not self.warned:
            warnings.warn(
                f"out of memory: continuing with batches of {self.size}. Set batch_size={self.size} to avoid the retry.",
                BatchSizeWarning,
                stacklevel=4,
            )
            self.warned = True
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


_OUT_OF_MEMORY = (
    "out of memory",  # CUDA, MPS
    "not enough memory",  # torch on a CPU: "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"
    "can't allocate memory",  # the same in other versions
    "defaultcpuallocator",
    "could not create a primitive",  # oneDNN
    "bad_alloc",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out, on any device.

    >>> (
    ...     is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")),
    ...     is_out_of_memory(RuntimeError("shape")),
    ... )
    (True, False)
    """
    if isinstance(error, OutOfMemory):
        return False
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY)


def in_batches(
    run: Callable[[int, int], T], total: int, batch: BatchSize, *, cost: int = 1, item: str = "image"
) -> list[T]:
    """Call ``run(start, stop)`` on successive batches of the items ``0 .. total - 1``, and return the results in a list.

    ``cost`` is the number of passes per item: one call has at most ``batch.size`` passes, and at least one item. If memory
    runs out, the same items are tried again in smaller batches.

    >>> in_batches(lambda a, b: b - a, 7, BatchSize(3))
    [3, 2, 2]
    """
    results: list[T] = []
    start = 0
    while start < total:
        left = total - start
        batches_left = -(-left // max(1, batch.size // cost))
        stop = start + -(-left // batches_left)  # even batches: no small last one, few distinct shapes
        try:
            results.append(run(start, stop))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            failed = stop - start
        else:
            start = stop
            continue
        # outside the except block, so that the traceback no longer keeps the failed batch's tensors alive
        batch.shrink(failed, cost=cost, item=item)
    return results
