"""What each region of the input adds to a label: Shapley values, and greedy insertion.

    phi_r = mean over orders of  v(those before r, and r) - v(those before r),      v(S) = f(x with S shown, a)

Shapley values are the mean over all orders in which regions appear. v(S) is the net's probability of label a if only the regions in S are
shown. They add up to v(all) - v(none) = f(x, a) - f(fill, a). Both estimators (:class:`Shapley` and :class:`KernelSHAP`) keep that sum
exactly.

Greedy insertion always shows the region that raises the label most. The order of the regions is the map.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.core.tensors import exact
from proofmap.methods.method import METHODS
from proofmap.methods.perturbation.regions import MaskedNet, RegionMethod, Regions
from proofmap.plugins.settings import setting


@METHODS.register
class Shapley(RegionMethod):
    """Shapley values from random orders (Castro et al. 2009). Every second order is the reverse of the previous one (Mitchell et al. 2022),
    and a random fill is drawn again for each such pair of orders.

    The values are exact from a single order if regions do not interact, as for the logits of a linear net.
    """

    name = "shapley"
    reference = "Castro et al. 2009"
    description = "Shapley values of superpixels, from random orders"
    signed = True
    stochastic = True

    orders: int = setting(20, "random orders for each image; all labels share them", least=1)

    def passes(self, inputs: Inputs, labels: int) -> int:
        count = self.count(inputs)
        if self.fill is not None and self.fill.random:
            return self.orders * count + 1
        return self.orders * (count - 1) + 2

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        count, n = regions.count, len(net.images)
        ranks = self._ranks(net, count)
        # of each order; without its start if that is always the same
        steps = count if net.random else count - 1
        ends = self.orders * steps  # the samples after all orders: everything shown, then nothing

        def shown(image: Tensor, sample: Tensor) -> Tensor:
            order, step = (sample // max(1, steps)).clamp_max(self.orders - 1), sample % max(1, steps)
            many = step + (0 if net.random else 1)
            many = torch.where(sample == ends, count, torch.where(sample > ends, 0, many))
            return ranks[image, order] < many[:, None]

        def draw(sample: Tensor) -> Tensor:
            return sample // max(1, 2 * steps)

        found = net.samples(ends + (1 if net.random else 2), regions.masks(shown), progress, draw=draw)
        labels = found.shape[2]
        path = found[:, :ends].view(n, self.orders, steps, labels)
        whole = found[:, None, None, ends].expand(n, self.orders, 1, labels)
        none = found[:, None, None, -1].expand(n, self.orders, 1, labels)
        path = torch.cat([path, whole] if net.random else [none, path, whole], dim=2)
        added = path.diff(dim=2)  # (N, orders, count, L), in the order in which regions appear
        own = added.gather(2, ranks[..., None].expand(-1, -1, -1, labels))
        return own.mean(dim=1).transpose(1, 2)

    def _ranks(self, net: MaskedNet, count: int) -> Tensor:
        """The rank ``(N, orders, count)`` of each region in each random order."""
        pairs = -(-self.orders // 2)
        image = torch.arange(len(net.images), device=net.images.device).repeat_interleave(pairs)
        number = torch.arange(pairs, device=image.device).repeat(len(net.images))
        forward = streams.permutations(net.sample_keys(image, number), count).view(-1, pairs, count)
        return torch.stack([forward, count - 1 - forward], dim=2).flatten(1, 2)[:, : self.orders]


@METHODS.register
class KernelSHAP(RegionMethod):
    """KernelSHAP (Lundberg and Lee 2017): Shapley values as a regression.

        min over phi of  sum_s (v(z_s) - v(none) - phi . z_s)^2      where  sum phi = v(all) - v(none)

    z_s marks the k of K regions that sample s shows. The size k is drawn in proportion to the Shapley kernel, (K - 1) / (k (K - k)), and
    the members uniformly. Every second set is the complement of the previous one (Covert and Lee 2021). A random fill is drawn once per
    image.
    """

    name = "kernel-shap"
    reference = "Lundberg and Lee 2017"
    description = "Shapley values of superpixels, as a regression"
    signed = True
    stochastic = True

    samples: int = setting(1000, "masked inputs for each image; all labels share them", least=2)

    def passes(self, inputs: Inputs, labels: int) -> int:
        return self.samples + 2

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        count = regions.count
        if self.samples < 2 * count:
            raise InputError(
                f"kernel-shap needs at least two samples for each of {count} regions: samples={2 * count} or more, "
                f"or fewer regions; not samples={self.samples}"
            )

        def shown(image: Tensor, sample: Tensor) -> Tensor:
            sets = (sample < self.samples)[:, None] & self._sets(net, image, sample, count)
            return sets | (sample == self.samples)[:, None]

        found = net.samples(self.samples + 2, regions.masks(shown), progress, draw=torch.zeros_like)
        values, whole, none = exact(found[:, :-2]), exact(found[:, -2]), exact(found[:, -1])
        numbers = torch.arange(self.samples, device=found.device)
        parts = []
        for image in range(len(net.images)):  # one design at a time
            sets = shown(torch.full_like(numbers, image), numbers)
            parts.append(
                constrained_least_squares(
                    exact(sets.float()), values[image] - none[image], whole[image] - none[image]
                )
            )
        return torch.stack(parts).to(found.dtype)

    def _sets(self, net: MaskedNet, image: Tensor, sample: Tensor, count: int) -> Tensor:
        """Random sets of regions ``(B, count)``; a sample with an odd index shows the complement of the previous set."""
        keys = net.sample_keys(image, sample // 2)
        sizes = torch.arange(1, max(2, count), device=keys.device, dtype=torch.float32)
        weights = 1 / (sizes * (count - sizes)) if count > 1 else torch.ones_like(sizes)
        edges = (weights / weights.sum()).cumsum(dim=0)
        size = 1 + torch.searchsorted(edges, streams.uniform(keys, 1)).clamp_max(len(sizes) - 1)
        order = streams.permutations(~keys, count)  # another stream
        return (order < size) ^ (sample % 2 == 1)[:, None]


def constrained_least_squares(design: Tensor, values: Tensor, total: Tensor) -> Tensor:
    """Least-squares coefficients ``(L, K)`` of values ``(S, L)`` on a design ``(S, K)``, without intercept, constrained to sum to ``total``
    ``(L,)``.

    >>> sets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    >>> phi = torch.tensor([[1.0], [2.0], [-4.0]])
    >>> constrained_least_squares(sets, sets @ phi, phi.sum(dim=0))
    tensor([[ 1.0000,  2.0000, -4.0000]])
    """
    gram = design.T @ design
    gram += 1e-6 * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    ones = torch.ones(len(gram), 1, dtype=gram.dtype, device=gram.device)
    solved: Tensor = torch.linalg.solve(gram, torch.cat([design.T @ values, ones], dim=1))
    free, unit = solved[:, :-1], solved[:, -1:]
    return (free - unit * ((free.sum(dim=0) - total) / unit.sum())).T


_TIE = 1e-5
"""Regions whose values differ by no more than this count as equal, and the first of them is chosen. Results in batches of another size differ
by less. For probabilities it is a share of the largest, because rounding changes log f equally for likely and unlikely labels.
"""


@METHODS.register
class GreedyInsertion(RegionMethod):
    """Greedy search for an order of regions. S_0 is empty, and S_t+1 adds to S_t the region r with the largest f(x with S_t and r shown, a).

    The map is 1 for the first of K regions and 1/K for the last. If no region changes the label, the map is 1 everywhere. The search
    optimises the insertion game itself, for right and wrong labels, so it is a hard test of soundness. Each label has its own search; all
    searches share the first step. ``candidates`` is the number of regions tried in each step: those that raised the label most when last
    tried. This costs K * candidates passes instead of K^2 / 2. Chen et al. 2024 try all regions, and add three more terms to f.
    """

    name = "greedy-insertion"
    reference = "Chen et al. 2024"
    description = "the order in which greedy search shows superpixels to raise the label"

    quantity: Literal["probability", "log-probability", "logit"] = setting(
        "log-probability", "what is explained: the net's probability f, its logarithm, or the logit"
    )
    candidates: int | None = setting(
        None, "regions tried at each step; none: all that are still hidden", least=1
    )

    def passes(self, inputs: Inputs, labels: int) -> int:
        count = self.count(inputs)
        return 0 if count == 1 else count + 1 + labels * self._passes_after_first_step(count)

    def _passes_after_first_step(self, count: int) -> int:
        """Passes for one label after the first step. The last region needs no pass."""
        return sum(min(left, self.candidates or left) for left in range(2, count))

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        count, device = regions.count, net.images.device
        if count == 1:
            return torch.ones(*net.labels.shape, 1, device=device)
        alone = torch.eye(count + 1, count, dtype=torch.bool, device=device)  # each region, then none
        shown = regions.masks(lambda image, sample: alone[sample])
        found = net.samples(count + 1, shown, progress, draw=torch.zeros_like)
        image, label = (net.labels != NO_LABEL).nonzero().unbind(dim=1)
        search = _Search(net, regions, image, label, found[image, :, label])
        with progress.task(self.name, len(image) * self._passes_after_first_step(count)) as task:
            while search.left > 0:
                if 1 < search.left < count:
                    search.try_regions(min(search.left, self.candidates or search.left), task)
                search.show_best()
        maps = torch.zeros(*net.labels.shape, count, device=device)
        maps[image, label] = search.order.masked_fill(search.high - search.low <= search.tie, 1.0)
        return maps


class _Search:
    """Greedy searches of P (image, label) pairs, side by side."""

    def __init__(self, net: MaskedNet, regions: Regions, image: Tensor, label: Tensor, first: Tensor) -> None:
        self.net, self.regions, self.image, self.label = net, regions, image, label
        self.left = regions.count
        self.base = first[:, -1:]  # (P, 1): the label's value with the regions shown so far
        self.values = first[:, :-1]  # (P, K): with each region added; the lowest number if it was not tried
        self.gains = self.values - self.base  # when last tried
        self.shown = torch.zeros_like(self.values, dtype=torch.bool)
        self.order = torch.zeros_like(self.values)
        self.low, self.high = first.aminmax(dim=1, keepdim=True)  # of all values so far

    @property
    def tie(self) -> Tensor:
        """The largest difference ``(P, 1)`` between values that count as equal."""
        return _TIE * (self.high if self.net.quantity == "probability" else torch.ones_like(self.high))

    def show_best(self) -> None:
        best = _first_largest(self.values.masked_fill(self.shown, -torch.inf), self.tie)[:, None]
        self.base = self.values.gather(1, best)
        self.order.scatter_(1, best, self.left / self.regions.count)
        self.shown.scatter_(1, best, True)
        self.left -= 1

    def try_regions(self, tried: int, task: ProgressTask) -> None:
        """Measure the values of the ``tried`` hidden regions that raised the label most when they were last tried."""
        gains = self.gains.masked_fill(self.shown, -torch.inf)
        region = gains.sort(dim=1, descending=True, stable=True).indices[:, :tried]
        pair = torch.arange(region.numel(), device=region.device) // tried

        def shown(image: Tensor, trial: Tensor) -> Tensor:
            return self.shown[pair[trial]].scatter(1, region.flatten()[trial, None], True)

        trial = torch.arange(region.numel(), device=region.device)
        masks = self.regions.masks(shown)
        found = self.net.read(self.image[pair], trial, masks, task, draw=torch.zeros_like)
        values = found.gather(1, self.label[pair, None]).view_as(region)
        self.low = torch.minimum(self.low, values.amin(dim=1, keepdim=True))
        self.high = torch.maximum(self.high, values.amax(dim=1, keepdim=True))
        untried = torch.finfo(values.dtype).min  # above what is shown already
        self.values = torch.full_like(self.gains, untried).scatter(1, region, values)
        self.gains = self.gains.scatter(1, region, values - self.base)


def _first_largest(values: Tensor, tie: Tensor) -> Tensor:
    """The index ``(P,)`` of the first value in each row of ``values`` ``(P, K)`` that is at most ``tie`` ``(P, 1)`` below the largest.

    >>> _first_largest(torch.tensor([[0.0, 2.0, 2.000001], [1.0, 0.0, 3.0]]), torch.tensor([[1e-5], [1e-5]]))
    tensor([1, 2])
    """
    return (values >= values.amax(dim=1, keepdim=True) - tie).to(torch.int8).argmax(dim=1)
