"""Monte Carlo simulation of theorem 5.1: shuffle the coordinates, search all intervals, and count failures. :func:`grid` does this
for synthetic inputs at the theorem's lengths, :func:`curve` for any inputs at all lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.core.streams import key_of, permutations
from proofmap.theory.linear import greedy_reach, interval_sums
from proofmap.theory.linear_data import LinearInput, made_input
from proofmap.theory.theorem import Population, stated_lengths

_AT_ONCE = 1 << 21
"""The largest number of values in one batch of shuffled inputs."""


@dataclass(frozen=True)
class Rate:
    """The number of events in a number of trials, with Wilson's 95 % interval.

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


_Z = 1.959963984540054


@dataclass(frozen=True)
class Failures:
    """How often the interval search fails at one length, over shuffles of one input."""

    length: int
    one: Rate
    """How often the first interval does not certify the predicted label."""
    incomplete: Rate
    """How often no interval certifies the predicted label."""
    unsound: Rate
    """How often some interval certifies the other label."""


def simulate(z: Tensor, lengths: Sequence[int], *, trials: int, seed: int = 0) -> list[Failures]:
    """The :class:`Failures` of the interval search at each of the lengths, over ``trials`` random orders of the contributions z
    ``(d,)``.

    All lengths use the same orders. These depend only on the seed, on d and on the number of the trial.
    """
    if trials < 1 or not lengths:
        raise InputError("a simulation needs at least one trial and one length")
    counts = torch.zeros(len(lengths), 3, dtype=torch.int64, device=z.device)
    for orders in _shuffles(len(z), trials, seed, z.device):
        shuffled = z[orders]
        for row, length in enumerate(lengths):
            sums = interval_sums(shuffled, length)
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


Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Cell:
    """The results for one input and one delta: the failures at the theorem's lengths.

    ``first`` and ``second`` are the failures at the lengths L1 and L2 of the theorem, which uses only the margin and B. ``sharp``
    are the failures at the smallest length that suffices for soundness if the same bounds use the input's own variance and range.
    ``needed`` is the smallest tried length from which soundness failed in at most a share delta of the trials.
    """

    inputs: str
    d: int
    gamma: float
    bound: float
    delta: float
    first: Failures
    second: Failures
    sharp: Failures
    needed: int
    greedy_reach: int

    @property
    def complete(self) -> bool:
        """Whether both completeness and one fixed interval fail less often than delta at L1, with 95 % confidence."""
        return max(self.first.incomplete.high, self.first.one.high) <= self.delta

    @property
    def sound(self) -> bool:
        """Whether soundness fails less often than delta at L2 and at the sharp length, with 95 % confidence."""
        return max(self.second.unsound.high, self.sharp.unsound.high) <= self.delta


def grid(
    inputs: Sequence[str],
    ds: Sequence[int],
    gammas: Sequence[float],
    deltas: Sequence[float],
    *,
    trials: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Cell]:
    """Simulate theorem 5.1: a :class:`Cell` for every combination of synthetic input, d, gamma and delta."""
    made = [(name, d, gamma) for name in inputs for d in ds for gamma in gammas]
    cells: list[Cell] = []
    with (progress or Progress()).task("grid of theorem 5.1", trials * len(made)) as task:
        for name, d, gamma in made:
            cells += _cells(made_input(name, d, gamma, seed=seed), deltas, trials, seed)
            task.advance(trials)
    return cells


def _cells(found: LinearInput, deltas: Sequence[float], trials: int, seed: int) -> Iterator[Cell]:
    d, measured = len(found.z), Population.measured(found.z)
    stated = {delta: stated_lengths(d, found.margin, delta, bound=found.bound) for delta in deltas}
    sharp = {delta: measured.sound_from(delta) for delta in deltas}
    scan = spread(d, 40)
    lengths = sorted({*scan, *sharp.values(), *(length for both in stated.values() for length in both)})
    failures = dict(zip(lengths, simulate(found.z, lengths, trials=trials, seed=seed), strict=True))
    for delta in deltas:
        first, second = stated[delta]
        bad = [length for length in lengths if failures[length].unsound.value > delta]
        needed = min(length for length in lengths if not bad or length > bad[-1])
        yield Cell(
            found.name,
            d,
            found.margin,
            found.bound,
            delta,
            failures[first],
            failures[second],
            failures[sharp[delta]],
            needed,
            int(greedy_reach(found.z)),
        )


def spread(d: int, number: int) -> list[int]:
    """About ``number`` lengths from 1 to d, each larger than the one before by about the same factor.

    >>> spread(100, 5)
    [1, 3, 10, 32, 100]
    """
    return sorted({round(math.exp(math.log(d) * k / (number - 1))) for k in range(number)})


@dataclass(frozen=True)
class Point:
    """The simulated probabilities of completeness and soundness at one share of the coordinates, with their lower bounds."""

    share: float
    complete: Rate
    sound: Rate
    greedy_sound: Rate
    """The share of inputs for which the greedy set does not certify the other label."""
    complete_bound: float
    sound_bound: float


@dataclass(frozen=True)
class Curve:
    """Completeness and soundness of the interval search against the share L / d, over some inputs."""

    title: str
    inputs: int
    trials: int
    seed: int
    d: tuple[int, int]
    """The smallest and the largest d of the inputs. ``margin`` and ``bound`` are such pairs too."""
    margin: tuple[float, float]
    bound: tuple[float, float]
    points: tuple[Point, ...]


def curve(title: str, inputs: Sequence[LinearInput], *, points: int, trials: int, seed: int = 0) -> Curve:
    """The :class:`Curve` of all inputs together, at ``points`` shares L / d. Each input is shuffled ``trials`` times."""
    shares = [(k + 1) / points for k in range(points)]
    rows = [
        simulate(found.z, [max(1, round(share * len(found.z))) for share in shares], trials=trials, seed=seed)
        for found in inputs
    ]
    populations = [Population.measured(found.z) for found in inputs]
    reaches = [int(greedy_reach(found.z)) for found in inputs]
    pooled, total = [], trials * len(inputs)
    for share, column in zip(shares, zip(*rows, strict=True), strict=True):
        pooled.append(
            Point(
                share,
                Rate(total - sum(f.incomplete.count for f in column), total),
                Rate(total - sum(f.unsound.count for f in column), total),
                Rate(sum(f.length > reach for f, reach in zip(column, reaches, strict=True)), len(inputs)),
                _mean([1 - p.incomplete(f.length) for p, f in zip(populations, column, strict=True)]),
                _mean([1 - p.unsound(f.length) for p, f in zip(populations, column, strict=True)]),
            )
        )
    return Curve(
        title,
        len(inputs),
        trials,
        seed,
        _ends([len(found.z) for found in inputs]),
        _ends([found.margin for found in inputs]),
        _ends([found.bound for found in inputs]),
        tuple(pooled),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _ends(values: Sequence[Number]) -> tuple[Number, Number]:
    return min(values), max(values)
