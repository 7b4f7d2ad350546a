"""FIDO for one image at a time: the smallest region that supports a label, or whose loss takes the label away, when the rest is filled in.

The method follows Chang, Creager, Goldenberg and Duvenaud (2019). Every cell of a grid is shown with a probability p, and these are learned
for each (image, label) pair:

    region=ssr (smallest supporting region):   min over p of   E_z[ -s(x~) ]  +  l1 * sum p,            the map is p
    region=sdr (smallest deletion region):     min over p of   E_z[  s(x~) ]  +  l1 * sum (1 - p),      the map is 1 - p

    x~ = z up * x + (1 - z up) * x',     s = log f - log(1 - f),     z = sigmoid((W + logit(u)) / t),     p = sigmoid(W)

f is the net's probability of the label for x~, and "z up" are the gates z, enlarged. The gates are concrete variables (Maddison et al.
2017): u is uniform, and the temperature t falls evenly from 1 to .1, so that they become 0 or 1. x' is what the fill shows where z up is
below one half. Their point is a fill that paints what could have been there: ``fill=infill:FILE.py:NET``. No gradient passes the fill.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.fills import Blur, Fill
from proofmap.methods.grids import enlarged
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import CompositeProblem, MaskMethod, WholeNet
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_FIRST, _LAST = 1.0, 0.1
"""The temperature of the first and of the last step."""


class FIDOProblem(CompositeProblem):
    """The gates of the (image, label) pairs in the slots."""

    falls = False

    def __init__(self, settings: FIDO, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast, settings.fill, grid=settings.grid)
        self.settings, self.steps = settings, settings.steps
        self.cost, self.rate = settings.samples, settings.learning_rate
        self.sign = 1.0 if settings.region == "ssr" else -1.0

    def enter(self, slots: Slots) -> Slots:
        return {**super().enter(slots), "weights": self.even_weights(slots, 0.0)}

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged((self.sign * weights).sigmoid(), self.up)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        s, count = self.settings, self.settings.samples
        keys = streams.step_keys(slots["keys"], slots["step"], 2 * count)
        cells = weights.shape[2:]
        u = streams.uniform(keys[:, :count], math.prod(cells)).view(len(weights), count, *cells)
        share = slots["step"] / max(1, self.steps - 1)
        heat = (_FIRST + (_LAST - _FIRST) * share).view(-1, 1, *[1] * len(cells))
        gates = enlarged(((weights + u.clamp(1e-6, 1 - 1e-6).logit()) / heat).sigmoid(), self.up)
        hidden = self.hidden(slots, keys[:, count:], keep=gates.detach() >= 0.5)
        log_f = self.log_f(self.inputs.composite(gates, slots["seen"][:, None], hidden), slots)
        odds = log_f - torch.log1p(-log_f.exp().clamp_max(1 - 1e-6))
        marked = (self.sign * weights).sigmoid().flatten(1).sum(dim=1)
        return s.l1 * marked - self.sign * odds.mean(dim=1)


@METHODS.register
class FIDO(WholeNet, MaskMethod):
    """The smallest region that supports a label (or whose loss takes it away) while the rest is filled in.

    Presets: ``fast`` (the defaults, 200 passes per label), ``paper`` (300 steps of 8 draws, rate .05).
    """

    name = "fido"
    learns = FIDOProblem
    description = "the smallest region that supports a label, by random gates over a fill that may paint"
    reference = "Chang et al. 2019"
    fills_behind = True
    needs = frozenset({"gradients"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {"fast": {}, "paper": {"steps": 300, "samples": 8, "learning_rate": 0.05, "grid": 56}}
    }

    region: Literal["ssr", "sdr"] = setting(
        "ssr", "ssr: the smallest region that supports the label; sdr: the smallest whose loss takes it away"
    )
    steps: int = setting(100, "Adam steps", least=1)
    samples: int = setting(2, "draws of the gates per step", least=1)
    grid: int = setting(28, "gates along the longest side", least=1)
    l1: float = setting(1e-3, "weight of the number of marked cells", least=0)
    learning_rate: float = setting(0.2, "step size of Adam", above=0)
    fill: Fill = setting(Blur(), "what hidden positions show")

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """Passes for one image: one pass with a gradient for each label, step and draw."""
        return Cost(gradient=labels * self.steps * self.samples)
