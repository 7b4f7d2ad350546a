"""FIDO for one image at a time: the smallest region that supports a label, or whose loss takes the label away, when the rest is filled in.

The method follows Chang, Creager, Goldenberg and Duvenaud (2019) and their code (github.com/zzzace2000/FIDO-saliency). Every position is
shown with a probability p, enlarged from a grid, whose cells are learned for each (image, label) pair:

    region=ssr (smallest supporting region):   min over p of   E_z[ -s(x~) ]  +  r l1 * sum p,            the map is p
    region=sdr (smallest deletion region):     min over p of   E_z[  s(x~) ]  +  r l1 * sum (1 - p),      the map is 1 - p

    x~ = z * x + (1 - z) * x',     s = log f - log(1 - f),     z = sigmoid((logit p + logit u) / .1),     p = up sigmoid(W)

f is the net's probability of the label for x~, and the sums are over positions. The gates z are concrete variables (Maddison et al. 2017)
with u uniform, one for each position. r rises from 0 to 1 over the first tenth of the steps, and the step size falls evenly to 0. x' is what
the fill shows where z is below one half. Their point is a fill that paints what could have been there: ``fill=infill:FILE.py:NET``. No
gradient passes the fill.
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

_HEAT = 0.1
"""The temperature of the gates."""
_RISE = 0.1
"""Share of the steps in which the penalty grows to its full weight: 30 of the authors' 300."""
_EPS = 1e-6


class FIDOProblem(CompositeProblem):
    """The gates of the (image, label) pairs in the slots."""

    def __init__(self, settings: FIDO, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast, settings.fill, grid=settings.grid)
        self.settings, self.steps = settings, settings.steps
        self.cost, self.rate = settings.samples, settings.learning_rate
        self.sign = 1.0 if settings.region == "ssr" else -1.0

    def enter(self, slots: Slots) -> Slots:
        return {**super().enter(slots), "weights": self.even_weights(slots, 0.0)}

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged((self.sign * weights).sigmoid(), self.up)

    def rates(self, step: Tensor) -> Tensor:
        return self.rate * (1 - step / self.steps)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        s, count = self.settings, self.settings.samples
        keys = streams.step_keys(slots["keys"], slots["step"], 2 * count)
        shown = enlarged(weights.sigmoid(), self.up)  # (P, 1, *positions)
        places = shown.shape[2:]
        u = streams.uniform(keys[:, :count], math.prod(places)).view(len(weights), count, *places)
        gates = ((shown.logit(_EPS) + u.logit(_EPS)) / _HEAT).sigmoid()
        hidden = self.hidden(slots, keys[:, count:], keep=gates.detach() >= 0.5)
        log_f = self.log_f(self.inputs.composite(gates, slots["seen"][:, None], hidden), slots)
        odds = log_f - torch.log1p(-log_f.exp().clamp_max(1 - _EPS))
        marked = (shown if s.region == "ssr" else 1 - shown).flatten(1).sum(dim=1)
        share = (slots["step"] / (_RISE * self.steps)).clamp_max(1)
        return s.l1 * share * marked - self.sign * odds.mean(dim=1)


@METHODS.register
class FIDO(WholeNet, MaskMethod):
    """The smallest region that supports a label (or whose loss takes it away) while the rest is filled in.

    Presets: ``fast`` (the defaults, 200 passes per label), ``paper`` (300 steps of 8 draws, rate .05, as the authors' code is run).
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
    l1: float = setting(1e-3, "weight of the number of marked positions", least=0)
    learning_rate: float = setting(0.2, "step size of Adam", above=0)
    fill: Fill = setting(Blur(), "what hidden positions show")

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """Passes for one image: one pass with a gradient for each label, step and draw."""
        return Cost(gradient=labels * self.steps * self.samples)
