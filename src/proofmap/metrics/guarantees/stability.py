"""Two certificates by sampling: how often the net's answer stays when further cells are shown, and which positions a map marks
under any small noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import keep_top, rank
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost
from proofmap.methods.perturbation.regions import Regions, cut, exact
from proofmap.metrics.context import Judged
from proofmap.metrics.games import Game, ReadyGame
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@METRICS.register
class SoftStability(Metric):
    """An estimate of tau_r, the probability that the net's answer stays the same when random cells are shown in addition to a map's
    top cells:

        tau_r = Pr [ the answer to x with S' shown is the answer to x with S shown ],

    where S is the top ``share`` of the cells of a grid by the label's map, and S' is drawn uniformly from all sets that contain S
    and at most r = ``radius`` further cells. The value is the share of N = floor(ln(2 / delta) / (2 eps^2)) + 1 draws in which the
    answer stays; by Hoeffding's inequality it is within eps of tau_r with probability 1 - delta, for each image and label.

    The answer is the most probable label, or, for a net with independent outputs, whether the label's probability is at least .5.
    The value of an image is that of its first label. A meaningless map can be stable, too, so read this value together with
    insertion.
    """

    name = "soft-stability"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = (
        "how often the answer stays when cells are added at random to those a map shows, with a certificate"
    )
    reference = "Jin et al., NeurIPS 2025 (soft stability certificates)"

    share: float = setting(
        0.25, "share of the cells, the map's top ones, to which cells are added", above=0, most=1
    )
    radius: int = setting(16, "largest number of cells that are added at random", least=1)
    cells: int = setting(
        196,
        "approximate number of cells that the input is cut into; each column of a table is a cell",
        least=2,
    )
    eps: float = setting(0.1, "largest allowed error of the value; smaller needs more draws", above=0, most=1)
    delta: float = setting(
        0.1, "largest probability that the error exceeds eps; smaller needs more draws", above=0, most=1
    )
    fill: Fill = setting(Gray(), "what hidden positions show; a random fill is drawn once for each image")

    @property
    def samples(self) -> int:
        """The number of draws that the certificate needs.

        >>> SoftStability().samples
        150
        """
        return math.floor(math.log(2 / self.delta) / (2 * self.eps**2)) + 1

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels * (self.samples + 1))

    def record(self, games: Mapping[Game, ReadyGame]) -> dict[str, object]:
        certificate = f"within {self.eps:g} of the truth with probability {1 - self.delta:g} for each image, from {self.samples} draws"
        return {**super().record(games), "samples": self.samples, "certificate": certificate}

    def pairs(self, judged: Judged) -> Tensor:
        return judged.once(self, lambda: self._stays(judged))

    def _stays(self, judged: Judged) -> Tensor:
        classifier, inputs, labels = judged.classifier, judged.inputs, judged.labels
        regions = cut(judged.images, inputs, self.cells, "grid", 10.0)
        there = (labels != NO_LABEL).nonzero(as_tuple=True)
        own = Regions(regions.index[there[0]], regions.count)
        cells = torch.zeros(*labels.shape, regions.count, dtype=torch.bool, device=labels.device)
        cells[there] = shown_cells(judged.maps[there], own, self.share)
        pairs = [(i, label) for i, row in enumerate(labels.tolist()) for label in row]
        keys = streams.pair_keys(judged.images, pairs, judged.seed, self.name).view(labels.shape)
        fill = self.fill.prepare(classifier)
        fill_keys = streams.image_keys(judged.images, judged.seed, self.name, "fill")

        def answers(image: Tensor, place: Tensor, draw: Tensor) -> Tensor:
            """The net's answers ``(B,)``. Draw 0 shows only the top cells of the map; every other draw shows random further cells
            too."""
            shown, drawn = cells[image, place], streams.step_keys(keys[image, place], draw, 1)[:, 0]
            more = torch.where(draw[:, None] == 0, shown, added_cells(shown, self.radius, drawn))
            keep, x = regions.keep(image, more), judged.images[image]
            masked = inputs.composite(keep, x, fill.behind(x, fill_keys[image], keep))
            return answer(classifier, classifier(masked), labels[image, place])

        found = judged.over_pairs(answers, self.samples + 1, self.name)
        stays = (found[..., 1:] == found[..., :1]).float().mean(dim=2)
        return stays.masked_fill(labels == NO_LABEL, torch.nan)


def shown_cells(maps: Tensor, regions: Regions, share: float) -> Tensor:
    """A mask ``(P, K)`` of the cells in the top share, ranked by the mean rank of their positions in maps ``(P, *positions)``."""
    ranks, index = rank(maps).to(torch.int64), regions.index.flatten(1)
    total = torch.zeros(len(maps), regions.count, dtype=torch.int64, device=maps.device)
    mean = total.scatter_add(1, index, ranks) / regions.sizes().clamp_min(1)
    return rank(-mean) < max(1, round(share * regions.count))


def added_cells(shown: Tensor, radius: int, keys: Tensor) -> Tensor:
    """Random sets ``(B, K)`` that contain ``shown`` ``(B, K)`` and at most ``radius`` further cells, all equally likely.

    There are C(h, k) sets with k of the h hidden cells. First k is drawn in proportion to this number, then the k cells.
    """
    hidden = (~shown).sum(dim=1)
    k = exact(torch.arange(radius + 1, device=shown.device).float())
    h = exact(hidden.float())[:, None]
    ways = torch.lgamma(h + 1) - torch.lgamma(k + 1) - torch.lgamma((h - k).clamp_min(0) + 1)
    chance = ways.masked_fill(k > h, -torch.inf).softmax(dim=1).cumsum(dim=1)
    u = streams.uniform(keys, shown.shape[1] + 1)
    count = (exact(u[:, :1]) >= chance[:, :-1]).sum(dim=1, keepdim=True)
    order = u[:, 1:].masked_fill(shown, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return shown | (order < torch.minimum(count, hidden[:, None]))


def answer(classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
    """The net's answers ``(B,)`` from logits ``(B, A)``: the most probable label or, for independent outputs, whether f of the
    label is at least .5."""
    log_f = classifier.log_f(logits)
    if classifier.independent:
        return (log_f.gather(1, labels[:, None])[:, 0].exp() >= 0.5).long()
    members = torch.tensor(classifier.label_set, device=logits.device)
    return members[log_f[:, members].argmax(dim=1)]


@METRICS.register
class CertifiedPixels(Metric):
    """The share of positions that randomised smoothing certifies. At the other positions it abstains.

    ``samples`` maps of x + sigma * noise are cut at their top ``share``. A binomial test at the level alpha / positions decides: a position
    is certified as shown if "it is shown with probability tau or less" is rejected, and as hidden if "it is hidden with probability tau or
    less" is. All certificates of one map hold together with probability 1 - alpha: no change of the input by less than sigma * Phi^-1(tau)
    in the l2 norm changes a certified position. For pictures, noise is in units of pixels (0 to 1); for other inputs, in units of the
    input's std. Noisy pixels are clamped to what a picture can hold.

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
    sigma: float = setting(
        0.15,
        "standard deviation of the noise: in pixel values (0 to 1) for pictures, else in the input's standard deviations",
        above=0,
    )
    share: float = setting(
        0.25, "share of the positions, the map's top ones, that count as shown", above=0, most=1
    )
    tau: float = setting(
        0.75,
        "least share of noisy maps that must agree on a position; larger certifies fewer positions within a larger radius",
        least=0.5,
        most=0.9999,
    )
    alpha: float = setting(
        0.001, "largest probability that any position of a map is certified wrongly", above=0, most=0.5
    )

    @property
    def radius(self) -> float:
        """The l2 radius of the certificates: a smaller change of the input does not change a certified position."""
        return self.sigma * NormalDist().inv_cdf(self.tau)

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        return None if method is None else method * self.samples

    def record(self, games: Mapping[Game, ReadyGame]) -> dict[str, object]:
        certificate = f"certified positions stay within l2 radius {self.radius:.3g} with probability {1 - self.alpha:g} for each map"
        return {**super().record(games), "radius": round(self.radius, 6), "certificate": certificate}

    def certified(self, judged: Judged) -> Tensor:
        """The certificate ``(N, L, *positions)``: 1 for a position certified as shown, -1 as hidden, 0 if it abstains."""
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
    """The inputs x plus sigma times the noise. Inputs with limits are clamped to them; for other inputs, sigma is in units of the
    input's std.
    """
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
