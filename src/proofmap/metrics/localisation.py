"""Does a map point at the object? The pointing game, the energy inside boxes, and photos of
two objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Pictures
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


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
        for image, place, boxes in LocalisationMetric.known_places(judged):
            found[image, place] = self.locate(judged, image, place, boxes)
        return found

    def locate(self, judged: Judged, image: int, place: int, boxes: Sequence[Box]) -> Tensor | float:
        """The value of one map, given the boxes of its label's objects."""
        raise NotImplementedError

    @staticmethod
    def known_places(judged: Judged) -> Iterator[tuple[int, int, Sequence[Box]]]:
        """The image index, label index and boxes of every (image, label) pair with known boxes."""
        for image, row in enumerate(judged.labels.tolist()):
            for place, label in enumerate(row):
                if boxes := judged.places(image, label):
                    yield image, place, boxes


def box_distance(box: Box, positions: Sequence[int], device: torch.device) -> Tensor:
    """The distance ``(*positions)`` between the centre of each position and a box; 0 inside the box. For inputs with one axis, only
    the left and right sides of the box count. In a volume, the box is in every slice.
    """
    left, top, right, bottom = box
    sides = [(top, bottom), (left, right)][-len(positions) :]
    total = torch.zeros(tuple(positions), device=device)
    for axis, (low, high) in enumerate(sides, start=len(positions) - len(sides)):
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
        weights = judged.maps[image, place].clamp(0, 1e30)
        inside = inside_boxes(boxes, weights.shape, weights.device)
        total = weights.sum()
        return torch.where(total > 0, weights[inside].sum() / total.where(total > 0, 1.0), 0.0)


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
        weights = map_.clamp(0, 1e30)
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


def side_by_side(
    inputs: Pictures, images: Tensor, labels: Sequence[int] | Tensor
) -> tuple[Tensor, Tensor, tuple[dict[int, tuple[Box, ...]], ...]]:
    """Pictures made of two photos each: on the left the middle half of a photo, on the right the middle half of the next photo with
    another label; the labels ``(N, 2)`` of the left and the right one, and their boxes:
    ``evaluate(net, pictures, labels=labels, objects=objects, metrics=["two-objects"], ...)``.

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
    return (
        torch.stack(made),
        torch.tensor([[names[i], names[k]] for i, k in pairs], device=images.device),
        tuple({names[i]: boxes[:1], names[k]: boxes[1:]} for i, k in pairs),
    )


def _next_other(labels: Sequence[int], i: int) -> int:
    """The index of the next photo with another label. After the last photo, the search continues with the first."""
    around = ((i + step) % len(labels) for step in range(1, len(labels)))
    return next(k for k in around if labels[k] != labels[i])
