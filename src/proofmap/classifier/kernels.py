"""Deterministic kernels and full float32 precision on NVIDIA GPUs; no effect on other devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Leave ``torch.inference_mode``, inside of which no tensor can take part in gradients; nothing where it is off."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False):
        yield


@contextmanager
def steady_kernels(*, tf32: bool) -> Iterator[None]:
    """Deterministic convolutions; without ``tf32`` in full float32 too, which cuDNN does not give by default, and matrix
    products do not give where ``torch.set_float32_matmul_precision`` was asked for speed.

    Learning amplifies the last bit, so that kernels which add up in another order each time would give other masks;
    and scores should not carry the 1e-3 that TensorFloat-32 costs.
    """
    if not torch.cuda.is_available():
        yield
        return
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32):
        precision = torch.get_float32_matmul_precision()
        if tf32 or precision == "highest":
            yield
            return
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
