"""What perturbation methods share: masked inputs, the net's values of every label for them, and regions that are hidden as a whole.

A masked input is ``keep * x + (1 - keep) * x'``, where ``keep`` is the mask and x' the background from the fill. The value of a label is
its probability, log-probability or logit. One pass of the net gives the values of all labels of an image, so the number of passes does not
depend on the number of labels.

Regions are superpixels of pictures, segments of series, or columns of tables. Superpixels follow colour (SLIC, Achanta et al. 2012), or are
the cells of a grid. All images of a batch are divided at once, on their device, into the same number of regions. Colours are summed as
integers, so an image is divided in the same way in any batch and on any device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.core.tensors import private_copy
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost, Method
from proofmap.plugins.settings import setting
from proofmap.session import Session

_FILL_HELP = (
    "what hidden positions show; none: the mean of their region, or of the input if there are no regions"
)

Masks = Callable[[Tensor, Tensor], Tensor]
"""Function from the indices of images ``(B,)`` and of their samples ``(B,)`` to masks ``(B, *positions)``, 1 where shown."""
Draw = Callable[[Tensor], Tensor]
"""Function from the indices of samples ``(B,)`` to the indices ``(B,)`` of the draws of a random fill that the samples use."""

_USUAL = Pictures(size=(224, 224))
"""The kind of input for which passes are counted if no net is known yet."""


class PerturbationMethod(Method):
    """Base class of black-box methods, which hide parts of the input and read the values of the labels."""

    family = "perturbation"
    fills_behind = True
    fill: Fill | None = setting(Gray(), _FILL_HELP)
    quantity: Literal["probability", "log-probability", "logit"] = setting(
        "probability", "what is explained: the net's probability f, its logarithm, or the logit"
    )

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.fill is not None and self.fill.random

    def record(self, session: Session) -> dict[str, object]:
        own = {"fill": {"fill": "own mean"}} if self.fill is None else {}
        return {**super().record(session), **own}

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        return Cost(forward=self.passes(_USUAL if session is None else session.inputs, labels))

    def passes(self, inputs: Inputs, labels: int) -> int:
        """Maximum number of masked inputs that are shown for one input with this number of labels."""
        raise NotImplementedError

    @torch.no_grad()
    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        return self.explain(MaskedNet(self, session, images, labels), session.progress)

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        """Maps ``(N, L, *positions)`` of the images and labels of ``net``."""
        raise NotImplementedError


class MaskedNet:
    """Runs the net on masked images: returns the values of each image's labels for any number of masks, in full batches."""

    def __init__(self, method: PerturbationMethod, session: Session, images: Tensor, labels: Tensor) -> None:
        fill, seed = method.fill, session.seed
        self.session, self.classifier, self.inputs = session, session.net.frozen(), session.inputs
        self.images, self.labels = images, labels
        # places without a label read one of the label set, outside of which log f is not finite
        self._asked = torch.where(labels == NO_LABEL, labels[:, :1], labels)
        self.name, self.quantity = method.name, method.quantity
        self.keys = streams.image_keys(images, seed, method.name)
        """One stream for the masks of each image."""
        self._fill, self._fill_keys = fill, streams.image_keys(images, seed, method.name, "fill")
        self._fixed: Tensor | None = None
        if fill is None:
            self.hide_by_means(None)
        elif not fill.random and not fill.reads_mask:
            self._fixed = private_copy(fill(session, images, self._fill_keys))

    def hide_by_means(self, region: Tensor | None) -> None:
        """Let hidden positions show the mean of their region, or of the whole image if ``region`` is None. ``region`` ``(N, *positions)`` has
        the index of each position's region. If the method has a fill, do nothing.
        """
        if self._fill is None:
            self._fixed = region_means(self.images, region, self.inputs)

    @property
    def random(self) -> bool:
        """Whether the fill is random, so that two draws differ."""
        return self._fill is not None and self._fill.random

    def sample_keys(self, image: Tensor, sample: Tensor) -> Tensor:
        """Keys ``(B,)`` of random numbers for the samples ``(B,)`` of images ``(B,)``."""
        return streams.step_keys(self.keys[image], sample, 1)[:, 0]

    def backgrounds(self, image: Tensor, draw: Tensor, keep: Tensor) -> Tensor:
        """Backgrounds ``(B, *shape)`` for the images with indices ``image`` ``(B,)``, at the draws ``draw`` ``(B,)`` of the fill. A fill that
        reads the mask paints the positions of which less than half is shown.
        """
        if self._fixed is not None:
            return self._fixed[image]
        assert self._fill is not None, "without a fill, the backgrounds are fixed"
        keys = streams.step_keys(self._fill_keys[image], draw, 1)[:, 0]
        return self._fill.behind(self.session, self.images[image], keys, keep >= 0.5)

    def __call__(self, image: Tensor, keep: Tensor, draw: Tensor) -> Tensor:
        """The values ``(B, L)`` of the labels for one batch: images with indices ``image`` ``(B,)`` under masks ``keep`` ``(B, *positions)``,
        with backgrounds from the draws ``draw`` ``(B,)``.
        """
        shown = self.inputs.composite(keep, self.images[image], self.backgrounds(image, draw, keep))
        logits = self.classifier(shown)
        if self.quantity != "logit":
            logits = self.classifier.log_f(logits)
        values = logits.gather(1, self._asked[image])
        return values.exp() if self.quantity == "probability" else values

    def samples(self, count: int, masks: Masks, progress: Progress, *, draw: Draw | None = None) -> Tensor:
        """The values ``(N, count, L)`` of the labels under ``count`` masks of each image.

        ``draw`` maps the indices of samples ``(B,)`` to those of the draws of a random fill; by default each sample has its own draw.
        """
        place = torch.arange(len(self.images) * count, device=self.images.device)
        with progress.task(self.name, len(place)) as task:
            values = self.read(place // count, place % count, masks, task, draw=draw)
        return values.view(len(self.images), count, -1)

    def read(
        self, image: Tensor, sample: Tensor, masks: Masks, task: ProgressTask, *, draw: Draw | None = None
    ) -> Tensor:
        """The values ``(J, L)`` of the labels for J masked images, which are shown in batches. They are given by the index ``(J,)`` of the
        image and the index ``(J,)`` of the sample.
        """
        values = torch.empty(len(image), self.labels.shape[1], device=image.device)

        def run(start: int, stop: int) -> None:
            which, number = image[start:stop], sample[start:stop]
            drawn = number if draw is None else draw(number)
            values[start:stop] = self(which, masks(which, number), drawn)
            task.advance(stop - start)

        in_batches(run, len(image), self.classifier.batches[0], item="masked image")
        return values


def region_means(images: Tensor, region: Tensor | None, inputs: Inputs) -> Tensor:
    """Images ``(N, *shape)`` in which every value is replaced by the mean over its region, or over the whole image if ``region`` is None.
    ``region`` ``(N, *positions)`` has the index of each position's region.

    The columns of a table have different units, so for rows the means are those of the table. Words have no mean, so texts show what the
    fill ``gray`` shows.
    """
    if inputs.channel_axis is None or not inputs.has_neighbours:
        return inputs.blank_like(images)
    channels = images.flatten(2)  # (N, C, n)
    if region is None:
        return channels.mean(dim=2, keepdim=True).expand_as(channels).reshape(images.shape)
    if tuple(region.shape[1:]) != tuple(images.shape[2:]):  # segments of a series
        region = inputs.over_channels(region)[:, 0]
    means = []
    for values, index in zip(channels, region.flatten(1), strict=True):
        inside = F.one_hot(index).to(values)  # a product adds in the same order each time
        means.append(((values @ inside) / inside.sum(dim=0).clamp_min(1))[:, index])
    return torch.stack(means).view_as(images)


Superpixels = Literal["slic", "grid"]

_ITERATIONS = 10
_LEVELS = 2**16
"""Number of integer steps per unit of a colour; colours are summed as integers."""
_TOGETHER = 2**20
"""Number of positions, of all images together, that are divided into regions at once."""


@dataclass(frozen=True)
class Regions:
    """The regions of N inputs: ``index`` ``(N, *positions)`` is the region of every position, from 0 to ``count`` - 1. A region may be empty."""

    index: Tensor
    count: int

    def keep(self, image: Tensor, shown: Tensor) -> Tensor:
        """Masks ``(B, *positions)`` for images with indices ``(B,)``. ``shown`` ``(B, count)`` says how much of each region is shown, from 0
        to 1.
        """
        index = self.index[image]
        return shown.gather(1, index.flatten(1)).view(index.shape)

    def masks(self, shown: Masks) -> Masks:
        """Return a function that makes masks of positions ``(B, *positions)``, from a function ``shown`` that says which regions ``(B,
        count)`` each sample shows.
        """
        return lambda image, sample: self.keep(image, shown(image, sample))

    def spread(self, values: Tensor) -> Tensor:
        """Maps ``(N, L, *positions)`` in which every position has the value of its region, from values ``(N, L, count)``."""
        index = self.index.flatten(1)[:, None].expand(-1, values.shape[1], -1)
        return values.gather(2, index).view(*values.shape[:2], *self.index.shape[1:])

    @classmethod
    def each_position(cls, images: Tensor, inputs: Inputs) -> Regions:
        """Regions of one position each."""
        return grid_regions(images, inputs, inputs.positions)

    def sizes(self) -> Tensor:
        """Number of positions ``(N, count)`` in each region."""
        index = self.index.flatten(1)
        return torch.zeros(len(index), self.count, dtype=torch.long, device=index.device).scatter_add_(
            1, index, torch.ones_like(index)
        )


def cells_of(inputs: Inputs, count: int) -> tuple[int, ...]:
    """The number of cells along each axis of a grid that has about ``count`` cells with equal sides. Every column of a table is a cell.

    >>> cells_of(Pictures(size=(20, 30)), 24)
    (4, 6)
    """
    positions = inputs.positions
    if not inputs.has_neighbours:
        return positions
    cells: list[int] = []
    for axis, side in enumerate(positions):
        rest, left = positions[axis:], count / math.prod(cells)
        share = side * (left / math.prod(rest)) ** (1 / len(rest))
        cells.append(min(side, max(1, round(share))))
    return tuple(cells)


def grid_regions(images: Tensor, inputs: Inputs, cells: Sequence[int]) -> Regions:
    """The cells of a grid as regions, numbered row by row. ``cells`` is the number of cells along each axis."""
    index = _numbered(_cells_along(inputs.positions, cells, images.device), cells)
    return Regions(index.expand(len(images), *inputs.positions), math.prod(cells))


def _cells_along(sides: Sequence[int], cells: Sequence[int], device: torch.device) -> list[Tensor]:
    """For each axis, the cell ``(side,)`` of each place along it."""
    pairs = zip(sides, cells, strict=True)
    return [torch.arange(side, device=device) * few // side for side, few in pairs]


def _numbered(along: Sequence[Tensor], cells: Sequence[int]) -> Tensor:
    """The number of each position's cell ``(*positions)``, counted row by row, from its cell along each axis."""
    index = torch.zeros((), dtype=torch.long, device=along[0].device)
    for line, few in zip(along, cells, strict=True):
        index = index[..., None] * few + line
    return index


def cut(images: Tensor, inputs: Inputs, count: int, superpixels: Superpixels, compactness: float) -> Regions:
    """Divide each input into about ``count`` regions: superpixels of pictures, supervoxels of volumes, equal parts of other inputs."""
    cells = cells_of(inputs, count)
    regions = grid_regions(images, inputs, cells)
    if superpixels == "grid" or not inputs.has_neighbours or len(inputs.positions) < 2:
        return regions
    parts = [slic(part, cells, compactness) for part in images.split(max(1, _TOGETHER // inputs.count))]
    return Regions(torch.cat(parts) if parts else regions.index, regions.count)


def slic(images: Tensor, cells: Sequence[int], compactness: float) -> Tensor:
    """Superpixels ``(N, *positions)`` of pictures ``(N, C, H, W)``, or supervoxels of volumes, by k-means of colour and place.

    Each position belongs to the superpixel with the smallest value of the following, among those that start around it (nine in a picture, 27
    in a volume):

        |colour - mean colour|^2 + (compactness / S)^2 |place - mean place|^2,      S = side of a superpixel, in positions

    Colours are CIELAB if there are three channels. Unlike in the paper, a superpixel may have several parts.
    """
    n, sides, device = len(images), images.shape[2:], images.device
    axes, count = len(sides), math.prod(cells)
    along = _cells_along(sides, cells, device)
    place = torch.stack(torch.meshgrid(*(torch.arange(side, device=device) for side in sides), indexing="ij"))
    colour = (colours(images).flatten(2) * _LEVELS).round().long()
    # (N, C + axes, positions), whole numbers
    features = torch.cat([colour, place.flatten(1).expand(n, -1, -1) * _LEVELS], dim=1)
    long = max(1, sum(side > 1 for side in sides))
    weights = torch.ones(features.shape[1], device=device)
    weights[-axes:] = compactness / (math.prod(sides) / count) ** (1 / long)

    offsets = sorted(
        product((-1, 0, 1), repeat=axes), key=any
    )  # its own cell is the first, so it wins if distances are equal
    index = _numbered(along, cells).flatten().expand(n, -1).contiguous()
    for _ in range(_ITERATIONS):
        means = _means(features, index, count)
        nearest = torch.full(index.shape, torch.inf, device=device)
        for offset in offsets:
            near = [
                (line + step).clamp(0, few - 1) for line, step, few in zip(along, offset, cells, strict=True)
            ]
            candidate = _numbered(near, cells).flatten()
            away = (features - means[:, :, candidate]).float() * (weights[:, None] / _LEVELS)
            distance = away.square().sum(dim=1)
            closer = distance < nearest
            nearest = torch.where(closer, distance, nearest)
            index = torch.where(closer, candidate, index)
    return index.view(n, *sides)


def _means(features: Tensor, index: Tensor, count: int) -> Tensor:
    """The mean ``(N, F, count)`` of integer features ``(N, F, pixels)`` over each region. An empty region gets a value far from all others."""
    n, kinds, _ = features.shape
    sums = torch.zeros(n, kinds, count, dtype=torch.long, device=features.device)
    sums.scatter_add_(2, index[:, None].expand(-1, kinds, -1), features)
    sizes = Regions(index, count).sizes()
    return torch.where(sizes[:, None] > 0, sums // sizes[:, None].clamp_min(1), 2**40)


def colours(images: Tensor) -> Tensor:
    """Colours whose distances match perception: CIELAB (D65) if there are three channels; otherwise the values times 100.

    >>> colours(torch.ones(1, 3, 1, 1)).flatten().round().abs().tolist()  # white
    [100.0, 0.0, 0.0]
    """
    if images.shape[1] != 3:
        return 100 * images
    linear = torch.where(images > 0.04045, ((images.clamp_min(0) + 0.055) / 1.055) ** 2.4, images / 12.92)
    red, green, blue = linear.unbind(dim=1)
    xyz = torch.stack([r * red + g * green + b * blue for r, g, b in _TO_XYZ], dim=1)
    f = torch.where(xyz > 0.008856, xyz.clamp_min(1e-9) ** (1 / 3), 7.787 * xyz + 16 / 116)
    return torch.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], dim=1)


_TO_XYZ = [
    [0.412453 / 0.95047, 0.357580 / 0.95047, 0.180423 / 0.95047],
    [0.212671, 0.715160, 0.072169],
    [0.019334 / 1.08883, 0.119193 / 1.08883, 0.950227 / 1.08883],
]
"""Matrix from linear RGB to XYZ, in units of the white point."""


class RegionMethod(PerturbationMethod):
    """Base class of methods that compute one value per region and label. In the map, every position has the value of its region."""

    regions: int = setting(
        50, "approximate number of regions: superpixels, or segments of a series; each column of a table is one", least=1
    )  # fmt: skip
    superpixels: Superpixels = setting(
        "slic", "regions of pictures: superpixels that follow colour, or cells of a grid"
    )
    compactness: float = setting(
        10.0,
        "weight of distance relative to colour in superpixels; larger makes them more compact, 10 is common",
        above=0,
    )

    def count(self, inputs: Inputs) -> int:
        """Number of regions of these inputs."""
        return math.prod(cells_of(inputs, self.regions))

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        regions = cut(net.images, net.inputs, self.regions, self.superpixels, self.compactness)
        net.hide_by_means(regions.index)
        return regions.spread(self.values(net, regions, progress))

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        """The values ``(N, L, count)`` of all regions for each image and label."""
        raise NotImplementedError
