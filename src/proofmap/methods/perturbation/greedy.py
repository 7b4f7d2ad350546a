"""Greedy insertion: always show the region that raises the label most. The order of the regions is the map."""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.methods.method import METHODS
from proofmap.methods.perturbation.regions import MaskedNet, Quantity, RegionMethod, Regions
from proofmap.plugins.settings import setting

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

    quantity: Quantity = setting(
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
        best = first_largest(self.values.masked_fill(self.shown, -torch.inf), self.tie)[:, None]
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


def first_largest(values: Tensor, tie: Tensor) -> Tensor:
    """The index ``(P,)`` of the first value in each row of ``values`` ``(P, K)`` that is at most ``tie`` ``(P, 1)`` below the largest.

    >>> first_largest(torch.tensor([[0.0, 2.0, 2.000001], [1.0, 0.0, 3.0]]), torch.tensor([[1e-5], [1e-5]]))
    tensor([1, 2])
    """
    return (values >= values.amax(dim=1, keepdim=True) - tie).to(torch.int8).argmax(dim=1)
