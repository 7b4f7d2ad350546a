"""What localisation shares: the pairs of an image and a label whose place is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.core.inputs import Box
from proofmap.metrics.context import Judged
from proofmap.metrics.metric import Metric


@dataclass(frozen=True, kw_only=True)
class LocalisationMetric(Metric):
    """A metric of maps whose label has known places; an image's value is the mean over its labels that have.

    Other labels and images do not count (NaN). The true label must be among those that are explained. A position lies in
    a box where its middle does.
    """

    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    intrinsic: ClassVar[bool] = False

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    def pairs(self, judged: Judged) -> Tensor:
        found = torch.full(judged.labels.shape, torch.nan, device=judged.maps.device)
        for image, place, boxes in known_places(judged):
            found[image, place] = self.locate(judged, image, place, boxes)
        return found

    def locate(self, judged: Judged, image: int, place: int, boxes: Sequence[Box]) -> Tensor | float:
        """The value of one map, whose label's things are in these boxes."""
        raise NotImplementedError


def known_places(judged: Judged) -> Iterator[tuple[int, int, Sequence[Box]]]:
    """Image, place of the label and boxes of every pair whose boxes are known."""
    for image, row in enumerate(judged.labels.tolist()):
        for place, label in enumerate(row):
            if boxes := judged.places(image, label):
                yield image, place, boxes


def energy(map_: Tensor) -> Tensor:
    """The part of a map that speaks for its label: what is above zero; infinite values outweigh all others."""
    above = map_.float().clamp_min(0)
    infinite = above == torch.inf
    return torch.where(infinite.any(), infinite.float(), above)
