"""DiffMask for one image at a time: the fewest open gates with which the net keeps its belief.

The method follows De Cao, Schlichtkrull, Aziz and Titov (2020). They train a net that sets the gates z; here the weights W of the gates are
learned for each (image, label) pair:

    max over lambda >= 0, min over W of   mean P(z > 0)  +  lambda ( KL - margin ),
    x~ = z up * x + (1 - z up) * x',     z = min(1, max(0, (zeta - gamma) s + gamma)),   s = sigmoid((W + logit(u)) / tau)

z are hard concrete gates (Louizos et al. 2018) on a grid, and "z up" are the enlarged gates. They are random (u is uniform), and exactly 0
or 1 with positive probability; tau = 2/3, gamma = -.1, zeta = 1.1, so P(z > 0) = sigmoid(W - tau log(-gamma / zeta)). f(x, a) is the net's
probability of label a. KL is the divergence of f(x~, a) from f(x, a), both as probabilities of "is a", so a label that the net does not
believe needs no gates. lambda rises while KL is above the margin and falls while it is below (dual ascent), so the constraint is met
instead of weighted. x' is a random image. The map is sigmoid(W), enlarged.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.fills import Fill, Images
from proofmap.methods.grids import enlarged
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import CompositeProblem, MaskMethod, WholeNet
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_TAU, _GAMMA, _ZETA = 2 / 3, -0.1, 1.1
_OPEN = _TAU * math.log(-_GAMMA / _ZETA)
"""The constant in P(z > 0) = sigmoid(W - _OPEN)."""
_FIRST, _MOST = 2.0, 1000.0
"""The initial W, with which gates are nearly open, and the largest lambda."""


class DiffMaskProblem(CompositeProblem):
    """The gates of the (image, label) pairs in the slots. Each pair also has its own ``lambda``, the weight of a divergence from f."""

    memory = 0.9  # lambda changes the scale of the gradient within tens of steps

    def __init__(self, settings: DiffMask, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast, settings.fill, grid=settings.grid)
        self.settings, self.exact = settings, session.net.frozen()
        self.steps, self.cost, self.rate = settings.steps, settings.samples, settings.learning_rate

    def enter(self, slots: Slots) -> Slots:
        first, place = self.distinct_images(slots)
        with torch.no_grad(), steady_kernels(tf32=False):  # f as it is judged
            log_f = self.exact.log_f(self.exact(slots["images"][first]))[place]
        f = log_f.gather(1, slots["labels"][:, None])[:, 0].exp()
        return {
            **super().enter(slots),
            "weights": self.even_weights(slots, _FIRST),
            "f": f,
            "lambda": torch.full_like(f, self.settings.dual_start),
        }

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged(weights.sigmoid(), self.up)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        s, count = self.settings, self.settings.samples
        keys = streams.step_keys(slots["keys"], slots["step"], 2 * count)
        cells = math.prod(weights.shape[2:])
        u = streams.uniform(keys[:, :count], cells).view(len(weights), count, *weights.shape[2:])
        kept = enlarged(hard_concrete(weights, u), self.up)
        x = self.inputs.composite(kept, slots["seen"][:, None], self.hidden(slots, keys[:, count:]))
        gap = divergence(slots["f"][:, None], self.log_f(x, slots)).mean(dim=1) - s.margin
        loss = expected_open(weights).flatten(1).mean(dim=1) + slots["lambda"].clone() * gap
        rise = s.dual_rate * gap.detach()
        slots["lambda"].add_(rise.where(rise.isfinite(), 0.0)).clamp_(0, _MOST)  # half precision overflows
        return loss


@METHODS.register
class DiffMask(WholeNet, MaskMethod):
    """The fewest open gates that keep the net's belief, by dual ascent; the defaults are the preset ``fast``.

    Presets: ``fast`` (200 passes per label), ``thorough`` (1200).
    """

    name = "diffmask"
    learns = DiffMaskProblem
    description = "the fewest random gates that keep the net's belief, by dual ascent"
    revision = 2
    reference = "De Cao et al. 2020"
    needs = frozenset({"gradients", "distractors"})
    shortcuts: ClassVar[Shortcuts] = {"preset": {"fast": {}, "thorough": {"steps": 300, "samples": 4}}}

    steps: int = setting(100, "Adam steps", least=1)
    samples: int = setting(2, "draws of the gates per step", least=1)
    grid: int = setting(28, "gates along the longest side", least=1)
    margin: float = setting(
        0.05, "allowed divergence from f, the net's probability for the whole input, in nats", above=0
    )
    learning_rate: float = setting(0.2, "step size of Adam", above=0)
    dual_rate: float = setting(1.0, "step size of lambda, the weight of the divergence", above=0)
    dual_start: float = setting(0.0, "first value of lambda, the weight of the divergence", least=0)
    fill: Fill = setting(Images(), "what positions with a closed gate show")

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """Passes for one image: one forward pass for the net's belief, and one pass with a gradient for each label, step and sample."""
        return Cost(forward=1, gradient=labels * self.steps * self.samples)


def hard_concrete(weights: Tensor, u: Tensor) -> Tensor:
    """Hard concrete gates z in [0, 1] from weights W and uniform random numbers u.

    >>> hard_concrete(torch.tensor([-9.0, 0.0, 9.0]), torch.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    s = ((weights + u.clamp(1e-6, 1 - 1e-6).logit()) / _TAU).sigmoid()
    return (s * (_ZETA - _GAMMA) + _GAMMA).clamp(0, 1)


def expected_open(weights: Tensor) -> Tensor:
    """The probability P(z > 0) that each gate is open, given the weights W."""
    return (weights - _OPEN).sigmoid()


def divergence(f: Tensor, log_q: Tensor) -> Tensor:
    """KL divergence between two binary distributions, "is a" with probability f and with probability q = exp(``log_q``): f
    log(f / q) + (1 - f) log((1 - f) / (1 - q)).

    >>> divergence(torch.tensor(0.5), torch.tensor(0.25).log())
    tensor(0.1438)
    """
    f = f.clamp(1e-6, 1 - 1e-6)
    log_not = torch.log1p(-log_q.exp().clamp_max(1 - 1e-6))
    return f * (f.log() - log_q.clamp_min(-14)) + (1 - f) * (torch.log1p(-f) - log_not)
