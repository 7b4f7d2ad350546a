"""Theorem 5.1 with explicit constants: the length at which intervals prove the label, and prove no other label.

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
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.theory.linear import number_of_sets


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

    def complete_from(self, delta: float) -> int:
        """The smallest length L from which on completeness fails with probability at most delta, by these bounds."""
        return self._smallest_length(lambda length: self.incomplete(length) <= _checked(delta))

    def sound_from(self, delta: float, *, wrap: bool = False) -> int:
        """The smallest length L from which on soundness fails with probability at most delta, by these bounds."""
        return self._smallest_length(lambda length: self.unsound(length, wrap=wrap) <= _checked(delta))

    def _smallest_length(self, holds: Callable[[int], bool]) -> int:
        """The smallest length for which ``holds`` is true, found by bisection: the bounds fall with the length, and at d they are
        0.
        """
        return 1 + bisect_left(range(1, self.d), True, key=holds)


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
