"""Meaningful perturbations (Fong and Vedaldi 2017): the smallest smooth region whose deletion takes the label away.

    min over m in [0, 1]^grid of   f(x~, a)  +  l1 * |1 - m|_1  +  tv * sum |differences of m|^beta ,
    x~ = m up * x + (1 - m up) * blurred x ,      the map is 1 - m up.

f(x~, a) is the net's probability of label a, and "m up" is the mask m enlarged to the input. The mask deletes: m is 1 where the image is
unchanged. Adam moves m itself (no sigmoid), and m is clamped to [0, 1] after every step. The authors' code and the code that Gupta et al.
compared with differ, so there are two presets:

=============  ===========================================  =====================================================
               ``original`` (the paper and its own code)    ``pytorch`` (the code that Gupta et al. compared with)
=============  ===========================================  =====================================================
steps          300                                          500
penalties      sums: l1 1e-4, tv 1e-2, beta 3               means: l1 .01, tv .2, beta 3
enlarging      linear, then a Gaussian of sigma 5           linear, corners aligned
each step      x~ is shifted by -2 .. 2 pixels              noise of sigma .2 on the normalised x~
start          the smallest disc in the middle whose        ones
               removal takes 99 % of f away
hidden         Gaussian blur of sigma 10                    median of 11 x 11
=============  ===========================================  =====================================================
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.fills import Blur, Fill
from proofmap.fills.simple import Median
from proofmap.methods.grids import draw_order, enlarged, smoothing
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import CompositeProblem, MaskMethod, WholeNet, add_noise_
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_RADII, _FARTHEST, _GONE = 35, 170 / 224, 0.01
"""Number of discs that are tried, their largest radius as a share of the longest side, and the share of f that may be left."""


class FongVedaldiProblem(CompositeProblem):
    """The deletion masks of the (image, label) pairs in the slots. The weights are 1 - m, because a small deletion would be lost by rounding
    in a number near 1.
    """

    cost = 1
    falls = False

    def __init__(self, settings: FongVedaldi, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast, settings.fill, grid=settings.grid, corners=settings.corners)
        self.settings, self.steps, self.rate = settings, settings.steps, settings.learning_rate
        if settings.mask_blur > 0 and self.inputs.has_neighbours:
            self.up = tuple(
                smoothing(len(matrix), settings.mask_blur, device=matrix.device) @ matrix
                for matrix in self.up
            )
        self.jitter = settings.jitter if self.inputs.has_neighbours else 0

    def enter(self, slots: Slots) -> Slots:
        brought = super().enter(slots)
        if self.settings.start == "ones":
            return {**brought, "weights": self.even_weights(slots, 0.0)}
        return {**brought, "weights": self.smallest_discs(slots | brought)[:, None]}

    def smallest_discs(self, slots: Slots) -> Tensor:
        """For each pair, the smallest deleted disc ``(P, *grid)`` in the middle for which (f(x~) - f(hidden)) / (f(x) - f(hidden)) is below
        .01, where f(hidden) is f with everything hidden. No disc is deleted if hiding everything does not weaken the label.
        """
        discs = self.discs()
        masks = enlarged(discs, self.up)
        seen, hidden = slots["seen"], self.hidden(slots, slots["keys"][:, None])[:, 0]
        first, place = self.distinct_images(slots)
        if self.fills[0].random:  # each pair has its own draw
            first = place = torch.arange(len(hidden), device=masks.device)
        count = len(discs)

        def shown(start: int, stop: int) -> Tensor:
            which = torch.arange(start, stop, device=masks.device)
            image, disc = first[which // count], which % count
            x = self.inputs.composite(masks[disc], hidden[image], seen[image])
            with torch.no_grad():
                return self.classifier.log_f(self.classifier.from_normalised(x)).exp()

        rows = in_batches(shown, len(first) * count, self.classifier.batches[0])
        f = self.own_label(torch.cat(rows).view(len(first), count, -1)[place], slots)
        whole, nothing = f[:, :1], f[:, -1:]
        left = (f - nothing) / (whole - nothing)
        gone = left < _GONE
        gone[:, -1] = True
        gone[:, :1] |= whole <= nothing
        return discs[gone.int().argmax(dim=1)]

    def discs(self) -> Tensor:
        """Masks ``(R, *grid)`` of R discs of growing radius, 1 where deleted: from nothing deleted to everything deleted."""
        longest = max(self.inputs.positions)
        away: Tensor = torch.zeros(())
        for k, matrix in enumerate(self.up):
            side, cells = matrix.shape
            places = ((torch.arange(cells) + 0.5) / cells - 0.5) * side / longest
            away = away[..., None] + places.square() if k else places.square()
        radii = torch.linspace(0, _FARTHEST, _RADII - 1)
        discs = (away.sqrt() < radii.view(-1, *[1] * len(self.up))).float()
        return torch.cat([discs, torch.ones_like(discs[:1])]).to(self.classifier.device)

    def move(self, slots: Slots, gradient: Tensor) -> None:
        super().move(slots, gradient)
        slots["weights"].clamp_(0, 1)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        s = self.settings
        keys = streams.step_keys(slots["keys"], slots["step"], 3)
        seen, up = slots["seen"], list(self.up)
        hidden = self.hidden(slots, keys[:, 2:])[:, 0]
        if self.jitter:
            seen, hidden, up = self.shifted(seen, hidden, keys[:, 0])
        composites = self.inputs.composite(enlarged_each(weights, up)[:, 0], hidden, seen)
        if s.noise > 0:
            add_noise_(composites, keys[:, 1], s.noise)
        return self.log_f(composites[:, None], slots)[:, 0].exp() + self.penalty(weights[:, 0])

    def penalty(self, masks: Tensor) -> Tensor:
        """The l1 and total variation penalties ``(P,)`` of deletion masks ``(P, *grid)``."""
        s, axes = self.settings, tuple(range(1, masks.ndim))
        reduced = torch.mean if s.penalty == "mean" else torch.sum
        total = s.l1 * reduced(masks.abs(), dim=axes)
        if s.tv > 0 and self.inputs.has_neighbours:
            for axis in axes:
                if masks.shape[axis] > 1:
                    steep = masks.diff(dim=axis).abs()
                    total = total + s.tv * reduced(steep**s.beta, dim=axes)
        return total

    def shifted(self, seen: Tensor, hidden: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Shift inputs, backgrounds, and the matrices that enlarge masks. All three are shifted by the same random amounts for each pair.
        Edges are repeated.
        """
        axes = len(self.up)
        amounts = streams.integers(keys, axes, self.jitter + 1)[:, draw_order(axes)] - self.jitter // 2
        up: list[Tensor] = []
        index = torch.zeros_like(amounts[:, 0])
        for k, matrix in enumerate(self.up):
            side = len(matrix)
            places = (torch.arange(side, device=keys.device) + amounts[:, k, None]).clamp(0, side - 1)
            index = side * index[..., None] + places.view(-1, *[1] * k, side)
            up.append(matrix[places])
        index = self.inputs.over_channels(index).expand_as(seen).flatten(-len(up))
        seen, hidden = (x.flatten(-len(up)).gather(-1, index).view(x.shape) for x in (seen, hidden))
        return seen, hidden, up


@METHODS.register
class FongVedaldi(WholeNet, MaskMethod):
    """Meaningful perturbations: a mask that deletes the label by blurring as little as possible.

    Presets: ``original`` (the defaults), ``pytorch``; :mod:`proofmap.methods.masks.fong_vedaldi` compares them.

    >>> FongVedaldi.preset("pytorch").steps
    500
    """

    name = "fong-vedaldi"
    learns = FongVedaldiProblem
    description = "the smallest smooth mask whose blurring takes the label away"
    revision = 2
    reference = "Fong and Vedaldi 2017"
    needs = frozenset({"gradients"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "original": {},
            "pytorch": {
                "steps": 500,
                "l1": 0.01,
                "tv": 0.2,
                "penalty": "mean",
                "corners": True,
                "mask_blur": 0.0,
                "jitter": 0,
                "noise": 0.2,
                "start": "ones",
                "fill": Median(kernel=11),
            },
        }
    }

    steps: int = setting(300, "Adam steps", least=1)
    grid: int = setting(28, "cells of the mask along the longest side", least=1)
    learning_rate: float = setting(0.1, "step size of Adam", above=0)
    l1: float = setting(1e-4, "weight of the amount that is deleted; larger deletes less", least=0)
    tv: float = setting(1e-2, "weight of the mask's total variation; larger gives smoother masks", least=0)
    beta: float = setting(3.0, "exponent of the differences in the total variation", above=0)
    penalty: Literal["sum", "mean"] = setting(
        "sum", "whether the penalties l1 and tv are sums or means over cells"
    )
    fill: Fill = setting(Blur(sigma=10.0, kernel=81, border="edge"), "what deleted positions show")
    mask_blur: float = setting(
        5.0, "standard deviation of a blur of the enlarged mask, in positions; 0: no blur", least=0
    )
    corners: bool = setting(False, "enlarge the mask with aligned corners, like align_corners=True in torch")
    jitter: int = setting(
        4,
        "at each step, the masked input is shifted at random by at most half of this number of positions along each axis",
        least=0,
    )
    noise: float = setting(
        0.0,
        "standard deviation of the noise on each masked input, in standard deviations of the input",
        least=0,
    )
    start: Literal["ones", "disc"] = setting(
        "disc",
        "the first mask: ones deletes nothing, disc deletes the smallest disc that takes the label away",
    )

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """Passes for one image. The initial discs are shown once for all labels that are learned together, or once per label if the fill is
        random.
        """
        shown = labels if self.fill.random else 1
        return Cost(forward=shown * _RADII if self.start == "disc" else 0, gradient=labels * self.steps)


def enlarged_each(low: Tensor, up: list[Tensor]) -> Tensor:
    """Masks ``(P, K, *grid)`` enlarged by shared matrices ``(side, cells)`` or by one matrix per pair ``(P, side, cells)``."""
    others = [1] * (low.ndim - 3)
    matrices = [m.view(len(m), *others, *m.shape[1:]) if m.ndim == 3 else m for m in up]
    if len(matrices) == 2:
        return matrices[0] @ low @ matrices[1].mT
    for axis, matrix in enumerate(matrices, start=2):
        low = (low.movedim(axis, -1).unsqueeze(-2) @ matrix.unsqueeze(-3).mT).squeeze(-2).movedim(-1, axis)
    return low
