"""Deterministic kernels and full float32 precision on NVIDIA GPUs; no effect on other devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

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
    products do not give where speed was asked for. All is as before afterwards.

    Learning amplifies the last bit, so that kernels which add up in another order each time would give other masks;
    and scores should not carry the 1e-3 that TensorFloat-32 costs.
    """
    if not torch.cuda.is_available():
        yield
        return
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark, cudnn.deterministic = False, True
    try:
        with _products(tf32=tf32):
            yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before


@contextmanager
def _products(*, tf32: bool) -> Iterator[None]:
    """Convolutions with TF32 or without; without it, matrix products too.

    Torch has two ways to ask for TF32, by flags and (from 2.9 on) by ``fp32_precision``, and refuses to read a flag where the other
    way said something else; so both are set, and what cannot be read is left to the other.
    """
    cudnn, matmul = cast(Any, torch.backends.cudnn), cast(Any, torch.backends.cuda.matmul)
    newer = [cudnn.conv, cudnn.rnn, matmul] if hasattr(cudnn, "conv") else []
    asked = [each.fp32_precision for each in newer]
    flag, precision = _readable(lambda: cudnn.allow_tf32), _readable(torch.get_float32_matmul_precision)
    try:
        cudnn.allow_tf32 = tf32
        if not tf32:
            torch.set_float32_matmul_precision("highest")
        for each in newer[:2] if tf32 else newer:
            each.fp32_precision = "tf32" if tf32 else "ieee"
        yield
    finally:
        if flag is not None:
            cudnn.allow_tf32 = flag
        if precision is not None and not tf32:
            torch.set_float32_matmul_precision(precision)
        for each, was in zip(newer, asked, strict=True):
            each.fp32_precision = was


def _readable(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError:
        return None
