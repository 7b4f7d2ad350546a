"""The certifiers of the linear case themselves; the package needs only their sums and reaches."""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor

from proofmap.theory.theorem import Sign, interval_sums


def best_interval(z: Tensor, length: int, *, label: Sign = 1, wrap: bool = False) -> Tensor:
    """The first coordinate of the interval that certifies the label most strongly; -1 if none certifies it."""
    best, first = (label * interval_sums(z, length, wrap=wrap)).max(dim=-1)
    return torch.where(best > 0, first, -1)


def certifying_intervals(z: Tensor, length: int, *, label: Sign = 1, wrap: bool = False) -> Tensor:
    """Number of intervals of the length that certify the label ``(...)``."""
    return (label * interval_sums(z, length, wrap=wrap) > 0).sum(dim=-1)


def greedy_set(z: Tensor, length: int, *, label: Sign = 1) -> Tensor:
    """The ``length`` coordinates with the largest contributions to the label, as a set ``(..., d)`` of booleans."""
    chosen = (label * z).topk(length, dim=-1).indices
    return torch.zeros_like(z, dtype=torch.bool).scatter(-1, chosen, True)


def exact_probabilities(z: Tensor, length: int, *, wrap: bool = False) -> tuple[float, float]:
    """The probabilities of completeness and of soundness over all d! orders of a few coordinates, counted.

    Completeness: some interval certifies y. Soundness: none certifies -y.
    """
    orders = z[torch.tensor(list(permutations(range(len(z)))))]
    complete = certifying_intervals(orders, length, wrap=wrap) > 0
    sound = certifying_intervals(orders, length, label=-1, wrap=wrap) == 0
    return complete.double().mean().item(), sound.double().mean().item()
