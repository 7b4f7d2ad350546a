"""The paper's linear case (section 5 and its appendix): sets of coordinates that prove the label of a linear classifier, and theorem 5.1.

The classifier is sgn<w, x>, hidden coordinates are 0, and a set S of coordinates certifies the label a when a sum_{i in S} w_i x_i
> 0. Only the *contributions* z_i = y w_i x_i to the predicted label y matter; their sum is the margin. The contributions are a
float tensor ``(..., d)``. As an argument, the label 1 means y, and -1 means the other label.

There are two certifiers, which choose a set S of L coordinates:

    greedy      the L largest a z_i. Complete, but not sound: it certifies -y for every L up to its *reach*
    intervals   the best of all d - L + 1 intervals, found with running sums in O(d)

The paper describes the second certifier by the condition "TV(S) <= 2". Its TV does not count the borders, so the complement of an
interval has TV 2, too: {1, 2, 9, 10} of ten. With ``wrap=True`` these complements count too: the sets are then the d intervals of a
circle.

*Theorem 5.1 with explicit constants:* the length at which intervals prove the label, and prove no other label.

Let a_i = d z_i be the d numbers whose mean is the margin mu >= gamma (see :mod:`proofmap.theory.linear`). After a random shuffle an
interval of length L is a sample without replacement, and its sum is <= 0 exactly when the sample's mean is below mu by mu or more.
Write sigma^2 for the variance of the a_i, and b, c for the largest mu - a_i and a_i - mu. Three bounds are known for the
probability p(L) that one fixed interval fails. The smallest of them is used:

    Bernstein               exp( - L mu^2 / (2 sigma^2 + 2/3 b mu) )
    Bernstein, complement   exp( - L^2 mu^2 / (2 sigma^2 (d - L) + 2/3 c mu L) )
    Serfling (1974)         exp( - 2 L mu^2 / ((1 - (L - 1)/d) (b + c)^2) )

The first holds without replacement because Hoeffding (1963, theorem 4) bounds the moment generating function of such a
sample by that of one with replacement. The second is the first for the other d - L coordinates: the interval's sum is
<= 0 exactly when their mean exceeds mu by mu L / (d - L) or more. All three fall with L, and p(d) = 0.

    completeness    P[no interval of length L certifies y]     <= p(L)
    soundness       P[some interval of length L certifies -y]  <= (d - L + 1) p(L),   or d p(L) with TV <= 2 taken literally

*The constants.* From |w_i|, |x_i| <= B / sqrt(d) and norms 1: |a_i| <= B^2, and sum_i w_i^2 x_i^2 <= B^2 / d, so that sigma^2 <=
B^2 - mu^2, b <= B^2 + mu, c <= B^2 - mu. With these, each bound falls with mu, so mu may be replaced by its lower bound gamma (mu^2
over C0 + C1 mu - C2 mu^2 rises with mu for C >= 0). The first bound is then exp(-L gamma^2 / C) with C = 2 B^2 + 2/3 B^2 gamma -
4/3 gamma^2, and the theorem holds with

    L1 = C / gamma^2 log(1 / delta),   L2 = C / gamma^2 log(d / delta),   C <= 2 B^2 (1 + gamma / 3).

For the paper's B = 10 that is C < 267. Hoeffding's inequality, which uses the range and not the variance, would give C = 2 B^4 = 20,000.

*What is certain.* Completeness is certain, without a shuffle, if L divides d: the d / L adjacent intervals have a
positive total, so one of them is positive. With TV <= 2 taken literally it is certain for every L, since the d sums add up to L mu > 0.

Monte Carlo simulation of theorem 5.1: shuffle the coordinates, search all intervals, and count failures. :meth:`Cell.grid` does this
for synthetic inputs at the theorem's lengths, :meth:`Curve.simulated` for any inputs at all lengths.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.core.streams import key_of, permutations
from proofmap.theory.linear import LinearInput

Sign = Literal[1, -1]


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


@dataclass(frozen=True)
class Population:
    """The statistics of the d numbers a_i = d z_i that the bounds use: the mean (the margin), the variance, and the largest
    distances below and above the mean.
    """

    d: int
    mean: float
    variance: float
    below: float
    above: float

    def __post_init__(self) -> None:
        if not self.mean > 0:
            raise InputError(f"the margin must be above 0, not {self.mean}")

    @classmethod
    def assumed(cls, d: int, gamma: float, bound: float) -> Population:
        """The worst case for margin gamma and coordinates of at most bound / sqrt(d), as the theorem assumes."""
        if not (0 < gamma <= 1 and bound >= 1):
            raise InputError(
                f"with norms 1 the margin is in (0, 1] and the bound at least 1; they are {gamma} and {bound}"
            )
        return cls(d, gamma, bound**2 - gamma**2, bound**2 + gamma, bound**2 - gamma)

    @classmethod
    def measured(cls, z: Tensor) -> Population:
        """The population of one input, from its contributions ``(d,)``. The bounds for this population are sharper than the bounds
        for all inputs.
        """
        a = z.double() * len(z)
        mean = a.mean()
        return cls(
            len(z),
            mean.item(),
            a.var(correction=0).item(),
            (mean - a.min()).item(),
            (a.max() - mean).item(),
        )

    def one_fails(self, length: int) -> float:
        """p(L): a bound on the probability that a fixed interval does not certify the predicted label."""
        d, mu, n = self.d, self.mean, length
        number_of_sets(d, n)  # checks the length
        if n == d:
            return 0.0
        spread = self.below + self.above
        exponents = (
            _ratio(n * mu**2, 2 * self.variance + 2 / 3 * self.below * mu),
            _ratio(n**2 * mu**2, 2 * self.variance * (d - n) + 2 / 3 * self.above * mu * n),
            _ratio(2 * n * mu**2, (1 - (n - 1) / d) * spread**2),
        )
        return math.exp(-max(exponents))

    def incomplete(self, length: int) -> float:
        """A bound on the probability that no interval certifies the predicted label (item 1 of the theorem)."""
        return self.one_fails(length)

    def unsound(self, length: int, *, wrap: bool = False) -> float:
        """A bound on the probability that some interval certifies the other label (item 2), at most 1."""
        return min(1.0, number_of_sets(self.d, length, wrap=wrap) * self.one_fails(length))

    def sound_from(self, delta: float, *, wrap: bool = False) -> int:
        """The smallest length L from which on soundness fails with probability at most delta, by these bounds. It is found by bisection: the
        bounds fall with the length, and at d they are 0.
        """
        return 1 + bisect_left(
            range(1, self.d), True, key=lambda length: self.unsound(length, wrap=wrap) <= _checked(delta)
        )


def constant(gamma: float, bound: float) -> float:
    """The constant C of the theorem: the lengths L1 = C / gamma^2 log(1 / delta) and L2 = C / gamma^2 log(d / delta) are long
    enough.

    >>> constant(0.1, bound=1), constant(1.0, bound=10) < 267
    (2.0533..., True)
    """
    return 2 * bound**2 + 2 / 3 * bound**2 * gamma - 4 / 3 * gamma**2


def stated_lengths(d: int, gamma: float, delta: float, *, bound: float = 10.0) -> tuple[int, int]:
    """The lengths L1 and L2 of the theorem, rounded up. Each is at most d, because the whole input always suffices.

    >>> stated_lengths(4096, 0.5, 0.05, bound=1)
    (24, 91)
    """
    Population.assumed(d, gamma, bound)  # checks them
    scale = constant(gamma, bound) / gamma**2
    return (
        min(d, math.ceil(scale * math.log(1 / _checked(delta)))),
        min(d, math.ceil(scale * math.log(d / delta))),
    )


def _checked(delta: float) -> float:
    if not 0 < delta < 1:
        raise InputError(f"delta must be between 0 and 1, not {delta}")
    return delta


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf


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

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"

    def record(self, name: str) -> dict[str, object]:
        """The rate and the ends of its interval, as entries of a record."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


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

    @staticmethod
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
                cells += _cells(LinearInput.made(name, d, gamma, seed=seed), deltas, trials, seed)
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

    @staticmethod
    def simulated(
        title: str, inputs: Sequence[LinearInput], *, points: int, trials: int, seed: int = 0
    ) -> Curve:
        """The :class:`Curve` of all inputs together, at ``points`` shares L / d. Each input is shuffled ``trials`` times."""
        shares = [(k + 1) / points for k in range(points)]
        rows = [
            simulate(
                found.z, [max(1, round(share * len(found.z))) for share in shares], trials=trials, seed=seed
            )
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
                    Rate(
                        sum(f.length > reach for f, reach in zip(column, reaches, strict=True)), len(inputs)
                    ),
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
