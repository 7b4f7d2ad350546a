"""Nets of several inputs, of which the first is explained and the others are given: a picture and a table, two texts, a picture and a reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.core.errors import InputError


class Beside(nn.Module):
    """A net of several inputs as a net of the first one, for ``given`` values of the others.

    >>> Beside(nn.Bilinear(2, 3, 1), (torch.ones(1, 3),))(torch.zeros(5, 2)).shape
    torch.Size([5, 1])
    """

    def __init__(self, net: nn.Module, given: tuple[Any, ...]) -> None:
        super().__init__()
        self.net, self.given = net, given

    def forward(self, x: Tensor) -> Any:
        return _called(self.net, self.given, x)

    @staticmethod
    def of(net: Any, given: tuple[Any, ...]) -> nn.Module | Callable[[Any], Any]:
        """A module, or a function, of the first input of ``net`` alone."""
        return Beside(net, given) if isinstance(net, nn.Module) else partial(_called, net, given)

    @staticmethod
    def read(given: Any) -> tuple[tuple[Any, ...], int]:
        """The values of each further input, in a batch, and the number of images that have values of their own; 1 if all share one."""
        values = tuple(map(_batch, given if isinstance(given, tuple) else (given,)))
        counts = {len(each) for each in values} - {1}
        if len(counts) > 1 or 0 in counts:
            raise InputError(
                f"given has batches of {', '.join(str(len(each)) for each in values)}: each input needs one value for all images, or one for each"
            )
        return values, max(counts, default=1)

    @staticmethod
    def of_image(given: tuple[Any, ...], i: int) -> tuple[Any, ...]:
        """The values that belong to image ``i``."""
        return tuple(each if len(each) == 1 else each[i : i + 1] for each in given)


def _batch(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if isinstance(value, (Tensor, np.ndarray, list)) and np.ndim(value) > 0:
        return (
            torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else value
        )
    raise InputError(
        f"given must be a tensor, an array or a list with a value for all images (1, ...), or one for each (N, ...); a tuple of these if the net takes "
        f"several more inputs; not {type(value).__name__}"
    )


def _called(net: Callable[..., Any], given: tuple[Any, ...], x: Any) -> Any:
    return net(x, *(_repeated(each, x) for each in given))


def _repeated(value: Any, x: Any) -> Any:
    """A value for each input ``x``: the same for all, or, if there are as many, those of a whole batch."""
    if not isinstance(value, Tensor):
        return value if len(value) == len(x) else value[:1] * len(x)
    if isinstance(x, torch.Tensor):
        value = value.to(x) if value.is_floating_point() else value.to(x.device)
    count = x.shape[0] if hasattr(x, "shape") else len(x)
    if len(value) > 1 and len(value) == count:
        return value
    return value[:1].expand(count, *value.shape[1:])
