"""Training of the belief masker, a method of this project.

The insertion game shows the top share u of a map over a fill k, and its area A_k is the mean over u of f(x~_u, a). As with belief
masks (:mod:`proofmap.methods.masks.belief`), the areas should equal f(x, a). Here a net, the masker, makes the maps in one pass. In
training, the masker makes the maps of each image for the three likeliest labels and a random one. The games are played with three
fills (gray, blur, another image) and with four shares each, one from each quarter. F_ku is the net's probability of the label in
the game with fill k and share u, A_k is the mean of F_ku over u, and f is the probability for the whole image:

    loss = mean over k, u of  c_k F_ku / A_k  +  .02 y TV(sigmoid(map)),
    c_k  = log A_k - log max(f, .0005), within +-.5, a constant of the step, and never negative for f < .01,

where y = 1 / (1 + (e / .1)^2), and the error e is the mean of |log A_k - log f| over k. The hard mask of the top share has the
gradient of a soft step. The gradients of all maps are scaled to the same norm, times min(1, e / .5). Without this, the gradient of
a label that the net is sure of would be near zero, and labels that the net does not believe would dominate. Labels with f >= .01,
which are few, have the same total weight as all others. Half of the images have one half replaced by that of another image, so that
the net is undecided and its labels are in different parts of the image.

The optimiser is Adam with a learning rate of 2e-3 that falls to zero as a half cosine. Gradient norms are clipped at 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.progress import Silent
from proofmap.fills import Blur, Gray
from proofmap.methods.cams import GradCAM
from proofmap.methods.grids import shrunk, upsamplings
from proofmap.methods.maskers.nets import BeliefNet, Scale, resized, standardised
from proofmap.methods.maskers.objective import Objective, TrainingBatch, TrainingRecipe
from proofmap.methods.masks.belief_terms import (
    BELIEVED,
    FORCE,
    LARGEST,
    belief_errors,
    share_thresholds,
    top_share,
    yielding,
)
from proofmap.methods.masks.engine import HALF_SCALE
from proofmap.methods.masks.terms import total_variation
from proofmap.methods.method import ReadyMethod

_LIKELY, _SHARES, _FILLS = 3, 4, 3
_SMOOTH, _TEMPERATURE = 0.02, 0.3


@dataclass(frozen=True)
class Games:
    """The games of a batch: images ``(N, C, H, W)``, their backgrounds ``(N, K, C, H, W)``, and the shares shown ``(P, K, U)`` for each
    of the P = N L pairs of an image and one of its labels ``(N, L)``."""

    images: Tensor
    hidden: Tensor
    shares: Tensor
    labels: Tensor


class BeliefObjective(Objective):
    kind = "belief"
    width = 32
    batch = 16
    rate = 2e-3
    weight_decay = 0.0
    clip = 1.0
    net: BeliefNet

    def __init__(self, recipe: TrainingRecipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.fills = [Gray().prepare(classifier), Blur().prepare(classifier)]
        self.cam = GradCAM().prepare(classifier)
        self.label_set = torch.tensor(classifier.label_set, device=classifier.device)
        self.likely = min(_LIKELY, len(self.label_set))
        self.scale, self.half = HALF_SCALE if self.half else 1.0, False  # this class scales gradients itself

    @classmethod
    def build(cls, scales: tuple[Scale, ...], classifier: Classifier, width: int) -> BeliefNet:
        return BeliefNet([scale.channels for scale in scales], width)

    def passes(self, step: int) -> int:
        return 2 + (self.likely + 1) * _FILLS * _SHARES

    def rate_at(self, step: int) -> float:
        return 0.5 * self.recipe.learning_rate * (1 + math.cos(math.pi * step / self.recipe.steps))

    def altered(self, images: Tensor, others: Tensor, keys: Tensor) -> Tensor:
        """The images, where half of them have their left, right, upper or lower half replaced by that of another image."""
        coin, which = streams.uniform(keys ^ streams.key_of("halves"), 2).unbind(dim=1)
        height, width = images.shape[2:]
        down = torch.arange(height, device=images.device)[:, None] < height // 2
        across = torch.arange(width, device=images.device)[None] < width // 2
        sides = torch.stack([m.expand(height, width) for m in (down, ~down, across, ~across)])
        replaced = sides[(4 * which).long()] & (coin < 0.5)[:, None, None]
        return torch.where(replaced[:, None], others, images)

    def loss(self, batch: TrainingBatch) -> Tensor:
        labels = self.labels(batch)
        cams, log_f = with_rivals(self.cam, batch.images, labels, batch.log_f, self.scales[-1].size)
        low = self.net(self.net.field(batch.features), cams, log_f)
        maps = resized(low, self.inputs.positions).flatten(0, 1)
        return (maps * self.pull(batch, maps.detach(), labels, log_f[..., 0].flatten().exp())).mean()

    def pull(self, batch: TrainingBatch, maps: Tensor, labels: Tensor, f: Tensor) -> Tensor:
        """The gradient of each map's own loss ``(P, H, W)``, scaled by the map's error.

        Maps do not interact, so the games are played in parts that fit the device; results differ only by rounding.
        """
        games = self.games(batch, labels)

        def part(start: int, stop: int) -> tuple[Tensor, Tensor]:
            return self.gradient(games, maps[start:stop], f[start:stop], start)

        parts = in_batches(part, len(maps), self.fast.batches[1], cost=_FILLS * _SHARES, item="map")
        gradient, far = (torch.cat(several) for several in zip(*parts, strict=True))
        self.shown_value = ("|log A - log f|", far.mean())
        size = gradient.square().mean(dim=(1, 2), keepdim=True).sqrt()
        wanted = balance(f) * (far / FORCE).clamp_max(1.0)
        pull = gradient / size.clamp_min(1e-20) * wanted[:, None, None]
        return pull.where(size.isfinite(), 0.0)  # half precision overflows

    def gradient(self, games: Games, maps: Tensor, f: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """The gradient of the loss of each map ``(P, H, W)``, and the errors e ``(P,)`` of the maps. The maps are those of the
        pairs from ``start`` on.
        """
        with torch.enable_grad():
            maps = maps.detach().requires_grad_(True)
            said = self.play(games, maps, start)
            now = said.detach().exp()
            areas = now.mean(dim=2).clamp_min(1e-6)
            errors = belief_errors(areas, f, spared=math.inf)
            weight = (now / areas[..., None]).clamp_max(LARGEST)
            losses = (errors.clamp(-FORCE, FORCE)[..., None] * weight * said).mean(dim=(1, 2))
            far = errors.abs().mean(dim=1)
            losses = losses + _SMOOTH * yielding(far) * total_variation(maps.sigmoid())
            (gradient,) = torch.autograd.grad(self.scale * losses.sum(), maps)
        return gradient, far

    def labels(self, batch: TrainingBatch) -> Tensor:
        """The labels ``(N, L)`` that maps are made for: the likeliest labels of each image, and a random one."""
        inside = batch.log_f[:, self.label_set]
        likely = inside.topk(self.likely, dim=1).indices
        drawn = (batch.uniform("label", 1) * len(self.label_set)).long()
        return self.label_set[torch.cat([likely, drawn], dim=1)]

    def games(self, batch: TrainingBatch, labels: Tensor) -> Games:
        """The games for labels ``(N, L)``: one share from each quarter, for every fill."""
        pairs, many = labels.numel(), labels.shape[1]
        place = torch.arange(_SHARES, device=labels.device)
        jitter = batch.uniform("shares", many * _FILLS * _SHARES).view(pairs, _FILLS, _SHARES)
        hidden = [fill(batch.images, batch.keys) for fill in self.fills] + [batch.others]
        return Games(batch.images, torch.stack(hidden, dim=1), (place + jitter) / _SHARES, labels)

    def play(self, games: Games, maps: Tensor, start: int = 0) -> Tensor:
        """log f ``(P, K, U)`` for the images that show the top shares of maps ``(P, H, W)`` over each fill.

        The maps are those of the pairs from ``start`` on.
        """
        pairs = torch.arange(start, start + len(maps), device=maps.device)
        image = pairs // games.labels.shape[1]
        shown = top_share(maps, share_thresholds(maps.detach(), games.shares[pairs].flatten(1)), _TEMPERATURE)
        shown = shown.unflatten(1, (_FILLS, _SHARES))
        front, behind = games.images[image][:, None, None], games.hidden[image][:, :, None]
        log_f = self.log_f(self.inputs.composite(shown, front, behind).flatten(0, 2))
        labels = games.labels.flatten()[pairs].repeat_interleave(_FILLS * _SHARES)
        return log_f.gather(1, labels[:, None])[:, 0].view(len(maps), _FILLS, _SHARES)


def balance(f: Tensor) -> Tensor:
    """Weights ``(P,)`` of mean 1 that give believed labels (f >= .01) the same total weight as all others.

    >>> balance(torch.tensor([0.9, 0.001, 0.001, 0.001]))
    tensor([2.0000, 0.6667, 0.6667, 0.6667])
    """
    believed = f >= BELIEVED
    share = believed.float().mean().clamp(1 / (2 * len(f)), 1 - 1 / (2 * len(f)))
    return torch.where(believed, 0.5 / share, 0.5 / (1 - share))


def with_rivals(
    cam: ReadyMethod, images: Tensor, labels: Tensor, log_f: Tensor, size: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """The inputs of a belief net for labels ``(N, L)``: maps ``(N, L, 2, *size)`` and log f ``(N, L, 2)``, each of the label and its rival.

    The rival is the likeliest other label, by log f ``(N, A)`` of all labels; the label itself if there is only one.
    """
    likeliest = log_f.topk(min(2, log_f.shape[1]), dim=1).indices
    first, second = likeliest[:, :1], likeliest[:, -1:]
    is_first = labels == first
    maps = standardised_cams(cam, images, torch.cat([labels, first, second], dim=1), size)
    own, most, next_most = maps.split([labels.shape[1], 1, 1], dim=1)
    rivals = torch.where(is_first[..., None, None], next_most, most)
    both = torch.stack([labels, torch.where(is_first, second, first)], dim=2)
    return torch.stack([own, rivals], dim=2), log_f.gather(1, both.flatten(1)).view(both.shape)


def standardised_cams(cam: ReadyMethod, images: Tensor, labels: Tensor, size: Sequence[int]) -> Tensor:
    """Grad-CAM maps ``(N, L, *size)`` with mean 0 and deviation 1; zero for a constant map."""
    maps = cam.compute(images, labels, seed=0, progress=Silent())
    return standardised(shrunk(maps.float(), upsamplings(size, images.shape[2:], device=maps.device)))
