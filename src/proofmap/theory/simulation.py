"""Monte Carlo for theorem 5.1: shuffle the coordinates, search all intervals, count what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.streams import key_of, permutations
from proofmap.theory.linear import interval_sums

_AT_ONCE = 1 << 21
"""Numbers in one batch of shuffled inputs."""


@dataclass(frozen=True)
class Rate:
    """How often something happened in so many trials, with Wilson's 95 % interval.

    >>> Rate(0, 1000)
    Rate(count=0, trials=1000)
    >>> round(Rate(0, 1000).high, 4), round(Rate(20, 1000).low, 4)
    (0.0038, 0.013)
    """

    count: int
    trials: int

    @property
    def value(self) -> float:
        return self.count / self.trials

    @property
    def low(self) -> float:
        return max(0.0, self._middle - self._reach) if self.count else 0.0

    @property
    def high(self) -> float:
        return min(1.0, self._middle + self._reach) if self.count < self.trials else 1.0

    @property
    def _middle(self) -> float:
        return (self.count + _Z**2 / 2) / (self.trials + _Z**2)

    @property
    def _reach(self) -> float:
        p, n = self.value, self.trials
        return _Z / (n + _Z**2) * math.sqrt(n * p * (1 - p) + _Z**2 / 4)

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.count + other.count, self.trials + other.trials)


_Z = 1.959963984540054


@dataclass(frozen=True)
class Failures:
    """What went wrong at one length, in so many shuffles of one input."""

    length: int
    one: Rate
    """The first interval does not certify the predicted label."""
    incomplete: Rate
    """No interval certifies the predicted label."""
    unsound: Rate
    """Some interval certifies the other label."""

    def __add__(self, other: Failures) -> Failures:
        if self.length != other.length:
            raise InputError(f"failures at lengths {self.length} and {other.length} do not add up")
        return Failures(
            self.length,
            self.one + other.one,
            self.incomplete + other.incomplete,
            self.unsound + other.unsound,
        )


def simulate(
    z: Tensor, lengths: Sequence[int], *, trials: int, seed: int = 0, wrap: bool = False
) -> list[Failures]:
    """Failures of the interval search at each of the lengths, over random orders of the contributions ``(d,)``.

    Every length sees the same orders, which depend on the seed, d and the trial's number alone.
    """
    if trials < 1 or not lengths:
        raise InputError("a simulation needs at least one trial and one length")
    counts = torch.zeros(len(lengths), 3, dtype=torch.int64, device=z.device)
    for orders in _shuffles(len(z), trials, seed, z.device):
        shuffled = z[orders]
        for row, length in enumerate(lengths):
            sums = interval_sums(shuffled, length, wrap=wrap)
            counts[row] += torch.stack(
                [
                    (sums[:, 0] <= 0).sum(),
                    (sums <= 0).all(dim=1).sum(),
                    (sums < 0).any(dim=1).sum(),
                ]
            )
    return [
        Failures(length, *(Rate(n, trials) for n in row))
        for length, row in zip(lengths, counts.tolist(), strict=True)
    ]


def _shuffles(d: int, trials: int, seed: int, device: torch.device) -> Iterator[Tensor]:
    """Random orders ``(batch, d)``, in batches that fit into memory."""
    batch = max(1, _AT_ONCE // d)
    for first in range(0, trials, batch):
        keys = [key_of("shuffle", seed, d, trial) for trial in range(first, min(trials, first + batch))]
        yield permutations(torch.tensor(keys, device=device), d)
