"""Belief orders: like belief masks, but without gradients. The insertion curve of the map is as strong as the net's belief f in the label."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.methods.method import METHODS, Cost
from proofmap.methods.perturbation.orders import (
    OrderSearch,
    best_orders,
    can_be_exact,
    default_budget,
    effects,
    rounded,
    scan_sets,
    scanned,
    subsets,
)
from proofmap.methods.perturbation.passes import MaskedNet
from proofmap.methods.perturbation.regions import RegionMethod, Regions, grid_regions
from proofmap.plugins.settings import setting
from proofmap.session import Session

_FEW = 32
"""Up to this number of regions, every step of a curve is measured, and single regions are shown instead of patches."""
_UNMOVED = 1e-5
"""Relative change of the probability F that is due to rounding. If F changes no more than this, the net ignores what it is shown."""


@METHODS.register
class BeliefOrder(RegionMethod):
    """The order of regions whose insertion curve reaches f(x, a) and stays there, found without gradients.

    f(x, a) is the net's probability of label a for the whole input. The insertion curve is the probability while the regions are shown one
    after the other. The map is 1 for the first of K regions and 1/K for the last. If no region changes the label, the map is 1 everywhere.

    :mod:`proofmap.methods.perturbation.orders` defines how well an order fits, and the search. If there are at most 8 regions, and the
    budget covers all 2^K sets of them, the order is the best of all. Otherwise each label has its own search. It first shows each region
    alone and everything without that region (2 K + 2 sets, which all labels share), and then tries exchanges of regions on measured curves.
    With ``patches``, random patches take the place of single regions if a picture has more than 32 superpixels. A net with two labels has
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
    patches: int = setting(
        0,
        "number of random patches for each region, shown instead of single regions if a picture has more than 32 superpixels; 0: none",
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
        return default_budget(regions) if self.budget is None else int(self.budget) // self.drawn

    def curve_points(self, regions: int) -> int:
        return regions if regions <= _FEW else self.points

    def patches_on(self, inputs: Inputs) -> int:
        """Number of patches for each region of these inputs."""
        return self.patches if len(inputs.positions) == 2 and self.count(inputs) > _FEW else 0

    def passes(self, inputs: Inputs, labels: int) -> int:
        count = self.count(inputs)
        most, scan = self.sets_for(count), scan_sets(count, self.patches_on(inputs))
        if count == 1:
            return 0
        if can_be_exact(count, most):
            return self.drawn << count
        return self.drawn * (scan + labels * max(0, most - scan))

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        two = session is not None and have_two_labels(session.net)
        cost = super().cost(1 if two else labels, session)
        return cost + Cost(forward=1) if two and cost is not None else cost

    @torch.no_grad()
    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        net = session.net
        if not have_two_labels(net):
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
        regions = grid_regions(images, net.inputs, net.inputs.positions)
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
        exactly = start is None and can_be_exact(count, most)
        points, each_patches = self.curve_points(count), self.patches_on(net.inputs)
        scan = scan_sets(count, each_patches)
        least = scan + OrderSearch.least_sets(count, points, given=start is not None)
        if not exactly and most < least:
            several = f" and {draws} draws of the fill" if draws > 1 else ""
            raise InputError(
                f"belief-order needs at least {draws * least} passes for {count} regions{several}, budget is {self.budget}; "
                f"give more passes, or fewer {'draws or ' if draws > 1 else ''}regions"
            )
        images, centres = len(net.images), regions.centres() if each_patches else None
        shown = (
            subsets(count).expand(images, -1, -1)
            if exactly
            else scanned(count, images, centres, each_patches)
        )
        given = shown.to(net.images.device)
        masks = regions.masks(lambda image, sample: given[image, sample // draws])
        found = net.samples(shown.shape[1] * draws, masks, progress, draw=lambda sample: sample % draws)
        found = found.unflatten(1, (-1, draws)).mean(dim=2)
        problem = _Pairs(net, regions, draws)
        values, sizes = problem.read(found), regions.sizes().cpu()[problem.image]
        f, empty = values[:, -1], values[:, 0]
        if exactly:
            order = best_orders(values, sizes, f, self.steady)
        else:
            rest = values[:, count + 1 : -1]
            first = rest.logit() - empty.logit()[:, None]
            if centres is not None:
                sets = shown[:, count + 1 : -1]
                first = effects(sets[problem.image], rest, centres[problem.image])
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


def have_two_labels(classifier: Classifier) -> bool:
    """Whether the classifier has exactly two labels whose probabilities sum to one."""
    two = len(classifier.label_set) == 2 and not classifier.independent
    return two and (classifier.renormalise or len(classifier.names) == 2)
