"""Regions of positions: the part of a map above a threshold, its largest piece, and the box around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Inputs


def unit_scale(maps: Tensor) -> Tensor:
    """Maps ``(P, *positions)`` each scaled to run from 0 to 1.

    A constant map becomes 0 everywhere. Infinite values count as the largest or the smallest finite value. A map without finite
    values becomes 1 at plus infinity and 0 elsewhere.

    >>> unit_scale(torch.tensor([[-1.0, 1.0, 3.0], [2.0, 2.0, 2.0], [0.0, 4.0, torch.inf]]))
    tensor([[0.0000, 0.5000, 1.0000],
            [0.0000, 0.0000, 0.0000],
            [0.0000, 1.0000, 1.0000]])
    """
    values = maps.flatten(1).float()
    finite = values.isfinite()
    low = values.masked_fill(~finite, torch.inf).amin(dim=1, keepdim=True)
    high = values.masked_fill(~finite, -torch.inf).amax(dim=1, keepdim=True)
    none = low > high
    low, high = low.masked_fill(none, 0.0), high.masked_fill(none, 1.0)
    inside = torch.where(values == torch.inf, high, torch.where(values == -torch.inf, low, values))
    inside = torch.minimum(torch.maximum(inside, low), high)
    span = (high - low).where(high > low, 1.0)
    return ((inside - low) / span).view(maps.shape)


Reading = Literal["mean", "value"]
Piece = Literal["all", "largest"]


def above_threshold(maps: Tensor, delta: float, reading: Reading) -> Tensor:
    """Which positions of maps ``(P, *positions)``, scaled to run from 0 to 1, reach the threshold: booleans.

    ``mean``: the threshold is delta times the map's own mean. ``value``: it is delta itself, so a delta above 1 keeps nothing.
    """
    scaled = unit_scale(maps)
    if reading == "value":
        return scaled >= delta
    mean = scaled.flatten(1).mean(dim=1)
    return scaled >= delta * mean.view(-1, *[1] * (maps.ndim - 1))


def largest_piece(keep: Tensor) -> Tensor:
    """The largest connected piece of masks ``(P, *positions)`` of one or two axes, neighbours across corners included.

    If pieces have equal size, the one with the last position is taken. Pieces start as single positions. In every round each piece
    joins its neighbour with the largest number, so the number of pieces at least halves. All masks are processed at once, on their
    device.
    """
    axes = keep.ndim - 1
    if axes not in (1, 2):
        raise InputError(f"pieces are found on lines and in pictures, not on {axes} axes")
    grid = (len(keep), 1, *keep.shape[1:]) if axes == 2 else (len(keep), 1, 1, keep.shape[1])
    window = (3, 3) if axes == 2 else (1, 3)
    inside = keep.flatten(1)
    numbers = torch.arange(inside.shape[1] + 1, device=keep.device)  # 0: outside
    flat = numbers[1:] * inside
    while True:
        # exact to 2^24
        near = F.max_pool2d(flat.float().view(grid), window, stride=1, padding=(window[0] // 2, 1))
        joined = numbers.repeat(len(keep), 1)
        joined.scatter_reduce_(1, flat, near.flatten(1).long() * inside, "amax")
        while not torch.equal(further := joined.gather(1, joined), joined):
            joined = further
        if torch.equal(found := joined.gather(1, flat), flat):
            break
        flat = found
    sizes = torch.zeros(len(keep), flat.shape[1] + 1, device=keep.device, dtype=torch.long)
    sizes.scatter_add_(1, flat, torch.ones_like(flat))
    sizes[:, 0] = 0  # outside
    last = sizes.shape[1] - 1 - sizes.flip(1).argmax(dim=1)
    return ((flat == last[:, None]) & (flat > 0)).view(keep.shape)


@dataclass(frozen=True)
class Boxes:
    """The bounding boxes of P masks. ``start`` and ``stop`` ``(P, axes)`` are the first position inside and the first one beyond,
    along each axis. Both are 0 for an empty mask.
    """

    start: Tensor
    stop: Tensor

    def area(self, positions: Sequence[int]) -> Tensor:
        """The share ``(P,)`` of all positions that each box covers."""
        shape = torch.tensor(tuple(positions), device=self.start.device)
        return ((self.stop - self.start) / shape).prod(dim=1)


def boxes_around(keep: Tensor) -> Boxes:
    """The bounding boxes of masks ``(P, *positions)``.

    >>> keep = torch.zeros(1, 4, 5, dtype=torch.bool)
    >>> keep[0, 1, 3] = keep[0, 2, 2] = True
    >>> boxes_around(keep).start, boxes_around(keep).stop
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    starts, stops = [], []
    for axis in range(1, keep.ndim):
        others = [k for k in range(1, keep.ndim) if k != axis]
        line = keep.any(dim=others) if others else keep
        there = line.any(dim=1)
        starts.append(line.int().argmax(dim=1) * there)
        stops.append((line.shape[1] - line.flip(1).int().argmax(dim=1)) * there)
    return Boxes(torch.stack(starts, dim=1), torch.stack(stops, dim=1))


def crops(images: Tensor, boxes: Boxes, inputs: Inputs) -> Tensor:
    """The content of each box of images ``(P, *shape)``, enlarged to the size of the input by linear interpolation.

    The result is that of ``interpolate(crop, mode="bilinear", align_corners=False)`` for each box, but all boxes are processed at
    once.
    """
    found = images
    for axis, count in enumerate(inputs.positions):
        place = images.ndim - len(inputs.positions) + axis
        length = images.shape[place]  # more than the positions, if these are segments
        start, stop = (-(-ends[:, axis] * length // count) for ends in (boxes.start, boxes.stop))
        weights = _enlarging(start, stop, length).to(images)  # (P, length, length)
        lines = found.movedim(place, -1)
        found = torch.einsum("p...j,pij->p...i", lines, weights).movedim(-1, place)
    return found.contiguous()


def _enlarging(start: Tensor, stop: Tensor, length: int) -> Tensor:
    """Weights ``(P, length, length)`` that enlarge the positions from start to stop to all positions."""
    inside = (stop - start).clamp_min(1).float()[:, None]
    here = torch.arange(length, device=start.device, dtype=torch.float32)
    source = ((here + 0.5) * inside / length - 0.5).clamp_min(0)
    low = source.floor()
    high = torch.minimum(low + 1, inside - 1)
    share = source - low
    weights = torch.zeros(len(start), length, length, device=start.device)
    for place, weight in ((low, 1 - share), (high, share)):
        index = (start[:, None] + place.long())[..., None]
        weights.scatter_add_(2, index, weight[..., None])
    return weights


def box_distance(box: Box, positions: Sequence[int], device: torch.device) -> Tensor:
    """The distance ``(*positions)`` between the centre of each position and a box; 0 inside the box. For inputs with one axis, only
    the left and right sides of the box count.
    """
    left, top, right, bottom = box
    sides = [(left, right)] if len(positions) == 1 else [(top, bottom), (left, right)]
    total = torch.zeros(tuple(positions), device=device)
    for axis, (low, high) in enumerate(sides):
        middle = torch.arange(positions[axis], device=device, dtype=torch.float32) + 0.5
        beyond = torch.maximum(low - middle, middle - high).clamp_min(0)
        total = total + beyond.view([-1 if k == axis else 1 for k in range(len(positions))]).square()
    return total.sqrt()


def inside_boxes(boxes: Sequence[Box], positions: Sequence[int], device: torch.device) -> Tensor:
    """A boolean mask ``(*positions)`` of the positions whose centre lies in one of the boxes."""
    found = torch.zeros(tuple(positions), dtype=torch.bool, device=device)
    for box in boxes:
        found |= box_distance(box, positions, device) == 0
    return found
