"""Does a map point at the object? The pointing game, the box of weakly supervised localisation, the energy inside boxes, and photos of
two objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Pictures
from proofmap.metrics.boxes import (
    Piece,
    Reading,
    above_threshold,
    box_distance,
    boxes_around,
    inside_boxes,
    largest_piece,
)
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@dataclass(frozen=True, kw_only=True)
class LocalisationMetric(Metric):
    """Base class of metrics of maps whose label has known boxes. An image's value is the mean over the labels with boxes.

    Other labels and images do not count (NaN). The true label must be among the judged labels. A position lies in a box if its
    centre does.
    """

    higher_is_better = True
    limits = (0.0, 1.0)
    intrinsic = False

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    def pairs(self, judged: Judged) -> Tensor:
        found = torch.full(judged.labels.shape, torch.nan, device=judged.maps.device)
        for image, place, boxes in known_places(judged):
            found[image, place] = self.locate(judged, image, place, boxes)
        return found

    def locate(self, judged: Judged, image: int, place: int, boxes: Sequence[Box]) -> Tensor | float:
        """The value of one map, given the boxes of its label's objects."""
        raise NotImplementedError


def known_places(judged: Judged) -> Iterator[tuple[int, int, Sequence[Box]]]:
    """The image index, label index and boxes of every (image, label) pair with known boxes."""
    for image, row in enumerate(judged.labels.tolist()):
        for place, label in enumerate(row):
            if boxes := judged.places(image, label):
                yield image, place, boxes


def energy(map_: Tensor) -> Tensor:
    """The part of a map that supports its label: the values above zero. Infinite values outweigh all others."""
    above = map_.float().clamp_min(0)
    infinite = above == torch.inf
    return torch.where(infinite.any(), infinite.float(), above)


@METRICS.register
class PointingGame(LocalisationMetric):
    """1 if the map's largest value lies in a box of its label or within ``tolerance`` positions of a box, otherwise 0.

    If several positions have the largest value, the score is the share of them that hit. So a constant map scores the boxes' share of the
    area.
    """

    name = "pointing-game"
    description = "whether the map's maximum lies in a box of its label"
    reference = "Zhang et al. 2018 (excitation backprop)"
    tolerance: float = setting(15.0, "how far from a box the maximum may be, in positions", least=0)

    def locate(self, judged: Judged, image: int, place: int, boxes: Sequence[Box]) -> Tensor:
        map_ = judged.maps[image, place]
        hit = torch.zeros_like(map_, dtype=torch.bool)
        for box in boxes:
            hit |= box_distance(box, map_.shape, map_.device) <= self.tolerance
        return hit[map_ == map_.max()].float().mean()


@METRICS.register
class EnergyInside(LocalisationMetric):
    """The share of the map's energy, sum of max(M, 0), that lies inside the boxes of its label; 0 if the energy is 0.

    A map without structure scores the boxes' share of the area, so large objects look well explained: compare with a control.
    """

    name = "energy-inside"
    description = "share of the map's positive values inside the boxes of its label"
    reference = "Wang et al. 2020 (Score-CAM)"

    def locate(self, judged: Judged, image: int, place: int, boxes: Sequence[Box]) -> Tensor:
        weights = energy(judged.maps[image, place])
        inside = inside_boxes(boxes, weights.shape, weights.device)
        total = weights.sum()
        return torch.where(total > 0, weights[inside].sum() / total.where(total > 0, 1.0), 0.0)


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
        known = list(known_places(judged))
        if not known:
            return found
        images, places = [image for image, _, _ in known], [place for _, place, _ in known]
        keep = above_threshold(judged.maps[images, places], self.delta, self.reading)
        drawn = boxes_around(largest_piece(keep) if self.piece == "largest" else keep)
        ends = zip(drawn.start.tolist(), drawn.stop.tolist(), strict=True)
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


@METRICS.register
class TwoObjects(LocalisationMetric):
    """Whether a label's map prefers the label's own object A to the objects B of other labels in the same photo, and by how much.

        ranks     Pr[ M(p) > M(q) ] + Pr[ M(p) = M(q) ] / 2,    p drawn from A, q from B
        energy    e_A / (e_A + e_B),    e the mean of max(M, 0) over A, over B;    1/2 where both are 0

    The value is 1 if the map avoids B, 1/2 if it does not distinguish A from B, and 0 if it points at B only. Positions in both A
    and B count for neither. One map for both labels scores exactly 1/2 on average over the two labels, however well it finds
    objects.
    """

    name = "two-objects"
    description = "on photos with two known things: does a label's map avoid the other's?"
    reference = "after Boehle et al. 2021 (grid pointing game)"
    by: Literal["ranks", "energy"] = setting(
        "ranks",
        "what is compared between the objects: single positions by rank, or the mean of the positive values",
    )

    def locate(self, judged: Judged, image: int, place: int, boxes: Sequence[Box]) -> Tensor | float:
        label, map_ = int(judged.labels[image, place]), judged.maps[image, place]
        own = inside_boxes(boxes, map_.shape, map_.device)
        if not judged.objects:
            return torch.nan
        rest = [box for other, found in judged.objects[image].items() if other != label for box in found]
        other = inside_boxes(rest, map_.shape, map_.device)
        a, b = map_[own & ~other], map_[other & ~own]
        if len(a) == 0 or len(b) == 0:
            return torch.nan
        if self.by == "ranks":
            return outranks(a, b)
        weights = energy(map_)
        e_a, e_b = weights[own & ~other].mean(), weights[other & ~own].mean()
        return torch.where(e_a + e_b > 0, e_a / (e_a + e_b), 0.5)


def outranks(a: Tensor, b: Tensor) -> Tensor:
    """The probability that a random value of a ``(n,)`` is larger than a random value of b ``(m,)``. Equal values count one half.

    >>> outranks(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0]))
    tensor(0.8750)
    """
    ordered = b.sort().values
    below = torch.searchsorted(ordered, a.contiguous())
    through = torch.searchsorted(ordered, a.contiguous(), right=True)
    return (below + through).sum() / (2 * len(a) * len(b))


@dataclass(frozen=True)
class Montages:
    """Pictures ``(N, C, H, W)`` with two known objects each, the labels ``(N, 2)`` of the left and the right one, and their boxes:
    ``evaluate(net, m.images, labels=m.labels, objects=m.objects, metrics=["two-objects"], ...)``.
    """

    images: Tensor
    labels: Tensor
    objects: tuple[dict[int, tuple[Box, ...]], ...]


def side_by_side(inputs: Pictures, images: Tensor, labels: Sequence[int] | Tensor) -> Montages:
    """Pictures made of two photos each: on the left the middle half of a photo, on the right the middle half of the next photo with
    another label.

    Args:
        inputs: what the net takes (``classifier.inputs``).
        labels: the label of each photo's object, ``(N,)``.
    """
    if not isinstance(inputs, Pictures):
        raise InputError(f"only pictures can stand side by side, not {inputs.noun}")
    images, names = inputs.check(images), [int(a) for a in labels]
    if len(names) != len(images):
        raise InputError(f"{len(names)} labels were given for {len(images)} images")
    if len(set(names)) < 2:
        raise InputError("two objects in one picture need two labels; give photos of at least two labels")
    height, width = inputs.size
    left, quarter = width // 2, width // 4
    right = width - left
    pairs = [(i, _next_other(names, i)) for i in range(len(names))]
    made = [
        torch.cat([images[i, :, :, quarter : quarter + left], images[k, :, :, quarter : quarter + right]], 2)
        for i, k in pairs
    ]
    boxes: tuple[Box, Box] = ((0, 0, left, height), (left, 0, width, height))
    return Montages(
        torch.stack(made),
        torch.tensor([[names[i], names[k]] for i, k in pairs], device=images.device),
        tuple({names[i]: boxes[:1], names[k]: boxes[1:]} for i, k in pairs),
    )


def _next_other(labels: Sequence[int], i: int) -> int:
    """The index of the next photo with another label. After the last photo, the search continues with the first."""
    around = ((i + step) % len(labels) for step in range(1, len(labels)))
    return next(k for k in around if labels[k] != labels[i])
