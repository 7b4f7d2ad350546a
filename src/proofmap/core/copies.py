"""Copies for code that may write into what it is given: methods, metrics, fills, games and nets of other people."""

from __future__ import annotations

from torch import Tensor


def private_copy(x: Tensor) -> Tensor:
    """The same values in memory that nobody else reads, without a graph; repetitions that cost no memory stay free.

    >>> import torch
    >>> row = torch.arange(3.0)
    >>> mine = private_copy(row.expand(4, 3))
    >>> row.zero_(), mine[0], mine.stride()
    (tensor([0., 0., 0.]), tensor([0., 1., 2.]), (0, 1))
    """
    return unrepeated(x.detach()).clone().expand_as(x)


def unrepeated(x: Tensor) -> Tensor:
    """A tensor without the repetitions that cost no memory: one of the images of a fill that is the same for all.

    >>> import torch
    >>> unrepeated(torch.rand(3, 1, 1).expand(8, 3, 4, 4)).shape
    torch.Size([1, 3, 1, 1])
    """
    return x[tuple(slice(1 if stride == 0 else None) for stride in x.stride())]
