"""Regions that are shown or hidden as a whole: superpixels of pictures, segments of series, columns of tables.

Superpixels follow colour (SLIC, Achanta et al. 2012), or are the cells of a grid. All images of a batch are divided at once, on their
device, into the same number of regions. Colours are summed as integers, so an image is divided in the same way in any batch and on any
device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.progress import Progress
from proofmap.methods.perturbation.passes import MaskedNet, Masks, PerturbationMethod
from proofmap.plugins.settings import setting

Superpixels = Literal["slic", "grid"]

_ITERATIONS = 10
_LEVELS = 2**16
"""Number of integer steps per unit of a colour; colours are summed as integers."""
_TOGETHER = 16
"""Number of images that are divided into regions at once."""


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

    def sizes(self) -> Tensor:
        """Number of positions ``(N, count)`` in each region."""
        index = self.index.flatten(1)
        return torch.zeros(len(index), self.count, dtype=torch.long, device=index.device).scatter_add_(
            1, index, torch.ones_like(index)
        )

    def centres(self) -> Tensor:
        """The mean position ``(N, count, D)`` of each region along D axes, on the CPU; 0 for an empty region."""
        index = self.index.flatten(1).cpu()
        sides = [torch.arange(side) for side in self.index.shape[1:]]
        places = torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).flatten(0, -2)  # (positions, D)
        sums = torch.zeros(len(index), self.count, len(sides), dtype=torch.long)
        sums.scatter_add_(1, index[..., None].expand(-1, -1, len(sides)), places.expand(len(index), -1, -1))
        return sums.double() / self.sizes().cpu().clamp_min(1)[..., None]


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
    index = torch.zeros((), dtype=torch.long, device=images.device)
    for side, few in zip(inputs.positions, cells, strict=True):
        index = index[..., None] * few + torch.arange(side, device=images.device) * few // side
    return Regions(index.expand(len(images), *inputs.positions), math.prod(cells))


def cut(images: Tensor, inputs: Inputs, count: int, superpixels: Superpixels, compactness: float) -> Regions:
    """Divide each input into about ``count`` regions: superpixels of pictures, equal parts of other inputs."""
    cells = cells_of(inputs, count)
    regions = grid_regions(images, inputs, cells)
    if superpixels == "grid" or not isinstance(inputs, Pictures):
        return regions
    parts = [slic(part, cells, compactness) for part in images.split(_TOGETHER)]
    return Regions(torch.cat(parts) if parts else regions.index, regions.count)


def slic(images: Tensor, cells: Sequence[int], compactness: float) -> Tensor:
    """Superpixels ``(N, H, W)`` of pictures ``(N, C, H, W)``, by k-means of colour and place.

    Each pixel belongs to the superpixel with the smallest value of the following, among the nine superpixels that start around it:

        |colour - mean colour|^2 + (compactness / S)^2 |place - mean place|^2,      S^2 = pixels per superpixel

    Colours are CIELAB if there are three channels. Unlike in the paper, a superpixel may have several parts.
    """
    n, _, height, width = images.shape
    rows, columns = cells
    count = rows * columns
    y, x = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    row, column = y * rows // height, x * columns // width
    place = torch.stack(torch.meshgrid(y, x, indexing="ij")).flatten(1)  # (2, pixels)
    colour = (colours(images).flatten(2) * _LEVELS).round().long()
    # (N, C + 2, pixels), whole numbers
    features = torch.cat([colour, place.expand(n, -1, -1) * _LEVELS], dim=1)
    side2 = height * width / count
    weights = torch.ones(features.shape[1], device=images.device)
    weights[-2:] = compactness / math.sqrt(side2)

    index = (row[:, None] * columns + column).flatten().expand(n, -1).contiguous()
    for _ in range(_ITERATIONS):
        means = _means(features, index, count)
        nearest = torch.full(index.shape, torch.inf, device=images.device)
        for dy, dx in _NEIGHBOURS:
            near_row, near_column = (row + dy).clamp(0, rows - 1), (column + dx).clamp(0, columns - 1)
            candidate = (near_row[:, None] * columns + near_column).flatten()
            offset = (features - means[:, :, candidate]).float() * (weights[:, None] / _LEVELS)
            distance = offset.square().sum(dim=1)
            closer = distance < nearest
            nearest = torch.where(closer, distance, nearest)
            index = torch.where(closer, candidate, index)
    return index.view(n, height, width)


_NEIGHBOURS = [(0, 0), *((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))]
"""Offsets of the nine cells around a pixel. Its own cell is the first, so it wins if distances are equal."""


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


@dataclass(frozen=True, kw_only=True)
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


def exact(values: Tensor) -> Tensor:
    """The values in double precision, if the device has it."""
    return values if values.device.type == "mps" else values.to(torch.float64)
