"""Two things in one photo: does the map of one label avoid the other's thing?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Pictures
from proofmap.metrics.context import Judged
from proofmap.metrics.localisation.boxes import LocalisationMetric, energy
from proofmap.metrics.metric import METRICS
from proofmap.metrics.regions import inside_boxes
from proofmap.plugins.settings import setting


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class TwoObjects(LocalisationMetric):
    """How much a label's map prefers its own thing, A, to the things of other labels, B, in the same photo.

        ranks     Pr[ M(p) > M(q) ] + Pr[ M(p) = M(q) ] / 2,    p drawn from A, q from B
        energy    e_A / (e_A + e_B),    e the mean of max(M, 0) over A, over B;    1/2 where both are 0

    1: the map avoids B. 1/2: it does not tell them apart. 0: it points at the other thing. Positions in both count for
    neither. One map for both labels has 1/2 on average over the two, exactly, however well it finds things: this is
    what a map owes its label.
    """

    name: ClassVar[str] = "two-objects"
    description: ClassVar[str] = "on photos with two known things: does a label's map avoid the other's?"
    reference: ClassVar[str] = "after Boehle et al. 2021 (grid pointing game)"
    by: Literal["ranks", "energy"] = setting("ranks", "compare positions one by one, or the mean energy")

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
    """The probability that a value of a ``(n,)`` is larger than one of b ``(m,)``; equal ones count one half.

    >>> outranks(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0]))
    tensor(0.8750)
    """
    ordered = b.sort().values
    below = torch.searchsorted(ordered, a.contiguous())
    through = torch.searchsorted(ordered, a.contiguous(), right=True)
    return (below + through).sum() / (2 * len(a) * len(b))


@dataclass(frozen=True)
class Montages:
    """Pictures ``(N, C, H, W)`` with two known things each, the labels ``(N, 2)`` of the left and the right, and where
    they are: ``evaluate(net, m.images, labels=m.labels, objects=m.objects, metrics=["two-objects"], ...)``.
    """

    images: Tensor
    labels: Tensor
    objects: tuple[dict[int, tuple[Box, ...]], ...]


def side_by_side(inputs: Pictures, images: Tensor, labels: Sequence[int] | Tensor) -> Montages:
    """Two photos in one: the middle half of each on the left, that of the next photo with another label on the right.

    Args:
        inputs: what the net takes (``classifier.inputs``).
        labels: of each photo's thing, ``(N,)``.
    """
    if not isinstance(inputs, Pictures):
        raise InputError(f"only pictures can stand side by side, not {inputs.noun}")
    images, names = inputs.check(images), [int(a) for a in labels]
    if len(names) != len(images):
        raise InputError(f"{len(names)} labels were given for {len(images)} images")
    if len(set(names)) < 2:
        raise InputError("two things need two labels; give photos of at least two labels")
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
    """The next photo after this one, around the end, that has another label."""
    around = ((i + step) % len(labels) for step in range(1, len(labels)))
    return next(k for k in around if labels[k] != labels[i])
