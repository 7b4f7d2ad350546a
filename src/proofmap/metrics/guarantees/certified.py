"""Certified pixels: which positions stay in the top share of the map, or out of it, under any small change of the input."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import keep_top
from proofmap.methods.method import Cost
from proofmap.metrics.context import Judged
from proofmap.metrics.games import Game, ReadyGame
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@METRICS.register
class CertifiedPixels(Metric):
    """The share of positions that randomised smoothing certifies; at the others it abstains.

    ``samples`` maps of x + sigma * noise are cut at their top ``share``. A position is certified as shown if a binomial test, at the
    level alpha / positions, rejects that it is shown with probability tau or less; and likewise for hidden. All certificates of one map
    hold together with probability 1 - alpha: no change of the input by less than sigma * Phi^-1(tau) in the l2 norm changes a certified
    position. For pictures, noise is in units of pixels (0 to 1); for other inputs, in units of the input's std. Noisy pixels are
    clamped to what a picture can hold.

    The value of an image is that of its first label. Maps that do not depend on the input are certified everywhere, and prove nothing.
    """

    name = "certified-pixels"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = (
        "share of positions certified to stay in or out of the map's top under noise; it abstains at the rest"
    )
    reference = "Anani et al., ICML 2025; Fischer et al. 2021; Cohen et al. 2019"

    samples: int = setting(100, "noisy copies of each image", least=1)
    sigma: float = setting(0.15, "standard deviation of the noise", above=0)
    share: float = setting(0.25, "of the positions that a map shows", above=0, most=1)
    tau: float = setting(0.75, "share of noisy maps that must agree", least=0.5, most=0.9999)
    alpha: float = setting(0.001, "how often a map may be certified wrongly", above=0, most=0.5)

    @property
    def radius(self) -> float:
        """The radius: a smaller change of the input does not change a certified position."""
        return self.sigma * NormalDist().inv_cdf(self.tau)

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        return None if method is None else method * self.samples

    def record(self, games: Mapping[Game, ReadyGame]) -> dict[str, object]:
        certificate = f"certified positions stay within l2 radius {self.radius:.3g} with probability {1 - self.alpha:g} for each map"
        return {**super().record(games), "radius": round(self.radius, 6), "certificate": certificate}

    def certified(self, judged: Judged) -> Tensor:
        """1 where a position is certified as shown, -1 as hidden, 0 where the certificate abstains: ``(N, L, *positions)``."""
        keys = streams.image_keys(judged.images, judged.seed, self.name)
        shown = torch.zeros(judged.maps.shape, dtype=torch.int32, device=judged.maps.device)
        for sample in range(self.samples):
            number = torch.full_like(keys, sample)
            noise = streams.normal(streams.step_keys(keys, number, 1)[:, 0], judged.images[0].numel())
            x = noisy(judged.images, noise.view_as(judged.images), self.sigma, judged.inputs)
            maps = judged.maps_again(images=x)
            shown += keep_top(maps.flatten(0, 1), self.share).view(shown.shape)
        least = least_count(self.samples, self.tau, self.alpha / judged.inputs.count)
        return (shown >= least).to(torch.int8) - (self.samples - shown >= least).to(torch.int8)

    def pairs(self, judged: Judged) -> Tensor:
        found = judged.once(self, lambda: (self.certified(judged) != 0).flatten(2).float().mean(dim=2))
        return found.masked_fill(judged.labels == NO_LABEL, torch.nan)


def noisy(x: Tensor, noise: Tensor, sigma: float, inputs: Inputs) -> Tensor:
    """Inputs with noise, in their own units and within their limits."""
    if inputs.limits is not None:
        return (x + sigma * noise.to(x)).clamp(*inputs.limits)
    return x + sigma * inputs.per_channel(torch.tensor(inputs.std).to(x)) * noise.to(x)


def least_count(n: int, tau: float, alpha: float) -> int:
    """The smallest c with Pr[Binomial(n, tau) >= c] <= alpha; n + 1 if even c = n does not satisfy this.

    >>> least_count(100, 0.75, 0.001 / 50176), least_count(10, 0.75, 1e-6)
    (96, 11)
    """
    k = torch.arange(n + 1, dtype=torch.float64)
    whole = torch.tensor(float(n), dtype=torch.float64)
    ways = torch.lgamma(whole + 1) - torch.lgamma(k + 1) - torch.lgamma(whole - k + 1)
    chance = (
        ways + k * torch.tensor(tau).double().log() + (whole - k) * torch.tensor(1 - tau).double().log()
    ).exp()
    tail = chance.flip(0).cumsum(0).flip(0)  # Pr[X >= c]
    enough = (tail <= alpha).nonzero()
    return int(enough[0]) if len(enough) else n + 1
