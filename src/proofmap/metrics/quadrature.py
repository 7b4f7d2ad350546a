"""Quadrature: how a curve becomes one number. Which counts of positions are evaluated, and with what weights.

The paper's AUC is the mean of p(s) over every s = 1 .. n. Evaluating all n = 50,176 counts would take too long, so p is computed at evenly
spaced *integer* counts and interpolated linearly between them. The mean of the interpolation over all s is a weighted sum of the computed
values. With ``points="all"`` it is the definition itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

from proofmap.core.errors import InputError

Rule = Literal["mean", "right", "trapezoid"]


@dataclass(frozen=True, kw_only=True)
class Quadrature:
    """A quadrature with ``points`` steps over ``within`` (a range of shares of the positions), summed by ``rule``.

    - ``mean``: the curve is interpolated linearly, and its values at all integer counts in the range are averaged (the paper's definition);
    - ``right``: the plain mean of the values after each step (the released code);
    - ``trapezoid``: as RISE does it.

    >>> nodes = Quadrature(points=2).nodes(4)
    >>> nodes.counts.tolist(), nodes.weights.tolist()
    ([0, 2, 4], [0.125, 0.5, 0.375])
    """

    points: int | Literal["all"] = 32
    rule: Rule = "mean"
    within: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.points != "all" and (not isinstance(self.points, int) or self.points < 1):
            raise InputError(f"points must be a positive number or 'all', not {self.points!r}")
        if self.rule not in get_args(Rule):
            raise InputError(f"rule must be one of {', '.join(get_args(Rule))}, not {self.rule!r}")
        low, high = self.within
        if not 0 <= low < high <= 1:
            raise InputError(f"within must be a range of shares such as (0.2, 0.6), not {self.within}")

    def nodes(self, n: int) -> Nodes:
        """The counts that are evaluated for ``n`` positions, with weights that sum to one."""
        low, high = (_whole(n * share) for share in self.within)
        if high <= low:
            raise InputError(f"the range {self.within} holds none of {n} positions")
        if self.rule == "right":
            steps = n if self.points == "all" else min(self.points, n)
            first, last = (_whole(steps * share) for share in self.within)
            if last <= first:
                raise InputError(f"the range {self.within} holds none of {steps} points")
            counts = [round(j * n / steps) for j in range(first + 1, last + 1)]
            even = torch.full((len(counts),), 1 / len(counts), dtype=torch.float64)
            return Nodes(torch.tensor(counts), even, _halved(even, counts, self.rule))
        span = high - low
        steps = span if self.points == "all" else min(self.points, span)
        counts = [low + round(j * span / steps) for j in range(steps + 1)]
        weights = _interpolant(counts, self.rule)
        return Nodes(torch.tensor(counts), weights, _halved(weights, counts, self.rule))


@dataclass(frozen=True)
class Nodes:
    """The counts at which a curve p is evaluated, and their weights: ``AUC = sum(weights * p(counts))``. ``coarse`` are the weights
    of the same rule on every second count.
    """

    counts: Tensor
    weights: Tensor
    coarse: Tensor


def _whole(count: float) -> int:
    """The count rounded down, after rounding errors are removed: 100 * 0.29 = 28.999999999999996 gives 29."""
    return int(count + 1e-9)


def _interpolant(counts: list[int], rule: Rule) -> Tensor:
    """Weights of the values at ``counts`` in the mean of their linear interpolant: over the integers in (first, last] for ``mean``,
    otherwise as an integral.
    """
    weights = [0.0] * len(counts)
    for j, (a, b) in enumerate(pairwise(counts)):
        right = (b - a + 1) / 2 if rule == "mean" else (b - a) / 2
        weights[j] += (b - a) - right
        weights[j + 1] += right
    return torch.tensor(weights, dtype=torch.float64) / (counts[-1] - counts[0])


def _halved(weights: Tensor, counts: list[int], rule: Rule) -> Tensor:
    """The weights of the same rule on every second count. The difference of the two areas estimates the error from the step size."""
    n = len(counts)
    if n < 3 or (rule == "mean" and counts[-1] - counts[0] == n - 1):
        return weights  # nothing to halve, or every count was taken and there is no error
    kept = sorted({*range(n - 1, -1, -2), *([] if rule == "right" else [0])})
    coarse = torch.zeros_like(weights)
    picked = [counts[i] for i in kept]
    coarse[kept] = 1 / len(kept) if rule == "right" else _interpolant(picked, rule)
    return coarse
