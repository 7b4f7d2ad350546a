"""Roughness of the top part of a map: can a person read it?"""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import keep_top
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@METRICS.register
class Roughness(Metric):
    """The length of the border of a map's top share, relative to the border of one square (in one dimension: one piece) of the same size.

        roughness = |{pairs of neighbours of which exactly one is shown}| / (4 sqrt(shown positions))

    About 1 for a single clean region (less where it touches the edge of the picture), 3 for a few ragged ones, tens for
    scattered pixels. The value of an image is the mean over its labels. Raggedness is neither right nor wrong; a map that
    proves something but cannot be read is of little use to a person.
    """

    name = "roughness"
    higher_is_better = False
    limits = (0.0, float("inf"))
    description = "border of the top 20 %, relative to that of one square: how ragged a map is"
    share: float = setting(
        0.2, "share of the positions, the map's top ones, whose border is measured", above=0, most=1
    )

    def pairs(self, judged: Judged) -> Tensor:
        if not judged.inputs.has_neighbours:
            raise InputError(
                f"roughness needs neighbours; {judged.inputs.noun} have none, so leave this metric out"
            )
        maps = judged.maps.flatten(0, 1)
        rough = Roughness.of_masks(keep_top(maps, self.share)).view(judged.labels.shape)
        return rough.masked_fill(judged.labels == NO_LABEL, torch.nan)

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    @staticmethod
    def of_masks(shown: Tensor) -> Tensor:
        """The relative length ``(P,)`` of the border of boolean masks ``(P, *positions)``; 0 for an empty mask.

        >>> one = torch.zeros(1, 6, 6, dtype=torch.bool)
        >>> one[0, 1:5, 1:5] = True
        >>> Roughness.of_masks(one), Roughness.of_masks(torch.eye(6, dtype=torch.bool)[None])
        (tensor([1.]), tensor([2.0412]))
        """
        axes = tuple(range(1, shown.ndim))
        border = torch.stack([shown.diff(dim=axis).sum(dim=axes) for axis in axes]).sum(dim=0)
        size = shown.sum(dim=axes).clamp_min(1).float()
        unit = 2 * len(axes) * size ** ((len(axes) - 1) / len(axes))
        return border / unit
