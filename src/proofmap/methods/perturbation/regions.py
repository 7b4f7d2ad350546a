"""Methods that give every region of the input (superpixels, segments, columns) one value for each label."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core.inputs import Inputs
from proofmap.core.progress import Progress
from proofmap.methods.perturbation.passes import MaskedNet, PerturbationMethod
from proofmap.methods.perturbation.superpixels import Regions, Superpixels, cut, region_count
from proofmap.plugins.settings import setting


@dataclass(frozen=True, kw_only=True)
class RegionMethod(PerturbationMethod):
    """One value per region and label; a map holds the value of its region at every position."""

    regions: int = setting(
        50, "about how many regions: superpixels, or segments of a series; each column of a table is one", least=1
    )  # fmt: skip
    superpixels: Superpixels = setting(
        "slic", "what regions of pictures are: superpixels that follow colour, or cells of a grid"
    )
    compactness: float = setting(
        10.0, "how much place counts beside colour in superpixels; 10 is usual", above=0
    )

    def count(self, inputs: Inputs) -> int:
        """How many regions these inputs have."""
        return region_count(inputs, self.regions)

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        regions = cut(net.images, net.inputs, self.regions, self.superpixels, self.compactness)
        net.hide_by_means(regions.index)
        return regions.spread(self.values(net, regions, progress))

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        """The values ``(N, L, count)`` of the regions."""
        raise NotImplementedError


def exact(values: Tensor) -> Tensor:
    """The values in double precision, where the device has it."""
    return values if values.device.type == "mps" else values.to(torch.float64)
