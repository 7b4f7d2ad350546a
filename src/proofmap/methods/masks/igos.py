"""iGOS++ (Khorram, Lawson and Li 2021): two masks, one that deletes the label and one that brings it back.

    F(D, I) = 1/2 [ f(D) - f(1 - I) + f(D I) - f(1 - D I) ]  +  l1 * mean |1 - D I|  +  tv * BTV(D I)

f(M) stands for f(x~, a), the net's probability of label a, with x~ = M up * x + (1 - M up) * blurred x, where "M up" is the enlarged mask
M. So D deletes, 1 - I inserts, and their product must do both. The map is 1 - (D I) up. This code was written from the paper's formulas:

- **Integrated gradients.** The direction d is the gradient of F after every f(M) is replaced by a mean along the path from the blurred
  image to M: 1/S sum over s = 1 .. S of f(s/S M), and f(1 - s/S M) in the inserting terms. Noise is added to each composite.
- **Line search.** The step is the first alpha of 1000, 200, 40, ... (down to 1e-5) with F(M - alpha d) <= F(M) - 1e-4 alpha |d|^2, where
  masks are clamped to [0, 1], and F is computed without integration and noise. One pass tries as many steps as fit into a batch.
- **Momentum** (Nesterov): the next direction is computed at M_t + t / (t + 3) (M_t - M_(t-1)).
- **Never up**: a step that raises F is not taken. (If D and I both reach zero, the gradient vanishes and the search cannot recover.)
- **Bilateral total variation** (BTV): half the mean squared difference of neighbours on the grid, and half the same at full size. At full
  size each difference has the weight e^(-(difference of the image)^2 / sigma^2), so masks may jump where the image does. The image is in
  [0, 1], its channels are averaged, and sigma^2 = .01 is the published constant.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.fills import Blur, Fill
from proofmap.methods.grids import enlarged
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import (
    CompositeProblem,
    MaskMethod,
    WholeNet,
    add_noise_,
)
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_GAMES = 4
"""Number of terms f(M) in F: one for each of the two masks, and two for their product."""
_LEAST, _DECAY, _ENOUGH = 1e-5, 0.2, 1e-4
"""The smallest step, the factor by which a tried step is shortened, and the share of the descent predicted by the gradient that a step must
reach.
"""


class IGOSProblem(CompositeProblem):
    """The masks of the (image, label) pairs in the slots. They are stored as (1 - D, 1 - I), because a small deletion would be lost by
    rounding in a number near 1. ``weights`` is the point where the next direction is computed, and ``reached`` is the point after the last
    step.
    """

    def __init__(self, settings: IGOSPlusPlus, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast, settings.fill, grid=settings.grid, corners=True)
        self.settings, self.steps = settings, settings.iterations
        self.cost = _GAMES * settings.integration
        self.axes = tuple(range(-len(self.up), 0))
        self.lengths = torch.tensor([0.0, *settings.trials], device=fast.device)
        way = torch.arange(1, settings.integration + 1, device=fast.device)
        self.way = way / settings.integration
        self.signs = torch.tensor([1.0, -1.0, 1.0, -1.0], device=fast.device)

    def enter(self, slots: Slots) -> Slots:
        nothing = self.even_weights(slots, 0.0, masks=2)
        value = nothing.new_full((len(nothing),), torch.inf)
        return {**super().enter(slots), "weights": nothing, "reached": nothing, "value": value}

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged(deleted(weights)[:, None], self.up)

    def finished(self, slots: Slots) -> Tensor:
        return self.masks(slots["reached"])

    # ---- the objective ------------------------------------------------------------------------------------------

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        """The mean ``(P,)`` of F along the path, whose gradient is the integrated gradient."""
        return self.objective(weights[:, None], slots, self.way, self.settings.noise)[:, 0]

    def objective(self, weights: Tensor, slots: Slots, way: Tensor, noise: float) -> Tensor:
        """F ``(P, T)`` at T points of each pair, given as weights ``(P, T, 2, *grid)``. f(M) is the mean of f(s M) over the numbers s in
        ``way``; if ``way`` is the number 1 alone, the result is F itself. All T points have the same backgrounds.
        """
        pairs, tried, count = *weights.shape[:2], _GAMES * len(way)
        games = self.games(weights.flatten(0, 1), way).view(pairs, tried, count, *self.inputs.positions)
        keys = streams.step_keys(slots["keys"], slots["step"], 2 * count)
        hidden = self.hidden(slots, keys[:, count:])[:, None]
        x = self.inputs.composite(games, slots["seen"][:, None, None], hidden)
        if noise > 0:
            add_noise_(x, keys[:, None, :count].expand(-1, tried, -1), noise)
        f = self.log_f(x.flatten(1, 2), slots).exp()
        value = (f.view(pairs, tried, _GAMES, -1).mean(dim=3) * self.signs).sum(dim=2) / 2
        gone = deleted(weights.flatten(0, 1)).unflatten(0, (pairs, tried))
        return value + self.penalty(gone, slots["images"])

    def games(self, weights: Tensor, way: Tensor) -> Tensor:
        """Masks ``(P, 4 S, *positions)`` of all composites, 1 where shown: D, 1 - I, D I and 1 - D I at the S points ``way`` of the path."""
        both = deleted(weights)[:, None]
        masks = 1 - enlarged(torch.cat([weights, both, both], dim=1), self.up)[:, :, None]
        signs = self.signs.view(-1, *[1] * (masks.ndim - 2))
        return torch.addcmul((1 - signs) / 2, signs * way.view(-1, *[1] * len(self.up)), masks).flatten(1, 2)

    def penalty(self, masks: Tensor, images: Tensor) -> Tensor:
        """The l1 and total variation penalties ``(P, T)`` of deletion masks ``(P, T, *grid)``."""
        s = self.settings
        total = s.l1 * masks.abs().mean(dim=self.axes)
        if s.tv > 0 and self.inputs.has_neighbours:
            large, looks = enlarged(masks, self.up), self.inputs.merged_channels(images, "mean")[:, None]
            for axis in self.axes:
                if masks.shape[axis] > 1:
                    plain = masks.diff(dim=axis).square().mean(dim=self.axes)
                    edge = torch.exp(-(looks.diff(dim=axis) / s.edges).square())
                    total = total + s.tv / 2 * plain
                    total = total + s.tv / 2 * (edge * large.diff(dim=axis).square()).mean(dim=self.axes)
        return total

    # ---- the line search ----------------------------------------------------------------------------------------

    def move(self, slots: Slots, gradient: Tensor) -> None:
        sides = (-1, *[1] * (gradient.ndim - 1))
        before = slots["reached"].clone()
        reached, value = self.line_search(slots, gradient)
        lower = value <= slots["value"]
        reached = torch.where(lower.view(sides), reached, before)
        ahead = reached
        if self.settings.momentum:
            t = slots["step"] / (slots["step"] + 3.0)
            ahead = (reached + t.view(sides) * (reached - before)).clamp(0, 1)
        slots["value"].copy_(torch.where(lower, value, slots["value"]))
        slots["reached"].copy_(reached)
        slots["weights"].copy_(ahead)

    def line_search(self, slots: Slots, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights ``(P, 2, *grid)`` after the longest step that lowers F far enough (or the shortest step, if none does), and F
        ``(P,)`` there.
        """
        steep, pairs = direction.flatten(1).square().sum(dim=1, keepdim=True), len(direction)
        value = enough = steep[:, :0]
        for lengths in self.lengths.split(self.tried_together(pairs)):
            there = self.reached(slots, direction, lengths.expand(pairs, -1))
            value = torch.cat([value, self.objective(there, slots, self.way[-1:], 0.0)], dim=1)
            tried = value.shape[1]
            enough = value[:, 1:] <= value[:, :1] - _ENOUGH * self.lengths[1:tried] * steep
            if tried < len(self.lengths) and bool(enough.any(dim=1).all()):
                break
        enough[:, -1] = True
        taken = 1 + enough.int().argmax(dim=1, keepdim=True)
        return self.reached(slots, direction, self.lengths[taken])[:, 0], value.gather(1, taken)[:, 0]

    def reached(self, slots: Slots, direction: Tensor, lengths: Tensor) -> Tensor:
        """Weights ``(P, T, 2, *grid)`` after steps of the lengths ``(P, T)`` along ``direction``."""
        lengths = lengths.view(*lengths.shape, *[1] * (direction.ndim - 1))
        return (slots["weights"][:, None] - lengths * direction[:, None]).clamp(0, 1)

    def tried_together(self, pairs: int) -> int:
        """Number of step lengths that ``pairs`` pairs try in one pass: all of them, or an equal part that fits into a batch."""
        most = max(1, self.classifier.batches[1].size // (_GAMES * pairs))
        parts = -(-len(self.lengths) // most)
        return -(-len(self.lengths) // parts)


@METHODS.register
class IGOSPlusPlus(WholeNet, MaskMethod):
    """iGOS++: masks that delete and insert the label, moved along integrated gradients by a line search.

    Presets: ``fast`` (5 iterations of 8 integration steps), ``paper`` (the defaults), ``command-line`` (15 iterations, the default of the
    released program), ``readme`` (the program's example for photos: a mask of full size, l1 10, momentum).

    >>> IGOSPlusPlus().cost(labels=1).gradient
    1600
    """

    name = "igos++"
    learns = IGOSProblem
    description = "masks that delete and insert the label, along integrated gradients"
    revision = 2
    reference = "Khorram, Lawson and Li 2021"
    needs = frozenset({"gradients"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "paper": {},
            "fast": {"iterations": 5, "integration": 8},
            "command-line": {"iterations": 15},
            "readme": {"grid": 224, "l1": 10.0, "momentum": True},
        }
    }

    iterations: int = setting(20, "number of steps, each with a line search", least=1)
    integration: int = setting(
        20,
        "number of points on the path from the blurred to the masked image, over which gradients are averaged",
        least=1,
    )
    grid: int = setting(28, "cells of the masks along the longest side", least=1)
    l1: float = setting(1.0, "weight of the mean deletion; larger deletes less", least=0)
    tv: float = setting(
        20.0, "weight of the masks' total variation, which counts less across edges of the image", least=0
    )
    edges: float = setting(
        0.1,
        "difference between neighbouring pixels, with values from 0 to 1, at which masks may jump",
        above=0,
    )
    noise: float = setting(
        0.2,
        "standard deviation of the noise on each masked input, in standard deviations of the input",
        least=0,
    )
    step: float = setting(1000.0, "the longest step that the line search tries", above=_LEAST)
    momentum: bool = setting(False, "use Nesterov momentum")
    fill: Fill = setting(Blur(sigma=50.0, kernel=51, border="edge"), "what deleted positions show")

    @property
    def trials(self) -> list[float]:
        """The lengths of the steps that the line search may take, longest first."""
        steps = [self.step]
        while steps[-1] * _DECAY >= _LEAST:
            steps.append(steps[-1] * _DECAY)
        return steps

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """An upper bound on the passes for one image. The line search tries all its steps if they fit into one batch, as on a GPU. Otherwise
        it stops after the batch in which every pair has found its step.
        """
        pairs = labels * self.iterations * _GAMES
        return Cost(forward=pairs * (1 + len(self.trials)), gradient=pairs * self.integration)


def deleted(weights: Tensor) -> Tensor:
    """The deletion mask 1 - D I ``(P, *grid)`` from weights 1 - D and 1 - I ``(P, 2, *grid)``.

    >>> deleted(torch.tensor([[0.5, 0.2]]))
    tensor([0.6000])
    """
    d, i = weights.unbind(dim=1)
    return d + i - d * i
