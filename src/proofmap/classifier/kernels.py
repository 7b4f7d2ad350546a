"""Contexts that make a pass of the net independent of torch's modes in the calling code: deterministic kernels and full float32 precision on
NVIDIA GPUs, no autocast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, cast

import torch

_NOTED = threading.local()
"""In a thread that does not run the net itself, a list of requests: whether each :func:`steady_kernels` block asked for TensorFloat-32,
innermost last."""


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Leave ``torch.inference_mode``, in which no tensor can have a gradient."""
    with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
        yield


@contextmanager
def outside_autocast() -> Iterator[None]:
    """Leave ``torch.autocast``, in which the net would run in lower precision than its record says. Autocast inside the net is not changed."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda", "mps", "xpu"):
            if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def steady_kernels(*, tf32: bool) -> Iterator[None]:
    """Use deterministic convolutions, outside autocast. Without ``tf32``, also use full float32 precision, which is not cuDNN's default.

    Learning amplifies differences in the last bit, so kernels that add in a varying order would give other masks. TensorFloat-32 would
    change scores by 1e-3. The old state is restored at the end. The switches belong to the whole process, so a thread inside
    :func:`note_kernels` does not change them.
    """
    noted: list[bool] | None = getattr(_NOTED, "asked", None)
    if noted is not None:
        noted.append(tf32)
        try:
            yield
        finally:
            noted.pop()
        return
    if not torch.cuda.is_available():
        with outside_autocast():
            yield
        return
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark, cudnn.deterministic = False, True
    try:
        with outside_autocast(), _set_tf32(tf32=tf32):
            yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before


@contextmanager
def note_kernels() -> Iterator[Sequence[bool]]:
    """In this thread, only record what :func:`steady_kernels` requests: whether TensorFloat-32, innermost last. The requests are passed to the
    thread that runs the net."""
    _NOTED.asked = []
    try:
        yield _NOTED.asked
    finally:
        del _NOTED.asked


@contextmanager
def _set_tf32(*, tf32: bool) -> Iterator[None]:
    """Switch TF32 on (for convolutions only) or off (for convolutions and matrix products).

    Torch has two interfaces for TF32, flags and (from 2.9 on) ``fp32_precision``, and reading a flag raises an error if the two
    contradict each other. So both are set, and a flag that cannot be read is not restored.
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
