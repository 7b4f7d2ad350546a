"""The paper's linear case (section 5 and its appendix): sets of coordinates that prove the label of a linear classifier.

The classifier is sgn<w, x>, hidden coordinates are 0, and a set S of coordinates certifies the label a when a sum_{i in S} w_i x_i
> 0. Only the *contributions* z_i = y w_i x_i to the predicted label y matter; their sum is the margin. The contributions are a
float tensor ``(..., d)``. As an argument, the label 1 means y, and -1 means the other label.

There are two certifiers, which choose a set S of L coordinates:

    greedy      the L largest a z_i. Complete, but not sound: it certifies -y for every L up to its *reach*
    intervals   the best of all d - L + 1 intervals, found with running sums in O(d)

The paper describes the second certifier by the condition "TV(S) <= 2". Its TV does not count the borders, so the complement of an
interval has TV 2, too: {1, 2, 9, 10} of ten. With ``wrap=True`` these complements count too: the sets are then the d intervals of a
circle.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError

Sign = Literal[1, -1]


def contributions(w: Tensor, x: Tensor) -> Tensor:
    """The contributions z_i = y w_i x_i ``(..., d)`` in float64, with y the predicted label and w and x scaled to norm 1.

    >>> contributions(torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([-3.0, 4.0, 0.0, 0.0])).sum().item()
    0.6
    """
    w, x = (v.double() / v.double().norm(dim=-1, keepdim=True) for v in (w, x))
    z = w * x
    total = z.sum(dim=-1, keepdim=True)
    if not bool(total.isfinite().all()) or bool((total == 0).any()):
        raise InputError(
            "a linear classifier needs finite w and x whose product is not 0, so that it has a label"
        )
    return z * total.sign()


def number_of_sets(d: int, length: int, *, wrap: bool = False) -> int:
    """The number of intervals of ``length`` out of d coordinates (the paper counts d^2). With ``wrap``, the number of all sets of
    this size with TV <= 2.

    >>> number_of_sets(10, 4), number_of_sets(10, 4, wrap=True)
    (7, 10)
    """
    if not 1 <= length <= d:
        raise InputError(f"the length of a set must be between 1 and {d}, not {length}")
    return d if wrap and length < d else d - length + 1


def interval_sums(z: Tensor, length: int, *, wrap: bool = False) -> Tensor:
    """The sums ``(..., number_of_sets)`` of z ``(..., d)`` over all intervals of ``length`` coordinates, ordered by their first
    coordinate. The cost is O(d) for any length.

    Sums that cannot be distinguished from 0 in float64 are 0, and certify nothing.
    """
    d = z.shape[-1]
    sets = number_of_sets(d, length, wrap=wrap)
    z = z.double()
    line = torch.cat([torch.zeros_like(z[..., :1]), z, z[..., : sets + length - 1 - d]], dim=-1).cumsum(
        dim=-1
    )
    sums = line[..., length : length + sets] - line[..., :sets]
    noise = d * torch.finfo(torch.float64).eps * z.abs().sum(dim=-1, keepdim=True)
    return sums.where(sums.abs() > noise, 0.0)


def greedy_reach(z: Tensor, *, label: Sign = -1) -> Tensor:
    """The reach ``(...)``: the largest size L for which the greedy set of L coordinates certifies the label.

    The greedy sets of all smaller sizes certify the label too. For the predicted label, the reach is the number of coordinates d. For the
    other label, the paper says that greedy sets always certify it. This is true up to the reach only: the sums over the greedy
    sets first rise and then fall.

    >>> greedy_reach(
    ...     torch.tensor([3.0, -1.0, 2.0, -2.0])
    ... ).item()  # 2 + 1 > 0, 2 + 1 - 2 > 0, 2 + 1 - 2 - 3 < 0
    3
    """
    ordered = (label * z.double()).sort(dim=-1, descending=True).values
    return (ordered.cumsum(dim=-1) > 0).sum(dim=-1)
