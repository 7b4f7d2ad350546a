"""Rate-distortion explanations: the fewest positions that keep the net's score when all others show noise.

The method follows Macdonald, Wäldchen, Hauch and Kutyniok (2019). The rate of a set S of positions is its size. The distortion of S is the
change of the score h of label a when the positions outside S show noise n:

    D(S) = 1/2 E[ (h(x, a) - h(y, a))^2 ],      y = x in S, n elsewhere.

The smallest set of a given distortion is hard to find, and hard to approximate (their theorems). So S is replaced by a weight s in [0, 1]
for each position, and the size of S by |s|_1:

    min over s of   D(s) / D(0)  +  rate |s|_1 / positions,      y = s up * x + (1 - s up) * n.

"s up" are the weights enlarged from a grid to the input. D(0), the distortion of noise alone, is a constant of each (image, label) pair. It
makes ``rate`` a share: the published weight of |s|_1, called lambda, is rate D(0) / positions. The authors compute E by assumed density
filtering, for ReLU nets. Here E is the mean over new draws of noise at each step, for any net. s is learned directly by Adam, and clipped
to [0, 1] after each step. A score that rises counts as distorted like one that falls, unlike in methods that maximise the label. The map is
s up.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.fills import Fill, Noise
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import CompositeProblem, MaskMethod, WholeNet
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

Kept = Literal["logit", "probability"]

_DRAWS = 16
"""Draws of the noise for D(0)."""
_LEAST = 1e-6
"""Smallest D(0). A label whose score does not change under noise needs no position."""


class RateDistortionProblem(CompositeProblem):
    """Learns the weights s of the (image, label) pairs in the slots. The slots also hold the score of the whole input and the distortion of
    noise alone.
    """

    def __init__(self, settings: RateDistortion, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast, settings.fill, grid=settings.grid)
        self.settings, self.steps, self.rate = settings, settings.steps, settings.learning_rate
        self.cost = settings.samples if settings.fill.random else 1
        self.noises = _DRAWS if settings.fill.random else 1

    def enter(self, slots: Slots) -> Slots:
        """Return the initial state: s = 1/2 everywhere, the score h(x, a), and D(0) from draws of noise that no step uses."""
        brought = super().enter(slots)
        keys = streams.step_keys(~slots["keys"], torch.zeros_like(slots["labels"]), self.noises)
        with torch.no_grad():
            whole = self.scores(brought["seen"][:, None], slots)
            draws = (self.hidden(slots | brought, key) for key in keys.split(1, dim=1))
            alone = torch.cat([self.scores(noise, slots) for noise in draws], dim=1)
        noise = 0.5 * (whole - alone).square().mean(dim=1)
        return {
            **brought,
            "weights": self.even_weights(slots, 0.5),
            "score": whole[:, 0],
            "noise": noise.clamp_min(_LEAST),
        }

    def scores(self, composites: Tensor, slots: Slots) -> Tensor:
        """The score h ``(P, D)`` of each pair's label, for normalised composites ``(P, D, *shape)``."""
        if self.settings.score == "probability":
            return self.log_f(composites, slots).exp()
        return self.own_label(self.logits(composites), slots)

    def move(self, slots: Slots, gradient: Tensor) -> None:
        super().move(slots, gradient)
        slots["weights"].clamp_(0, 1)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        keys = streams.step_keys(slots["keys"], slots["step"], self.cost)
        masks = self.masks(weights)
        composites = self.inputs.composite(masks, slots["seen"][:, None], self.hidden(slots, keys))
        change = self.scores(composites, slots) - slots["score"][:, None]
        distortion = 0.5 * change.square().mean(dim=1)
        return distortion / slots["noise"] + self.settings.rate * masks.flatten(1).mean(dim=1)


@METHODS.register
class RateDistortion(WholeNet, MaskMethod):
    """The fewest positions that keep the label's score when all others show noise; the defaults are the preset ``fast``.

    Presets: ``fast`` (200 passes per label), ``thorough`` (2000, one weight per position up to 224).

    >>> RateDistortion.preset("thorough", rate=0.1).changes()
    ['steps=500', 'samples=4', 'grid=224', 'rate=0.1']
    """

    name = "rate-distortion"
    learns = RateDistortionProblem
    description = "the fewest positions that keep the label's score when all others are noise"
    reference = "Macdonald et al. 2019"
    needs = frozenset({"gradients"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {"fast": {}, "thorough": {"steps": 500, "samples": 4, "grid": 224}}
    }

    steps: int = setting(100, "Adam steps", least=1)
    samples: int = setting(2, "draws of the noise per step", least=1)
    grid: int = setting(28, "cells of the mask along the longest side", least=1)
    rate: float = setting(
        1.0,
        "weight of the mask's mean, relative to the distortion when everything is noise; larger keeps fewer positions",
        least=0,
    )
    score: Kept = setting("logit", "what must not change: the label's logit, or its probability")
    learning_rate: float = setting(0.1, "step size of Adam", above=0)
    fill: Fill = setting(Noise(), "what hidden positions show")

    @property
    def draws(self) -> int:
        """Number of draws of the noise per step; 1 if the fill is not random."""
        return self.samples if self.fill.random else 1

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """Passes for one image: those of the steps, and for each label forward passes for the whole input and for noise alone."""
        shown = 1 + (_DRAWS if self.fill.random else 1)
        return Cost(forward=labels * shown, gradient=labels * self.steps * self.draws)
