"""Orders of regions whose insertion curve fits a probability: how well an order fits, all orders of few regions, and a search.

A set S of regions is shown, the others are filled, and the net gives the label the probability F(S). An order of K regions shows the sets
S_0 (nothing), S_1, ..., S_K (everything, F = f). Its curve is F(S_t) over the number of positions in S_t, its area A is the mean over
every number s = 1 .. n of the linear interpolant, as judges compute it, and

    misfit = |log (A + e) - log (f + e)|  +  steady * mean over s of min(|F(s) - f| / (f + e), 1),        e = .0005.

The first term is zero if the area equals f: the proof is then complete and sound. The second prefers, among such orders, one whose curve
reaches f early and stays there. e is where probabilities stop to matter: half of the paper's floor for soundness.

A search needs to know what each region adds, in log-odds: to nothing, if it is shown alone, or on average to patches. :func:`patches` are random sets of
regions that lie together, and :func:`effects` is

    w = argmin  sum over sets S of (logit F(S) - c - sum over r in S of w_r)^2  +  ridge |w|^2  +  smooth * sum over r, q of k(r, q) (w_r - w_q)^2 / 2,

where k(r, q) = exp(-d^2 / (2 s^2)) falls with the distance d of two regions, and s is their usual distance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import torch
from torch import Tensor

Measure = Callable[[Tensor, Tensor], Tensor]
"""From pairs ``(J,)`` and the regions that are shown ``(J, K)`` to F ``(J,)``, as :func:`rounded` gives it."""

_FLOOR = 5e-4
_LEAST = 1e-7
"""Smaller probabilities, and those nearer to 1, count as this."""
_GRID = 1e-4
"""Log-odds are rounded to multiples of this, so that batches of other sizes, which round otherwise, seldom lead to another order."""
_MOST_EXACT = 8
"""Regions whose orders are all compared: 8 have 40,320."""
_VALUES = 2**22
"""Predicted values held at once."""
_PATCH = 2.0
"""Range of the field of which patches are made, in usual distances of regions."""
_SHOWN = (0.1, 0.9)
"""Shares of regions in patches."""
_RIDGE, _SMOOTH = 3.0, 3.0
_LEARNED = 0.5
"""Share of an error of the prediction that is put down to the regions that moved."""


def rounded(f: Tensor) -> Tensor:
    """Probabilities in float64 on the CPU, rounded in log-odds."""
    odds = f.detach().cpu().double().clamp(_LEAST, 1 - _LEAST).logit()
    return (odds / _GRID).round().mul(_GRID).sigmoid()


def interpolant(counts: Tensor) -> Tensor:
    """Weights ``(..., M + 1)`` of values at counts ``(..., M + 1)`` of positions, from 0 to n. The weighted sum is the mean over s = 1 .. n
    of the linear interpolant.

    >>> interpolant(torch.tensor([0.0, 2.0, 4.0]))
    tensor([0.1250, 0.5000, 0.3750], dtype=torch.float64)
    """
    gaps = counts.double().diff(dim=-1)
    right, left = (gaps + 1) / 2 * (gaps > 0), (gaps - 1) / 2 * (gaps > 0)
    empty = torch.zeros_like(gaps[..., :1])
    return (torch.cat([empty, right], -1) + torch.cat([left, empty], -1)) / counts[..., -1:]


def misfit(values: Tensor, weights: Tensor, f: Tensor, steady: float) -> Tensor:
    """The misfit of curves ``(..., M + 1)`` with these weights to f ``(...)``, as the docstring of this module defines it."""
    area = (weights * values).sum(-1)
    return log_error(area, f) + steady * (weights * deviation(values, f[..., None])).sum(-1)


def log_error(area: Tensor, f: Tensor) -> Tensor:
    return ((area + _FLOOR) / (f + _FLOOR)).log().abs()


def deviation(values: Tensor, f: Tensor) -> Tensor:
    return ((values - f).abs() / (f + _FLOOR)).clamp_max(1.0)


# ---- few regions: all orders ---------------------------------------------------------------------------------------


def can_be_exact(regions: int, most: int) -> bool:
    """Whether all sets of regions can be shown, and all their orders compared."""
    return regions <= _MOST_EXACT and 2**regions <= most


def subsets(regions: int) -> Tensor:
    """All sets of regions ``(2^K, K)``; set number m shows region r if bit r of m is 1."""
    return (torch.arange(2**regions)[:, None] >> torch.arange(regions)) % 2 == 1


def best_orders(values: Tensor, sizes: Tensor, f: Tensor, steady: float) -> Tensor:
    """The order ``(P, K)`` with the least misfit of all, from F of every subset ``(P, 2^K)`` and the sizes of regions ``(P, K)``."""
    regions = sizes.shape[1]
    orders = torch.tensor(list(permutations(range(regions))))
    sets = torch.cat([torch.zeros_like(orders[:, :1]), (1 << orders).cumsum(dim=1)], dim=1)
    found = []
    for value, size, believed in zip(values, sizes, f, strict=True):
        counts = torch.cat([torch.zeros(len(orders), 1, dtype=size.dtype), size[orders].cumsum(dim=1)], dim=1)
        worst = misfit(value[sets], interpolant(counts), believed.expand(len(orders)), steady)
        found.append(orders[_first_least(worst[None])[0]])
    return torch.stack(found)


def _first_least(values: Tensor) -> Tensor:
    """The first index ``(P,)`` of the least value ``(P, M)``, where values that differ by rounding are equal."""
    return (values <= values.amin(dim=1, keepdim=True) + 1e-9).to(torch.int8).argmax(dim=1)


# ---- what regions add: patches -------------------------------------------------------------------------------------


def _nearness(centres: Tensor, span: float) -> Tensor:
    """exp(-d^2 / (2 s^2)) for the distances d ``(..., K, K)`` of centres ``(..., K, D)`` in units of the usual distance, s = ``span``."""
    extent = centres.amax(dim=-2) - centres.amin(dim=-2)
    usual = (extent.prod(dim=-1) / centres.shape[-2]).clamp_min(1e-12) ** (1 / centres.shape[-1])
    distance = torch.cdist(centres, centres) / usual[..., None, None]
    return (-0.5 * (distance / span).square()).exp()


def patches(centres: Tensor, each: int) -> Tensor:
    """Random sets of regions that lie together, ``each`` for each region, ``(N, each * K, K)``, from the centres of regions ``(N, K, D)``: where a smooth random field is largest.

    The random numbers are the same for all images and seeds, so an image has the same sets in any batch.
    """
    regions = centres.shape[1]
    near = _nearness(centres.double().cpu(), _PATCH) + 1e-3 * torch.eye(regions, dtype=torch.float64)
    count = each * regions
    draws = torch.randn(count, regions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    field: Tensor = draws @ torch.linalg.cholesky(near).mT  # (N, S, K)
    least, most = _SHOWN
    shares = least + (most - least) * ((torch.arange(count) * _GOLDEN) % 1)
    ranks = field.argsort(dim=2, descending=True, stable=True).argsort(dim=2)
    return ranks < (shares * regions).round().clamp(1, regions - 1)[:, None]


_GOLDEN = 0.618033988749895
"""Multiples of the golden ratio, modulo 1, spread evenly at any number of them."""


def effects(shown: Tensor, values: Tensor, centres: Tensor) -> Tensor:
    """The contribution ``(P, K)`` of each region in log-odds, from F ``(P, S)`` of sets ``(P, S, K)``, as the docstring of this module
    defines it.
    """
    design = shown.double() - shown.double().mean(dim=1, keepdim=True)
    odds = values.logit() - values.logit().mean(dim=1, keepdim=True)
    near = _nearness(centres.double().cpu(), 1.0)
    roughness = torch.diag_embed(near.sum(dim=2)) - near
    ridge = _RIDGE * torch.eye(design.shape[2], dtype=torch.float64)
    gram = design.mT @ design + ridge + _SMOOTH * roughness
    found: Tensor = torch.linalg.solve(gram, design.mT @ odds[..., None])[..., 0]
    return found


# ---- more regions: exchanges ---------------------------------------------------------------------------------------


class OrderSearch:
    """Searches of P (image, label) pairs at once for an order with a small misfit.

    The curve of an order is measured after ``points`` of its steps. In each round every pair tries one change of its order: two regions are
    exchanged, or one is moved to an earlier or a later place. Only the points between the two places have to be measured again. The change is the one with the
    largest predicted decrease of the misfit per set that has to be shown. It is kept if the measured misfit decreased.

    The prediction adds, in log-odds, what a region adds and takes away what another one added. What region r adds when t of K regions are
    shown is

        (1 - t/K) * (what it adds at first)  +  (t/K) * (what everything else lacks without it)  +  b_r,

    where b_r is learned from the errors of earlier predictions. At first means to nothing, or to patches.
    """

    def __init__(
        self,
        measure: Measure,
        f: Tensor,
        empty: Tensor,
        first: Tensor,
        last: Tensor,
        sizes: Tensor,
        *,
        points: int,
        steady: float,
        sets: int,
        given: Tensor | None = None,
    ) -> None:
        """``f`` and ``empty`` ``(P,)`` are F of everything and of nothing, ``first`` and ``last`` ``(P, K)`` what each region adds at first
        and at last, in log-odds; ``sets`` is how many sets each pair may still show, ``given`` an order ``(P, K)`` to start from.
        """
        self.measure, self.f, self.empty, self.sizes, self.steady = measure, f, empty, sizes, steady
        self.pairs, self.regions = first.shape
        self.left = torch.full((self.pairs,), sets)
        steps = min(points, self.regions)
        self.nodes = torch.tensor([round((m + 1) * self.regions / steps) for m in range(steps)])  # (M,)
        share = self.nodes / self.regions
        self.adds = first[..., None] * (1 - share) + last[..., None] * share  # (P, K, M)
        self.order = self._start(first, last, given)
        low, high = torch.triu_indices(self.regions, self.regions, 1)
        between = (self.nodes > low[:, None]) & (self.nodes <= high[:, None])
        some = between.any(dim=1)  # a change between two points of the curve changes nothing that is measured
        self.low, self.high, self.between = low[some], high[some], between[some]  # (C,), (C,), (C, M)
        self.cost = self.between.sum(dim=1)
        self.tried = torch.zeros(self.pairs, 3 * len(self.low), dtype=torch.bool)
        self.failures = torch.zeros(self.pairs, dtype=torch.long)

    def _start(self, first: Tensor, last: Tensor, given: Tensor | None) -> Tensor:
        """The best of three orders ``(P, K)``: by the contribution of regions when they are shown first, last, or on average. If f is below
        F of nothing, the smallest contribution comes first. A given order is compared only with the last of these.
        """
        sign = torch.where(self.f >= self.empty, 1.0, -1.0)[:, None]
        sums = (first, last, first + last) if given is None else (first + last,)
        orders = [(sign * gains).sort(dim=1, descending=True, stable=True).indices for gains in sums]
        best = torch.full_like(self.f, torch.inf)
        self.values = torch.zeros(self.pairs, len(self.nodes) + 1, dtype=torch.float64)
        order = torch.zeros(self.pairs, self.regions, dtype=torch.long)
        everyone = torch.ones(self.pairs, len(self.nodes), dtype=torch.bool)
        everyone[:, -1] = False  # everything is shown
        start = torch.cat([self.empty[:, None], self.f[:, None].expand(-1, len(self.nodes))], dim=1)
        for tried in orders if given is None else [given, *orders]:
            values = self._measured(tried, everyone, start)
            found = misfit(values, self.weights(tried), self.f, self.steady)
            better = found < best
            best = torch.where(better, found, best)
            self.values[better], order[better] = values[better], tried[better]
        self.misfit = best
        return order

    @staticmethod
    def least_sets(regions: int, points: int, *, given: bool = False) -> int:
        """The number of sets that the start of a search shows, with or without a given order."""
        return (2 if given else 3) * (min(points, regions) - 1)

    def weights(self, order: Tensor) -> Tensor:
        counts = self.sizes.gather(1, order).cumsum(dim=1)[:, self.nodes - 1]
        return interpolant(torch.cat([torch.zeros_like(counts[:, :1]), counts], dim=1))

    def _measured(self, order: Tensor, where: Tensor, values: Tensor) -> Tensor:
        """The values ``(P, M + 1)``, in which the points ``where`` ``(P, M)`` were measured for these orders."""
        pair, node = where.nonzero(as_tuple=True)
        shown = order.argsort(dim=1)[pair] < self.nodes[node, None]
        values = values.clone()
        values[pair, node + 1] = self.measure(pair, shown)
        self.left -= where.sum(dim=1)
        return values

    def run(self, tolerance: float, patience: int, *, persist: bool = False) -> None:
        """Try changes until the misfit is within the tolerance, the sets are used up, no change is predicted to help, or ``patience``
        changes in a row did not help. With ``persist``, changes that are predicted not to help are tried too, the least bad first.
        """
        going = torch.ones(self.pairs, dtype=torch.bool)
        while True:
            going &= (self.misfit > tolerance) & (self.failures < patience)
            change, gain = self._proposed(going)
            move, place = change // len(self.low), change % len(self.low)
            going &= (gain > (-torch.inf if persist else 0)) & (self.cost[place] <= self.left)
            if not bool(going.any()):
                return
            where = self.between[place] & going[:, None]
            order = self.order.gather(1, _moved(self.regions, move, self.low[place], self.high[place]))
            values = self._measured(order, where, self.values)
            self._learn(move, place, values, where)
            found = misfit(values, self.weights(order), self.f, self.steady)
            better = going & (found < self.misfit - 1e-9)
            self.tried[better] = False
            self.tried[going & ~better, change[going & ~better]] = True
            self.failures = torch.where(better, 0, self.failures + going)
            self.order[better], self.values[better], self.misfit[better] = (
                order[better],
                values[better],
                found[better],
            )

    def _shifts(self) -> tuple[Tensor, Tensor, Tensor]:
        """In log-odds: what the region at each place adds at each point ``(P, K, M)``, and what the last region shown at each point and the next one
        add there ``(P, M)``; measured, if the curve has a point on either side."""
        adds = self.adds.gather(1, self.order[..., None].expand_as(self.adds))
        points = torch.arange(len(self.nodes))
        last = adds[:, self.nodes - 1, points]
        after = adds[:, self.nodes.clamp_max(self.regions - 1), points]
        odds = self.values.logit()
        steps, single = odds.diff(dim=1), torch.cat([self.nodes[:1], self.nodes.diff()]) == 1
        last = torch.where(single, steps, last)
        after[:, :-1] = torch.where(single[1:], steps[:, 1:], after[:, :-1])
        return adds, last, after

    def _proposed(self, going: Tensor) -> tuple[Tensor, Tensor]:
        """The change ``(P,)`` with the largest predicted decrease of the misfit per pass, for the pairs ``going`` ``(P,)``, and that
        decrease; minus infinity for others, and if all were tried. Predictions are made in float32.
        """
        adds, last, after = (x.float() for x in self._shifts())
        whole = self.weights(self.order)
        area, now = (whole * self.values).sum(dim=1), self.misfit.float()
        values, weights = self.values[:, 1:].float(), whole[:, 1:].float()
        odds, f = self.values[:, 1:].logit().float(), self.f.float()
        away, believed = deviation(values, f[:, None]), (area - self.f).float()
        spread, unit = now - log_error(area, self.f).float(), 1 / (f + _FLOOR)
        change, gain = torch.zeros(self.pairs, dtype=torch.long), torch.full_like(self.f, -torch.inf)
        for p in going.nonzero()[:, 0].split(max(1, _VALUES // self.between.numel())):
            enters, leaves = adds[p][:, self.high], adds[p][:, self.low]  # (p, C, M)
            weight = weights[p, None] * self.between
            old, old_away = (weight * values[p, None]).sum(-1), (weight * away[p, None]).sum(-1)
            found = []
            for shift in (enters - leaves, enters - last[p, None], after[p, None] - leaves):
                shown = shift.add_(odds[p, None]).sigmoid_()
                error = believed[p, None] + (shown * weight).sum(-1) - old  # of the area
                strays = shown.sub_(f[p, None, None]).abs_().mul_(unit[p, None, None]).clamp_max_(1.0)
                steadier = spread[p, None] + self.steady * ((strays * weight).sum(-1) - old_away)
                predicted = (error * unit[p, None]).clamp_min(-0.999999).log1p().abs() + steadier
                found.append((now[p, None] - predicted) / (self.cost + 1))
            gains = torch.cat(found, dim=1).masked_fill(self.tried[p], -torch.inf)
            change[p] = _first_least(-gains)
            gain[p] = gains.gather(1, change[p, None])[:, 0].double()
        return change, gain

    def _learn(self, move: Tensor, place: Tensor, values: Tensor, where: Tensor) -> None:
        """Correct the estimated contributions of the two regions by the mean error of the prediction."""
        adds, last, after = self._shifts()
        everyone = torch.arange(self.pairs)
        enters, leaves = adds[everyone, self.high[place]], adds[everyone, self.low[place]]
        kind = move[:, None]
        shift = torch.where(kind == 0, enters - leaves, torch.where(kind == 1, enters - last, after - leaves))
        wrong = torch.where(where, values[:, 1:].logit() - self.values[:, 1:].logit() - shift, 0.0)
        error = _LEARNED * wrong.sum(dim=1) / where.sum(dim=1).clamp_min(1)
        share = torch.where(move == 0, 0.5, 1.0)
        for places, sign, part in ((self.high[place], 1.0, move != 2), (self.low[place], -1.0, move != 1)):
            region = self.order[everyone, places]
            self.adds[everyone, region] += torch.where(part, sign * share * error, 0.0)[:, None]


def _moved(regions: int, move: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """For each place of a changed order, the place its region comes from ``(P, K)``. Change 0 exchanges two regions, 1 moves the later one
    forward, 2 the earlier one back.

    >>> _moved(4, torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), torch.tensor([2, 2, 2])).tolist()
    [[2, 1, 0, 3], [2, 0, 1, 3], [1, 2, 0, 3]]
    """
    t, move, low, high = torch.arange(regions)[None], move[:, None], low[:, None], high[:, None]
    inside = (t >= low) & (t <= high)
    exchanged = torch.where(t == low, high, torch.where(t == high, low, t))
    forward = torch.where(inside, torch.where(t == low, high, t - 1), t)
    back = torch.where(inside, torch.where(t == high, low, t + 1), t)
    return torch.where(move == 0, exchanged, torch.where(move == 1, forward, back))


def scan_sets(regions: int, patches: int = 0) -> int:
    """Sets of the first scan: everything, nothing, everything without each region, and each region alone or ``patches`` for each."""
    return 2 + regions + regions * (patches or 1)


def default_budget(regions: int) -> int:
    """The budget if none is given."""
    return max(500, 10 * regions)
