"""How long a piece of work takes, on a GPU as on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and the seconds until the device has done it, too."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - began
