"""Boxes around the part of a map above a threshold, and the saliency metric of Dabkowski and Gal: how small the box can be while the net still
recognises the label in the crop. ``saliency_sweep`` tunes its threshold on images that are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.methods.grids import interpolated
from proofmap.methods.method import Cost
from proofmap.metrics.judged import Judged
from proofmap.metrics.localisation import LocalisationMetric
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


def unit_scale(maps: Tensor) -> Tensor:
    """Maps ``(P, *positions)`` each scaled to run from 0 to 1. A constant map becomes 0 everywhere; infinite values count as
    1e30.

    >>> unit_scale(torch.tensor([[-1.0, 1.0, 3.0], [2.0, 2.0, 2.0]]))
    tensor([[0.0000, 0.5000, 1.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    values = maps.flatten(1).clamp(-1e30, 1e30)
    low, high = values.aminmax(dim=1, keepdim=True)
    span = (high - low).where(high > low, 1.0)
    return ((values - low) / span).view(maps.shape)


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


Boxes = tuple[Tensor, Tensor]
"""The bounding boxes of P masks: the first position inside and the first one beyond, along each axis, both ``(P, axes)``. Both are 0 for an
empty mask.
"""


def boxes_around(keep: Tensor) -> Boxes:
    """The bounding boxes of masks ``(P, *positions)``.

    >>> keep = torch.zeros(1, 4, 5, dtype=torch.bool)
    >>> keep[0, 1, 3] = keep[0, 2, 2] = True
    >>> boxes_around(keep)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    starts, stops = [], []
    for axis in range(1, keep.ndim):
        others = [k for k in range(1, keep.ndim) if k != axis]
        line = keep.any(dim=others) if others else keep
        there = line.any(dim=1)
        starts.append(line.int().argmax(dim=1) * there)
        stops.append((line.shape[1] - line.flip(1).int().argmax(dim=1)) * there)
    return torch.stack(starts, dim=1), torch.stack(stops, dim=1)


def crops(images: Tensor, boxes: Boxes, inputs: Inputs) -> Tensor:
    """The content of each box of images ``(P, *shape)``, enlarged to the size of the input by linear interpolation. An empty box shows the
    first position.
    """
    axes, found = len(inputs.positions), torch.empty_like(images)
    sides = images.shape[-axes:]  # more than the positions, if these are segments
    for p, (start, stop) in enumerate(zip(*(ends.tolist() for ends in boxes), strict=True)):
        ends = zip(start, stop, sides, inputs.positions, strict=True)
        inside = [
            slice(-(-a * side // count), max(-(-b * side // count), -(-a * side // count) + 1))
            for a, b, side, count in ends
        ]
        one: Tensor = images[p : p + 1][(..., *inside)]  # type: ignore[index]
        found[p] = interpolated(one, sides)[0]
    return found


LEAST_AREA = 0.05
"""Boxes that cover less than this share of the picture count as this large, and are flagged, because their crops consist of a few
enlarged pixels.
"""
LEAST_P = 1e-30
REFERENCE = "Dabkowski and Gal 2017"


class BoxMetric(Metric):
    """Base class of metrics of the box around the thresholded part of a map. An image's value is that of its first label.

    The map is scaled to run from 0 to 1. The paper's threshold delta runs from 0 to 5, but no value of a scaled map is above 1.
    ``reading=mean`` takes delta as a multiple of the map's mean, ``reading=value`` as a value.
    """

    reference = REFERENCE
    reads = "first"

    delta: float = setting(
        1.0,
        "threshold for the map, which is scaled to run from 0 to 1; tune it on other images with saliency_sweep",
        least=0,
    )
    reading: Reading = setting(
        "mean", "whether the threshold is delta times the map's mean, or the value delta itself"
    )
    piece: Piece = setting(
        "all",
        "what the box encloses: all positions that reach the threshold, or their largest connected piece",
    )
    empty: Literal["whole", "gray"] = setting(
        "whole", "what is used if no position reaches the threshold: the whole image, or a gray one of area 0"
    )

    def boxes(self, judged: Judged) -> Boxes:
        """The boxes, one for each map, in the order of ``judged.maps.flatten(0, 1)``."""
        if not judged.inputs.has_neighbours:
            raise InputError(
                f"{self.name} draws a box, and {judged.inputs.noun} have no neighbours; leave this metric out"
            )
        keep = above_threshold(judged.maps.flatten(0, 1), self.delta, self.reading)
        if self.empty == "whole":
            keep = keep | ~keep.flatten(1).any(dim=1).view(-1, *[1] * (keep.ndim - 1))
        return boxes_around(largest_piece(keep) if self.piece == "largest" else keep)

    def area(self, judged: Judged) -> Tensor:
        """The share of the picture ``(N, L)`` that the box covers; NaN without a label."""
        start, stop = self.boxes(judged)
        shape = torch.tensor(judged.inputs.positions, device=start.device)
        area = ((stop - start) / shape).prod(dim=1).view(judged.labels.shape)
        return area.float().masked_fill(judged.labels == NO_LABEL, torch.nan)

    def confidence(self, judged: Judged) -> Tensor:
        """p ``(N, L)``: f of the label on the crop, enlarged to the size of the input."""
        start, stop = self.boxes(judged)
        gray = judged.inputs.blank(1).to(judged.images)

        def value(image: Tensor, place: Tensor, _: Tensor) -> Tensor:
            pair = image * judged.labels.shape[1] + place
            own = start[pair], stop[pair]
            seen = crops(judged.images[image], own, judged.inputs)
            empty = (own[1] == own[0]).any(dim=1).view(-1, *[1] * (seen.ndim - 1))
            return judged.f_of(torch.where(empty, gray, seen), image, place)

        key = ("crop", self.delta, self.reading, self.piece, self.empty)
        return judged.once(key, lambda: judged.over_pairs(value)[..., 0])

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels)


@METRICS.register
class SaliencyMetric(BoxMetric):
    """s(a, p) = log(max(a, 0.05)) - log p, with a the box's share of the picture and p the label's f on the crop.

    Lower is better. The whole picture with p = 1 scores 0. Also read the area and p: if the net has few labels, a crop of one pixel scores well without showing anything. With ten labels, a guess (p = .1) on a tiny box scores log 0.05 +
    2.3 = -0.7.
    """

    name = "saliency-metric"
    higher_is_better = False
    # LEAST_P only keeps the logarithm finite
    limits = (math.log(LEAST_AREA), math.inf)
    description = "log of the area of the map's box (at least 0.05) minus log f on the crop"

    def pairs(self, judged: Judged) -> Tensor:
        p = self.confidence(judged).clamp_min(LEAST_P)
        return self.area(judged).clamp_min(LEAST_AREA).log() - p.log()


@METRICS.register
class SaliencyArea(BoxMetric):
    """a: the share of the picture that the saliency metric's box covers."""

    name = "saliency-area"
    higher_is_better = False
    limits = (0.0, 1.0)
    description = "share of the picture inside the saliency metric's box"

    def pairs(self, judged: Judged) -> Tensor:
        return self.area(judged)

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost()


@METRICS.register
class SaliencyConfidence(BoxMetric):
    """p: the label's f on the saliency metric's crop."""

    name = "saliency-confidence"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = "f of the label on the saliency metric's crop"

    def pairs(self, judged: Judged) -> Tensor:
        return self.confidence(judged)


@METRICS.register
class BoxIoU(LocalisationMetric):
    """Intersection over union of the box around the map's thresholded part with the best-matching true box of its label.

    The map is scaled to run from 0 to 1; 0.2 of its maximum is CAM's threshold. With ``hit=0.5`` the value is 1 where the
    overlap reaches one half, and its mean is the accuracy of weakly supervised localisation. That accuracy depends strongly on the
    threshold: compare methods at several thresholds, or tune it on other images.
    """

    name = "box-iou"
    description = "overlap of the box around a map's top values with the box of its label"
    reference = "Zhou et al. 2016 (CAM); Choe et al. 2020"
    delta: float = setting(
        0.2,
        "threshold for the map, which is scaled to run from 0 to 1; the setting reading says how delta is used",
        least=0,
    )
    reading: Reading = setting(
        "value", "whether the threshold is delta times the map's mean, or the value delta itself"
    )
    piece: Piece = setting(
        "largest",
        "what the box encloses: all positions that reach the threshold, or their largest connected piece",
    )
    hit: float | None = setting(
        None,
        "score 1 if the overlap is at least this, else 0; none: the score is the overlap itself",
        above=0,
        most=1,
    )

    def pairs(self, judged: Judged) -> Tensor:
        if not judged.inputs.has_neighbours:
            raise InputError(
                f"box-iou draws a box, and {judged.inputs.noun} have no neighbours; leave this metric out"
            )
        found = torch.full(judged.labels.shape, torch.nan, device=judged.maps.device)
        known = list(LocalisationMetric.known_places(judged))
        if not known:
            return found
        images, places = [image for image, _, _ in known], [place for _, place, _ in known]
        keep = above_threshold(judged.maps[images, places], self.delta, self.reading)
        drawn = boxes_around(largest_piece(keep) if self.piece == "largest" else keep)
        ends = zip(*(each.tolist() for each in drawn), strict=True)
        for (image, place, boxes), (start, stop) in zip(known, ends, strict=True):
            found[image, place] = max(overlap(as_box(start, stop), box) for box in boxes)
        return found if self.hit is None else (found >= self.hit).float().where(~found.isnan(), torch.nan)


def as_box(start: Sequence[int], stop: Sequence[int]) -> Box:
    """Left, top, right, bottom from the first and last positions along each axis; a line is one position high."""
    (top, left), (bottom, right) = ((0, *start), (1, *stop)) if len(start) == 1 else (start, stop)
    return (left, top, right, bottom)


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes; 0 if both are empty.

    >>> overlap((0, 0, 2, 2), (1, 0, 3, 2))
    0.3333333333333333
    """
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    both = max(width, 0.0) * max(height, 0.0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)]
    union = sum(areas) - both
    return both / union if union > 0 else 0.0


DELTAS = tuple(round(0.2 * k, 1) for k in range(26))
"""0 to 5 in steps of 0.2, as the paper has it."""


@dataclass(frozen=True)
class SweepRow:
    """The results of one threshold on the n images of a holdout, which are not judged: means over images, and the share of boxes below
    0.05.
    """

    delta: float
    n: int
    value: float
    area: float
    confidence: float
    tiny: float

    @property
    def degenerate(self) -> bool:
        """Whether the boxes are too small to mean anything."""
        return self.area < LEAST_AREA or self.tiny > 0.5


def saliency_sweep(
    judged: Judged, *, metric: SaliencyMetric | None = None, deltas: Sequence[float] | None = None
) -> list[SweepRow]:
    """Try every threshold on maps of a holdout: images that are not judged later. This takes one pass for each image and threshold.
    Returns a row for each threshold, the best first.

    Each image counts with the first of its labels. By default the thresholds are :data:`DELTAS`. ``metric`` is the metric to tune; its settings other than the threshold are kept.
    """
    deltas = DELTAS if deltas is None else deltas
    if not deltas:
        raise InputError("there are no thresholds to try")
    base, judged, rows = metric or SaliencyMetric(), judged.first_label(), []
    for delta in deltas:
        one = replace(base, delta=delta)
        area = one.area(judged)[:, 0]
        value, confidence = one(judged), one.confidence(judged)[:, 0]
        tiny = (area < LEAST_AREA).float()
        means = (float(v.mean()) for v in (value, area, confidence, tiny))
        rows.append(SweepRow(delta, len(judged.images), *means))
    return sorted(rows, key=lambda row: row.value)
