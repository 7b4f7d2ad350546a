"""Batches that fit the device: their size is measured on one image; if memory runs out, the batch is halved and tried again, with one warning."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from proofmap.core.errors import ProofmapError

__all__ = ["BatchSize", "in_batches"]

T = TypeVar("T")

_LARGEST_ON_CPU = 40 * 2**20
"""Largest tensor of a batch on a CPU, in bytes. The C library returns larger freed blocks to the system, and getting them back is slow."""
_COUNTED = 2**31 - 1
_LIMIT = 4096
_WHOLE = 480
"""Large batches on a GPU are multiples of this number. A compiled net is compiled for each shape. An eighth of such a batch is a multiple of
1, 2, 3, 4, 5, 6, 10 and 12, the numbers of masked images (composites) that methods use per pair of an image and a label. So all methods that
learn masks use the same eight shapes."""


class OutOfMemory(ProofmapError, MemoryError):
    """The device has too little memory for a batch of one."""


@dataclass
class BatchSize:
    """Number of items in one pass of the net, shared by all users of a classifier. The number only shrinks.

    Results depend on the batch size only by rounding.
    """

    size: int
    warned: bool = field(default=False, repr=False)

    @staticmethod
    def probed(
        forward: Callable[[Tensor], Tensor], image: Tensor, weights: Iterable[Tensor]
    ) -> tuple[BatchSize, BatchSize]:
        """Batch sizes (forward only, forward with input gradient) that should fit a third of the device's memory.

        The device's total memory counts, not its free memory, so that a machine always uses the same batches and gives the same bits. For each
        image, a gradient pass needs the memory of what autograd saves for one image; a forward pass is assumed to need a quarter of it. On a
        CPU the size of the largest tensor is limited too.
        """
        saved = _saved_bytes(forward, image, weights)
        largest, values = max([(image.numel() * image.element_size(), image.numel()), *saved])
        total = max(sum(size for size, _ in saved), 4 * largest)
        budget = device_memory(image.device) / 3
        limit = most_images(largest, values, image.device.type)
        with_gradient, forward_only = int(budget / (2 * total)), int(budget / (total / 2))
        size, larger = (max(1, min(wanted, limit)) for wanted in (with_gradient, forward_only))
        return BatchSize(larger), BatchSize(round_to_full(size, limit) if image.is_cuda else size)

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
                stacklevel=4,
            )
            self.warned = True
        gc.collect()
        for gpus in (torch.cuda, torch.xpu):
            if gpus.is_available():
                gpus.empty_cache()


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


# ---- memory ---------------------------------------------------------------------------------------------------


def most_images(largest: int, values: int, device: str) -> int:
    """Largest batch for a net whose largest saved tensor has ``largest`` bytes and ``values`` numbers per image.

    On a GPU a tensor stays below 2^31 numbers, as kernels index with 32 bits.

    >>> (
    ...     most_images(4 * 96 * 112**2, 96 * 112**2, "cuda"),
    ...     most_images(4000, 1000, "cuda"),
    ...     most_images(2**20, 2**18, "cpu"),
    ... )
    (1783, 4096, 40)
    """
    most = _LARGEST_ON_CPU // largest if device == "cpu" else _COUNTED // values
    return max(1, min(_LIMIT, most))


def round_to_full(size: int, limit: int = _LIMIT) -> int:
    """The multiple of 480 nearest to ``size``, up to ``limit``; small sizes are returned unchanged.

    >>> (
    ...     round_to_full(950),
    ...     round_to_full(4096),
    ...     round_to_full(500),
    ...     round_to_full(300),
    ...     round_to_full(1783, 1783),
    ... )
    (960, 3840, 480, 300, 1440)
    """
    if size < 3 * _WHOLE // 4:
        return size
    return min(max(1, round(size / _WHOLE)), limit // _WHOLE) * _WHOLE or size


def _saved_bytes(
    forward: Callable[[Tensor], Tensor], image: Tensor, weights: Iterable[Tensor]
) -> list[tuple[int, int]]:
    """For each tensor that autograd saves for one image, except weights, its size in bytes and its number of values. Empty if ``forward``
    refuses a tensor that requires a gradient, as a function that calls NumPy does."""
    constant = {weight.untyped_storage().data_ptr() for weight in weights}
    seen: dict[int, tuple[int, int]] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in constant:
            seen[storage.data_ptr()] = storage.nbytes(), storage.nbytes() // tensor.element_size()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        try:
            forward(image.detach().clone().requires_grad_(True))
        except RuntimeError as error:
            if "requires grad" not in str(error):
                raise
    return list(seen.values())


def device_memory(device: torch.device) -> int:
    """Total memory of a device in bytes."""
    if device.type in ("cuda", "xpu"):  # others share the memory of the system
        return int(getattr(torch, device.type).get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30
