"""How many images go through a net at once: measured on one image, not guessed from its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from proofmap._batching import BatchSize

_CPU_LIMIT = 32  # larger batches only fall out of the processor's caches
_DEVICE_LIMIT = 4096


def probe_batch_sizes(
    forward: Callable[[Tensor], Tensor], image: Tensor, weights: Iterable[Tensor]
) -> tuple[BatchSize, BatchSize]:
    """Batch sizes (forward only, forward with input gradient) that should fit half of the free memory.

    The memory of a gradient pass is what autograd saves for one image, counted as it is saved; a forward pass
    alone keeps a few layers at a time, taken as a quarter of that.
    """
    device = image.device
    limit = _CPU_LIMIT if device.type == "cpu" else _DEVICE_LIMIT
    saved = max(_saved_bytes(forward, image, weights), 16 * image.numel() * image.element_size())
    budget = free_memory(device) / 2
    with_gradient = int(budget / (2 * saved))
    forward_only = int(budget / (saved / 2))
    return BatchSize(_clamp(forward_only, limit)), BatchSize(_clamp(with_gradient, limit))


def _clamp(size: int, limit: int) -> int:
    return max(1, min(size, limit))


def _saved_bytes(forward: Callable[[Tensor], Tensor], image: Tensor, weights: Iterable[Tensor]) -> int:
    constant = {weight.untyped_storage().data_ptr() for weight in weights}
    seen: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in constant:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        forward(image.detach().clone().requires_grad_(True))
    return sum(seen.values())


def free_memory(device: torch.device) -> int:
    """Free bytes on a device, as its driver or the operating system tells it."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30
