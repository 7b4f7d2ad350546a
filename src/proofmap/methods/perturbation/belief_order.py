"""Belief orders: like belief masks, but without gradients. The insertion curve of the map is as strong as the net's belief f in the label.

A search for an order of regions whose insertion curve fits f: how well an order fits, the best of all orders of few regions, and a search
among the orders of more regions.

F(S) is the net's probability of the label if the regions of a set S are shown and the others are filled. An order of K regions shows one
more region at each step: S_0 (nothing), S_1, ..., S_K (everything, with F = f). Its curve is F(S_t) over the number of positions in S_t.
The area A of the curve is the mean of the linearly interpolated curve over s = 1 .. n positions, as the metrics compute it, and

    misfit = |log (A + e) - log (f + e)|  +  steady * mean over s of min(|F(s) - f| / (f + e), 1),        e = .0005.

The first term is zero if the area equals f: the proof is then complete and sound. The second term is small if the curve reaches f early
and stays there. e is half of the paper's floor for soundness; differences between smaller probabilities hardly count.

A search starts from an estimate of how much each region adds to the log-odds of the label: each region is shown alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.methods.method import METHODS, Cost
from proofmap.methods.perturbation.regions import MaskedNet, RegionMethod, Regions
from proofmap.plugins.settings import setting
from proofmap.session import Session

Measure = Callable[[Tensor, Tensor], Tensor]
"""A function of the indices of pairs ``(J,)`` and the regions that each shows ``(J, K)``. It returns F ``(J,)`` as :func:`rounded` does."""

_FLOOR = 5e-4
_LEAST = 1e-7
"""Probabilities are kept this far from 0 and from 1."""
_GRID = 1e-4
"""Log-odds are rounded to multiples of this, because another batch size changes the last bits of F, and should seldom change the order."""
_MOST_EXACT = 8
"""Largest number of regions for which all orders are compared: 8 regions have 40,320 orders."""
_VALUES = 2**22
"""Maximum number of predicted values in memory at once."""
_LEARNED = 0.5
"""Share of a prediction error by which the contributions of the moved regions are corrected."""


def rounded(f: Tensor) -> Tensor:
    """Probabilities in float64 on the CPU, with log-odds rounded to multiples of 1e-4."""
    odds = f.detach().cpu().double().clamp(_LEAST, 1 - _LEAST).logit()
    return (odds / _GRID).round().mul(_GRID).sigmoid()


def interpolant(counts: Tensor) -> Tensor:
    """Weights ``(..., M + 1)`` for the values of a curve at the given ``counts`` of positions ``(..., M + 1)``, which go from 0 to n. The
    weighted sum of the values is the mean of the linearly interpolated curve over s = 1 .. n.

    >>> interpolant(torch.tensor([0.0, 2.0, 4.0]))
    tensor([0.1250, 0.5000, 0.3750], dtype=torch.float64)
    """
    gaps = counts.double().diff(dim=-1)
    right, left = (gaps + 1) / 2 * (gaps > 0), (gaps - 1) / 2 * (gaps > 0)
    empty = torch.zeros_like(gaps[..., :1])
    return (torch.cat([empty, right], -1) + torch.cat([left, empty], -1)) / counts[..., -1:]


def misfit(values: Tensor, weights: Tensor, f: Tensor, steady: float) -> Tensor:
    """The misfit ``(...)`` of curves ``values`` ``(..., M + 1)`` to f ``(...)``, by the formula at the top of this module. ``weights`` are
    those of :func:`interpolant`.
    """
    area = (weights * values).sum(-1)
    return _log_error(area, f) + steady * (weights * _deviation(values, f[..., None])).sum(-1)


def _log_error(area: Tensor, f: Tensor) -> Tensor:
    return ((area + _FLOOR) / (f + _FLOOR)).log().abs()


def _deviation(values: Tensor, f: Tensor) -> Tensor:
    return ((values - f).abs() / (f + _FLOOR)).clamp_max(1.0)


# ---- few regions: all orders ---------------------------------------------------------------------------------------


def _can_be_exact(regions: int, most: int) -> bool:
    """Whether ``most`` sets are enough to show every set of regions, and there are few enough regions to compare all their orders."""
    return regions <= _MOST_EXACT and 2**regions <= most


def subsets(regions: int) -> Tensor:
    """All sets of regions ``(2^K, K)``. Set number m shows region r if bit r of m is 1."""
    return (torch.arange(2**regions)[:, None] >> torch.arange(regions)) % 2 == 1


def best_orders(values: Tensor, sizes: Tensor, f: Tensor, steady: float) -> Tensor:
    """For each pair, the order ``(P, K)`` with the smallest misfit of all orders, given F ``(P, 2^K)`` of every set, the sizes of the regions
    ``(P, K)`` and f ``(P,)``.
    """
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
    """The index ``(P,)`` of the smallest value in each row ``(P, M)``; the first one, if values are equal up to rounding."""
    return (values <= values.amin(dim=1, keepdim=True) + 1e-9).to(torch.int8).argmax(dim=1)


# ---- the first scan: what each region adds -------------------------------------------------------------------------


def _scanned(regions: int) -> Tensor:
    """The sets of regions ``(S, K)`` that the first scan shows: nothing, everything without each region, each region alone, everything."""
    nothing, alone = torch.zeros(1, regions, dtype=torch.bool), torch.eye(regions, dtype=torch.bool)
    return torch.cat([nothing, ~alone, alone, ~nothing])


# ---- more regions: a search ----------------------------------------------------------------------------------------


class OrderSearch:
    """Searches for an order of K regions with a small misfit, for P (image, label) pairs at once.

    The curve of an order is measured at ``points`` of its steps. In each round every pair changes its order once: it swaps two regions, or
    moves one region to an earlier or later place. Only the points between the two places are measured again. Of all changes, the
    search tries the one with the largest predicted decrease of the misfit per measured point, and keeps it if the measured misfit is
    smaller.

    A prediction assumes that log-odds add up: it adds the contribution of the region that enters a set, and subtracts the contribution of
    the region that leaves it. When t of K regions are shown, the contribution of region r is

        (1 - t/K) * (its contribution when shown first)  +  (t/K) * (its contribution when shown last)  +  b_r.

    Shown first means alone. Shown last means: everything compared with everything but r. b_r is a correction for region r,
    learned from the errors of earlier predictions.
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
        """Measure the curves of the first orders, and start from the best.

        Args:
            measure: function that measures F of sets of regions.
            f, empty: F of everything and of nothing ``(P,)``.
            first, last: the contribution of each region when it is shown first, and last ``(P, K)``, in log-odds.
            sizes: the number of positions of each region ``(P, K)``.
            points: the number of steps at which a curve is measured.
            steady: the weight of the second term of the misfit.
            sets: the number of sets that may still be shown for each pair.
            given: an order ``(P, K)`` to start from.
        """
        self.measure, self.f, self.empty, self.sizes, self.steady = measure, f, empty, sizes, steady
        self.pairs, self.regions = first.shape
        self.left = torch.full((self.pairs,), sets)
        steps = min(points, self.regions)
        self.nodes = torch.tensor([round((m + 1) * self.regions / steps) for m in range(steps)])  # (M,)
        share = self.nodes / self.regions
        self.adds = first[..., None] * (1 - share) + last[..., None] * share  # (P, K, M)
        low, high = torch.triu_indices(self.regions, self.regions, 1)
        between = (self.nodes > low[:, None]) & (self.nodes <= high[:, None])
        some = between.any(dim=1)  # a change between two points of the curve changes nothing that is measured
        self.low, self.high, self.between = low[some], high[some], between[some]  # (C,), (C,), (C, M)
        self.cost = self.between.sum(dim=1)
        self.tried = torch.zeros(self.pairs, 3 * len(self.low), dtype=torch.bool)
        self.failures = torch.zeros(self.pairs, dtype=torch.long)
        self.order = torch.zeros(self.pairs, self.regions, dtype=torch.long)
        self.values = torch.zeros(self.pairs, len(self.nodes) + 1, dtype=torch.float64)
        self.misfit = torch.full_like(f, torch.inf)
        self._start(first, last, given)

    def _start(self, first: Tensor, last: Tensor, given: Tensor | None) -> None:
        """Start from the best of three orders of the regions: by their contribution when shown first, by their contribution when shown
        last, and by the mean of the two. The largest contribution comes first (the smallest, if f is below F with nothing shown). If an
        order is given, start from the better of that order and the order by the mean.
        """
        sign = torch.where(self.f >= self.empty, 1.0, -1.0)[:, None]
        sums = (first, last, first + last) if given is None else (first + last,)
        orders = [(sign * gains).sort(dim=1, descending=True, stable=True).indices for gains in sums]
        everyone = torch.ones(self.pairs, len(self.nodes), dtype=torch.bool)
        everyone[:, -1] = False  # everything is shown
        ends = torch.cat([self.empty[:, None], self.f[:, None].expand(-1, len(self.nodes))], dim=1)
        for order in orders if given is None else [given, *orders]:
            self._keep_better(order, self._measured(order, everyone, ends))

    def weights(self, order: Tensor) -> Tensor:
        """For each order ``(P, K)``, the weights ``(P, M + 1)`` of the points of its curve. The weighted sum of the points is the area."""
        counts = self.sizes.gather(1, order).cumsum(dim=1)[:, self.nodes - 1]
        return interpolant(torch.cat([torch.zeros_like(counts[:, :1]), counts], dim=1))

    def _measured(self, order: Tensor, where: Tensor, values: Tensor) -> Tensor:
        """The curves ``(P, M + 1)`` of the orders ``(P, K)``: measured at the points marked by ``where`` ``(P, M)``, and equal to ``values``
        at the other points.
        """
        pair, node = where.nonzero(as_tuple=True)
        shown = order.argsort(dim=1)[pair] < self.nodes[node, None]
        values = values.clone()
        values[pair, node + 1] = self.measure(pair, shown)
        self.left -= where.sum(dim=1)
        return values

    def _keep_better(
        self, order: Tensor, values: Tensor, among: Tensor | None = None, by: float = 0.0
    ) -> Tensor:
        """For each pair, keep the new order and its curve if its misfit is smaller than that of the present order by more than ``by``.

        ``among`` ``(P,)`` restricts this to some of the pairs. Returns a mask ``(P,)`` of the pairs whose order was replaced.
        """
        found = misfit(values, self.weights(order), self.f, self.steady)
        better = found < self.misfit - by
        better = better if among is None else better & among
        self.order[better], self.values[better], self.misfit[better] = (
            order[better],
            values[better],
            found[better],
        )
        return better

    def run(self, tolerance: float, patience: int, *, persist: bool = False) -> None:
        """Try changes until the misfit is at most ``tolerance``, the sets are used up, no change is predicted to help, or ``patience``
        changes in a row did not help. With ``persist``, the search goes on if no change is predicted to help: it tries the least bad one.
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
            better = self._keep_better(order, values, going, by=1e-9)
            self.tried[better] = False
            self.tried[going & ~better, change[going & ~better]] = True
            self.failures = torch.where(better, 0, self.failures + going)

    def _shifts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Three tensors of contributions in log-odds, for the present orders.

        The first ``(P, K, M)`` has the contribution of the region at each of K places, at each of M points of the curve. The second and
        third ``(P, M)`` have, at each point, the contribution of the last region that is shown there, and of the next region. These two are
        measured, not estimated, if the curve also has a point one region earlier or later.
        """
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
        """For each pair marked by ``going`` ``(P,)``, the index ``(P,)`` of the untried change with the largest predicted decrease of the
        misfit per measured point, and that decrease ``(P,)``. The decrease is minus infinity for other pairs, and if all changes were
        tried. Predictions are in float32.
        """
        adds, last, after = (x.float() for x in self._shifts())
        whole = self.weights(self.order)
        area, now = (whole * self.values).sum(dim=1), self.misfit.float()
        values, weights = self.values[:, 1:].float(), whole[:, 1:].float()
        odds, f = self.values[:, 1:].logit().float(), self.f.float()
        away, believed = _deviation(values, f[:, None]), (area - self.f).float()
        spread, unit = now - _log_error(area, self.f).float(), 1 / (f + _FLOOR)
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
            gain[p] = gains.gather(1, change[p, None])[:, 0].to(gain)
        return change, gain

    def _learn(self, move: Tensor, place: Tensor, values: Tensor, where: Tensor) -> None:
        """Correct the contributions of the regions that moved by half of the mean prediction error, at the measured points marked by ``where``
        ``(P, M)``.
        """
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
    """For each place of a changed order, the place ``(P, K)`` where its region was before. Change 0 swaps the regions at the places ``low``
    and ``high`` ``(P,)``, change 1 moves the region at ``high`` forward to ``low``, and change 2 moves the region at ``low`` back to
    ``high``.

    >>> _moved(4, torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), torch.tensor([2, 2, 2])).tolist()
    [[2, 1, 0, 3], [2, 0, 1, 3], [1, 2, 0, 3]]
    """
    t, move, low, high = torch.arange(regions)[None], move[:, None], low[:, None], high[:, None]
    inside = (t >= low) & (t <= high)
    exchanged = torch.where(t == low, high, torch.where(t == high, low, t))
    forward = torch.where(inside, torch.where(t == low, high, t - 1), t)
    back = torch.where(inside, torch.where(t == high, low, t + 1), t)
    return torch.where(move == 0, exchanged, torch.where(move == 1, forward, back))


_FEW = 32
"""Up to this number of regions, every step of a curve is measured."""
_UNMOVED = 1e-5
"""Relative change of the probability F that is due to rounding. If F changes no more than this, the net ignores what it is shown."""


@METHODS.register
class BeliefOrder(RegionMethod):
    """The order of regions whose insertion curve reaches f(x, a) and stays there, found without gradients.

    f(x, a) is the net's probability of label a for the whole input. The insertion curve is the probability while the regions are shown one
    after the other. The map is 1 for the first of K regions and 1/K for the last. If no region changes the label, the map is 1 everywhere.

    :mod:`proofmap.methods.perturbation.belief_order` defines how well an order fits, and the search. If there are at most 8 regions, and the
    budget covers all 2^K sets of them, the order is the best of all. Otherwise each label has its own search. It first shows each region
    alone and everything without that region (2 K + 2 sets, which all labels share), and then tries exchanges of regions on measured curves.
    A net with two labels has
    one search: their probabilities sum to one, so an order that fits the less probable label fits the other too. With a random fill, the
    probability of a set is the mean over ``draws`` backgrounds, which are the same for all sets of an image; each background takes a pass.
    """

    name = "belief-order"
    revision = 3
    description = "an order of columns or superpixels whose proof is as strong as the net's belief"

    quantity: Literal["probability"] = setting(
        "probability", "what the curve shows; always the label's probability"
    )
    regions: int = setting(
        100, "approximate number of regions: superpixels, or segments of a series; each column of a table is one", least=1
    )  # fmt: skip
    budget: int | None = setting(
        None,
        "maximum number of forward passes for each label; none: 10 for each region, at least 500, times the draws",
        least=1,
    )
    draws: int = setting(
        5, "number of backgrounds for each image, if the fill is random; the curve is their mean", least=1
    )
    points: int = setting(
        25,
        "number of points at which a curve is measured; all points if there are fewer than 33 regions",
        least=2,
    )
    steady: float = setting(
        0.1,
        "weight of the curve's distance from f, the net's probability, relative to the error of its area",
        least=0,
    )
    tolerance: float = setting(
        0.01,
        "end the search for a label when its curve misfits the net's probability by at most this",
        least=0,
    )
    patience: int = setting(
        20, "end the search after this number of changes in a row that did not help", least=1
    )

    @property
    def drawn(self) -> int:
        """Number of backgrounds for each set of regions; 1 if the fill is not random."""
        return self.draws if self.fill is not None and self.fill.random else 1

    def sets_for(self, regions: int) -> int:
        """Number of sets of regions that may be shown for each label."""
        return max(500, 10 * regions) if self.budget is None else int(self.budget) // self.drawn

    def curve_points(self, regions: int) -> int:
        return regions if regions <= _FEW else self.points

    @staticmethod
    def scan_sets(regions: int) -> int:
        """The number of sets in the first scan."""
        return 2 + 2 * regions

    def least_sets(self, regions: int, *, given: bool = False) -> int:
        """The number of sets that the start of a search shows, with or without a given order."""
        return (2 if given else 3) * (min(self.curve_points(regions), regions) - 1)

    def passes(self, inputs: Inputs, labels: int) -> int:
        count = self.count(inputs)
        most, scan = self.sets_for(count), self.scan_sets(count)
        if count == 1:
            return 0
        if _can_be_exact(count, most):
            return self.drawn << count
        return self.drawn * (scan + labels * max(0, most - scan))

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        two = session is not None and _have_two_labels(session.net)
        cost = super().cost(1 if two else labels, session)
        return cost + Cost(forward=1) if two and cost is not None else cost

    @torch.no_grad()
    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        net = session.net
        if not _have_two_labels(net):
            return super().maps(session, images, labels)
        members = torch.tensor(net.label_set, device=images.device)
        f = net.frozen().probabilities(images)[:, members]
        maps = super().maps(session, images, members[f.argmin(dim=1)][:, None])
        return maps.expand(-1, labels.shape[1], *maps.shape[2:])

    @torch.no_grad()
    def improved(self, session: Session, images: Tensor, labels: Tensor, maps: Tensor) -> Tensor:
        """Maps ``(N, L, *positions)`` found by a search that starts from the orders of the given ``maps`` ``(N, L, *positions)``. Every
        position is a region.
        """
        net = MaskedNet(self, session, images, labels)
        regions = Regions.each_position(images, net.inputs)
        return regions.spread(self.values(net, regions, session.progress, maps.flatten(2)))

    def values(
        self, net: MaskedNet, regions: Regions, progress: Progress, start: Tensor | None = None
    ) -> Tensor:
        """The values ``(N, L, K)`` of all regions in the maps. If ``start`` ``(N, L, K)`` is given, the search starts from the orders of these
        values.
        """
        count, most, draws = regions.count, self.sets_for(regions.count), self.drawn
        if count == 1:
            return torch.ones(*net.labels.shape, 1, device=net.images.device)
        exactly = start is None and _can_be_exact(count, most)
        points, scan = self.curve_points(count), self.scan_sets(count)
        least = scan + self.least_sets(count, given=start is not None)
        if not exactly and most < least:
            several = f" and {draws} draws of the fill" if draws > 1 else ""
            raise InputError(
                f"belief-order needs at least {draws * least} passes for {count} regions{several}, budget is {self.budget}; "
                f"give more passes, or fewer {'draws or ' if draws > 1 else ''}regions"
            )
        shown = subsets(count) if exactly else _scanned(count)
        given = shown.to(net.images.device)
        masks = regions.masks(lambda image, sample: given[sample // draws])
        found = net.samples(len(shown) * draws, masks, progress, draw=lambda sample: sample % draws)
        found = found.unflatten(1, (-1, draws)).mean(dim=2)
        problem = _Pairs(net, regions, draws)
        values, sizes = problem.read(found), regions.sizes().cpu()[problem.image]
        f, empty = values[:, -1], values[:, 0]
        if exactly:
            order = best_orders(values, sizes, f, self.steady)
        else:
            first = values[:, count + 1 : -1].logit() - empty.logit()[:, None]
            with progress.task(self.name, len(f) * (most - scan) * draws) as task:
                search = OrderSearch(
                    lambda pair, shown: problem.measure(pair, shown, task),
                    f,
                    empty,
                    first,
                    f.logit()[:, None] - values[:, 1 : count + 1].logit(),
                    sizes,
                    points=points,
                    steady=self.steady,
                    sets=most - scan,
                    given=None if start is None else problem.orders(start),
                )
                search.run(self.tolerance, self.patience, persist=len(net.inputs.positions) == 2)
                task.advance(int(search.left.sum()) * draws)
            order = search.order
        unmoved = values.amax(dim=1) - values.amin(dim=1) <= _UNMOVED * values.amax(dim=1)
        ranks = order.argsort(dim=1)
        maps = ((count - ranks) / count).masked_fill(unmoved[:, None], 1.0)
        return problem.spread(maps)


class _Pairs:
    """The P (image, label) pairs for which an order is searched, without padding."""

    def __init__(self, net: MaskedNet, regions: Regions, draws: int) -> None:
        self.net, self.regions, self.draws = net, regions, draws
        self.image, self.label = (net.labels != NO_LABEL).nonzero().cpu().unbind(dim=1)

    def read(self, found: Tensor) -> Tensor:
        """The values ``(P, S)`` of all pairs, selected from the values ``(N, S, L)`` of S sets for all images and labels."""
        return rounded(found.cpu()[self.image, :, self.label])

    def orders(self, values: Tensor) -> Tensor:
        """The orders ``(P, K)`` of the regions of all pairs, largest value first, from values ``(N, L, K)`` for all images and labels."""
        own = values.cpu()[self.image, self.label]
        return own.sort(dim=1, descending=True, stable=True).indices

    def measure(self, pair: Tensor, shown: Tensor, task: ProgressTask) -> Tensor:
        """The probabilities F ``(J,)`` of the pairs ``(J,)`` with the regions ``shown`` ``(J, K)``: means over the draws of the fill."""
        device, draws = self.net.images.device, self.draws
        image, shown = self.image[pair].to(device).repeat_interleave(draws), shown.to(device)

        masks = self.regions.masks(lambda image, number: shown[number // draws])
        trial = torch.arange(len(image), device=device)
        found = self.net.read(image, trial, masks, task, draw=lambda number: number % draws)
        means = found.unflatten(0, (-1, draws)).mean(dim=1)
        return rounded(means.cpu().gather(1, self.label[pair, None])[:, 0])

    def spread(self, maps: Tensor) -> Tensor:
        """Maps ``(P, K)`` of pairs, arranged by image and label: ``(N, L, K)``."""
        out = torch.zeros(*self.net.labels.shape, maps.shape[1])
        out[self.image, self.label] = maps
        return out.to(self.net.images)


def _have_two_labels(classifier: Classifier) -> bool:
    """Whether the classifier has exactly two labels whose probabilities sum to one."""
    two = len(classifier.label_set) == 2 and not classifier.independent
    return two and (classifier.renormalise or len(classifier.names) == 2)
