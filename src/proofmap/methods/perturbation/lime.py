"""LIME: a linear model of what the net says, fitted to the input with random superpixels hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.progress import Progress
from proofmap.fills import Fill
from proofmap.methods.method import METHODS
from proofmap.methods.perturbation.passes import FILL_HELP, MaskedNet
from proofmap.methods.perturbation.regions import RegionMethod, exact
from proofmap.methods.perturbation.superpixels import Regions
from proofmap.plugins.settings import setting


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class LIME(RegionMethod):
    """LIME (Ribeiro et al. 2016): the coefficients b of

        min over b, c of  sum_s w_s (f(x_s, a) - c - b . z_s)^2 + ridge |b|^2,      w_s = exp(-d_s^2 / (2 width^2))

    z_s says which regions sample s shows (each with probability 1/2; all of them in the first), and d_s = 1 - sqrt(share of
    regions shown) is the cosine distance to showing all. Weights, ridge, number of samples and fill are those of the
    authors' package; its superpixels are others (quickshift), and the model keeps all of them here.
    """

    name: ClassVar[str] = "lime"
    reference: ClassVar[str] = "Ribeiro et al. 2016"
    description: ClassVar[str] = "a linear model of what the net says when superpixels are hidden"
    signed = True
    stochastic = True

    fill: Fill | None = setting(None, FILL_HELP)
    samples: int = setting(1000, "masked inputs for each image; all labels share them", least=2)
    width: float = setting(0.25, "width of the kernel that weighs samples by their distance", above=0)
    ridge: float = setting(1.0, "weight of the squared coefficients", above=0)

    def passes(self, inputs: Inputs, labels: int) -> int:
        return self.samples

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        everyone = torch.arange(len(net.images), device=net.images.device)

        def shown(image: Tensor, sample: Tensor) -> Tensor:
            drawn = streams.uniform(net.sample_keys(image, sample), regions.count) < 0.5
            return drawn | (sample == 0)[:, None]

        found = net.samples(
            self.samples, lambda image, sample: regions.keep(image, shown(image, sample)), progress
        )
        numbers = torch.arange(self.samples, device=everyone.device)
        parts = []
        for image in everyone:  # one design at a time
            design = exact(shown(image.expand(self.samples), numbers).float())
            parts.append(weighted_ridge(design, exact(found[image]), self.weights(design), self.ridge))
        return torch.stack(parts).to(found.dtype)

    def weights(self, design: Tensor) -> Tensor:
        """How much samples ``(S, K)`` count, ``(S,)``."""
        distance = 1 - design.mean(dim=1).sqrt()
        return torch.exp(-0.5 * (distance / self.width) ** 2)


def weighted_ridge(design: Tensor, values: Tensor, weights: Tensor, ridge: float) -> Tensor:
    """The coefficients ``(L, K)`` of weighted ridge regressions of values ``(S, L)`` on one design ``(S, K)``.

    The intercept is not penalised.

    >>> design = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> weighted_ridge(design, design @ torch.tensor([[2.0], [-1.0]]) + 5, torch.ones(4), 1e-6)
    tensor([[ 2.0000, -1.0000]])
    """
    share = (weights / weights.sum())[:, None]
    x, y = design - (share * design).sum(dim=0), values - (share * values).sum(dim=0)
    weighted = weights[:, None] * x
    gram = weighted.T @ x + ridge * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    coefficients: Tensor = torch.linalg.solve(gram, weighted.T @ y)
    return coefficients.T
