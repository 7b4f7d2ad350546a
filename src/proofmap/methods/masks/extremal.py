"""Extremal perturbations (Fong, Patrick and Vedaldi 2019): the mask of a given area that shows the label best.

    max over w in [0, 1]^grid of   logit_a(m (x) x)  -  weight_t * mean (sort(m) - r_area)^2

- **The mask** m is a smooth max-convolution of its parameters w, which lie ``step`` positions apart: m(u) = smax over v of
  k(|u - v| / sigma) w(v), with k(z) = exp(-2 max(0, z - 1/2)^2) and smax f = sum f e^(20 f) / sum e^(20 f), over the cells within
  1 + ceil(sigma / step) of u. The outer cells are repeated beyond the border, so that the first mask is constant. Such masks are smooth,
  and can reach 1.
- **The area** is a constraint: the sorted values of the mask must equal the template r, which has zeros and then ones, with ones for the
  share ``area``. The weight of the constraint is multiplied by ``growth`` at every step. The constraint is left out while all values of a
  mask are equal, as at the first step: sorting them would choose a place for the mask without looking at the net.
- **m (x) x** is the perturbed input: it blurs x more where m is smaller. Position u shows the image blurred by (1 - m(u)) ``blur``,
  interpolated between two of ``levels`` blurred images.

One mask is learned for each of ``areas``, side by side. The map is the sum of the masks, smoothed by ``smooth`` of the shorter side.
Gradient descent with momentum .9 (dampening .9) moves w, which is clamped to [0, 1]. Every second step uses the mirror image. ``step``,
``sigma`` and ``blur`` are in positions of an input whose longest side is 224, and scale with the longest side. In volumes, the parameters
lie three times ``step`` apart.

m is computed at two points per cell along each axis and enlarged linearly from there. This changes m by at most .015.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.methods.gradients.plain import check_differentiable
from proofmap.methods.grids import enlarged, shorter_side, smoothing, upsamplings
from proofmap.methods.masks.engine import MaskProblem, Slots
from proofmap.methods.masks.method import MaskMethod, WholeNet
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_FINE = 2
"""Points per cell, along each axis, at which masks are computed."""
_APART = 3
"""How many times farther apart the mask's parameters lie in volumes, whose masks would otherwise take a thousand times the memory."""
_COLD = 20.0
"""Inverse temperature of the smooth maximum."""
_EVEN = 1e-6
"""Largest difference between values that count as equal up to rounding."""
_MOMENTUM = 0.9
_SIDE = 224
"""Longest side of the input for which ``step``, ``sigma`` and ``blur`` are given."""


class ExtremalProblem(MaskProblem):
    """Learns one mask for each area, for each (image, label) pair in the slots of the engine."""

    def __init__(self, settings: ExtremalPerturbation, session: Session, fast: Classifier) -> None:
        super().__init__(settings, session, fast)
        self.settings, self.steps, self.cost = settings, settings.steps, len(settings.areas)
        self.shape = MaxConvolution(settings, self.inputs, fast.device)
        points = math.prod(self.shape.points)
        ones = (torch.tensor(settings.areas) * points).round().clamp(1, points).long()
        self.templates = (torch.arange(points) >= points - ones[:, None]).float().to(fast.device)
        # time steps, where positions are segments of them
        sides = self.inputs.shape[-len(self.inputs.positions) :]
        sigmas = torch.linspace(settings.blur * max(sides) / _SIDE, 0, settings.levels).tolist()
        self.blurs = [[smoothing(side, sigma, device=fast.device) for side in sides] for sigma in sigmas]
        self.places = torch.arange(math.prod(sides), device=fast.device).view(sides)

    def enter(self, slots: Slots) -> Slots:
        first, place = self.distinct_images(slots)
        shape = (len(place), len(self.settings.areas), *self.shape.cells)
        return {
            "weights": slots["images"].new_full(shape, 0.5),
            "pyramid": self.pyramid(slots["images"][first])[place],
        }

    def pyramid(self, images: Tensor) -> Tensor:
        """The normalised images ``(P, *shape)`` at several levels of blur. Each level is less blurred than the one before; the last is not
        blurred.

        All levels lie in one row, so that one index gives level and place (pixel or time step): ``(P, channels, levels x places)``.
        """
        axis = -1 - len(self.inputs.positions)
        levels = [self.classifier.normalised(enlarged(images, blur)) for blur in self.blurs]
        return torch.stack(levels, dim=axis).flatten(axis)

    def move(self, slots: Slots, gradient: Tensor) -> None:
        kept = torch.where(slots["step"] > 1, _MOMENTUM, 0.0)  # as torch.optim.SGD begins
        slots["first"].copy_(torch.lerp(gradient, slots["first"], kept.view(-1, *[1] * (gradient.ndim - 1))))
        slots["weights"].sub_(self.settings.learning_rate * slots["first"]).clamp_(0, 1)

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged(self.shape(weights), self.shape.up)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        s = self.settings
        points = self.shape(weights)
        odd = (slots["step"] % 2 == 1).view(-1, *[1] * (points.ndim - 1)) & s.mirror
        masks = enlarged(torch.where(odd, points.flip(-1), points), self.shape.up)
        composites = self.perturbed(slots["pyramid"], masks, odd)
        logits = self.classifier.from_normalised(composites.flatten(0, 1))
        check_differentiable(logits)
        own = self.own_label(logits.view(*composites.shape[:2], -1), slots)
        weight = s.weight * s.growth ** slots["step"].to(points.dtype)
        return (weight[:, None] * self.area_errors(points) - own).sum(dim=1)

    def area_errors(self, points: Tensor) -> Tensor:
        """The mean squared distance ``(P, K)`` of the sorted masks ``(P, K, *points)`` from the templates of their target areas; zero for a
        constant mask.
        """
        ordered = points.flatten(2).sort(dim=2).values
        uneven = (ordered[..., -1] - ordered[..., 0]).detach() > _EVEN
        return (ordered - self.templates).square().mean(dim=2) * uneven

    def perturbed(self, pyramid: Tensor, masks: Tensor, mirrored: Tensor) -> Tensor:
        """Composites ``(P, K, *shape)``. Each position is interpolated between the two levels of the :meth:`pyramid` around its value in
        ``masks`` ``(P, K, *positions)``.

        ``mirrored`` ``(P, 1, ...)`` marks the pairs whose image is mirrored; their masks are mirrored already.
        """
        count, axes, kept = self.places.numel(), self.places.ndim, masks.shape[:2]
        height = masks * (self.settings.levels - 1)
        below = height.detach().floor().clamp(0, self.settings.levels - 2)
        # for all channels
        places = torch.where(mirrored, self.places.flip(-1), self.places).unsqueeze(-1 - axes)
        index = self.inputs.over_channels(below.long() * count) + places
        index = index.expand(*kept, *self.inputs.shape).flatten(-axes)
        x = pyramid[:, None].expand(-1, kept[1], *pyramid.shape[1:])
        lower, upper = (
            levels.gather(-1, index).view(*kept, *self.inputs.shape)
            for levels in (x[..., :-count], x[..., count:])
        )
        return self.inputs.composite(height - below, upper, lower)


@METHODS.register
class ExtremalPerturbation(WholeNet, MaskMethod):
    """For each given area, the smooth mask that shows the label best; the map is the sum of these masks. The defaults are the preset ``fast``.

    Presets: ``fast`` (200 steps), ``paper`` (800 steps; areas and smoothing of the paper's pointing game), ``torchray`` (800 steps; the
    defaults of the authors' library TorchRay: one area of .1, no smoothing).

    >>> ExtremalPerturbation.preset("paper").cost(labels=1).passes
    3200
    """

    name = "extremal-perturbation"
    learns = ExtremalProblem
    stochastic = False
    description = "smooth masks of given areas that show the label best, summed"
    revision = 2
    reference = "Fong, Patrick and Vedaldi 2019"
    needs = frozenset({"gradients", "neighbours"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "fast": {},
            "paper": {"steps": 800, "learning_rate": 0.01, "growth": 1.0035},
            "torchray": {
                "steps": 800,
                "learning_rate": 0.01,
                "growth": 1.0035,
                "areas": (0.1,),
                "smooth": 0.0,
            },
        }
    }

    areas: tuple[float, ...] = setting(
        (0.025, 0.05, 0.1, 0.2),
        "areas of the masks, as shares of the positions, such as 0.05:0.1:0.2; each has its own mask",
    )
    steps: int = setting(200, "steps of gradient descent", least=1)
    learning_rate: float = setting(0.04, "step size of gradient descent", above=0)
    weight: float = setting(300.0, "first weight of the constraint that a mask has its area", least=0)
    growth: float = setting(1.014, "factor by which the weight grows at each step", least=1)
    step: float = setting(
        7.0,
        "distance between the mask's parameters, in pixels of an input whose longest side is 224",
        above=0,
    )
    sigma: float = setting(
        21.0,
        "how far a parameter of the mask acts, in the unit of step; larger gives smoother masks",
        above=0,
    )
    blur: float = setting(20.0, "standard deviation of the strongest blur, in the unit of step", above=0)
    levels: int = setting(8, "number of blurred images to interpolate between", least=2)
    mirror: bool = setting(True, "use the mirror image at every second step")
    smooth: float = setting(
        0.09, "standard deviation of the blur of the map, as a share of the shorter side; 0: no blur", least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.areas or not all(0 < area < 1 for area in self.areas):
            raise InputError(f"areas must be shares between 0 and 1, such as 0.05:0.1, not {self.areas}")

    def merged(self, masks: Tensor) -> Tensor:
        maps = masks.sum(dim=2)
        positions = maps.shape[2:]
        sigma = self.smooth * shorter_side(positions)
        return enlarged(maps, [smoothing(side, sigma, device=maps.device) for side in positions])

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels * self.steps * len(self.areas))


class MaxConvolution:
    """Computes a mask from its parameters: a smooth maximum over the cells around each point, weighted by distance."""

    def __init__(self, settings: ExtremalPerturbation, inputs: Inputs, device: torch.device) -> None:
        scale = max(inputs.positions) / _SIDE
        long = [side > 1 for side in inputs.positions]
        apart = settings.step * (_APART if sum(long) > 2 else 1)
        step, sigma = apart * scale, settings.sigma * scale
        self.cells = [math.ceil(side / step) if side > 1 else 1 for side in inputs.positions]
        self.fine = [_FINE if several else 1 for several in long]
        self.points = [fine * cells for fine, cells in zip(self.fine, self.cells, strict=True)]
        reach = 1 + math.ceil(settings.sigma / apart)
        self.reach = [reach if several else 0 for several in long]
        self.up = upsamplings(self.points, inputs.positions, device=device)
        axes = len(self.cells)
        away = torch.zeros([1] * (2 * axes))
        for axis, (cells, side) in enumerate(zip(self.cells, inputs.positions, strict=True)):
            window = torch.arange(-self.reach[axis], self.reach[axis] + 1, dtype=torch.float32)
            within = (torch.arange(self.fine[axis], dtype=torch.float32) + 0.5) / self.fine[axis] - 0.5
            distance = (within[:, None] - window) * side / cells
            shape = [1] * (2 * axes)
            shape[axis], shape[axes + axis] = distance.shape
            away = away + distance.square().view(shape)
        kernel = torch.exp(-2 * (away.sqrt() / sigma - 0.5).clamp_min(0).square())
        self.kernel = kernel.view(math.prod(self.fine), -1).to(device)

    def __call__(self, weights: Tensor) -> Tensor:
        """Masks at points ``(P, K, *points)`` from weights ``(P, K, *cells)``."""
        axes, around = len(self.cells), weights
        for axis in range(axes):
            reach = self.reach[axis]
            around = _with_edges(around, 2 + axis, reach).unfold(2 + axis, 2 * reach + 1, 1)
        points = smooth_maximum(around.flatten(2 + axes), self.kernel)
        points = points.view(*weights.shape, *self.fine)
        pairs = [place for axis in range(2, 2 + axes) for place in (axis, axes + axis)]
        return points.permute(0, 1, *pairs).reshape(*weights.shape[:2], *self.points)


def smooth_maximum(values: Tensor, kernel: Tensor) -> Tensor:
    """The smooth maximum ``(..., Q)`` over J of kernel ``(Q, J)`` times values ``(..., J)``.

    >>> smooth_maximum(torch.tensor([0.0, 1.0]), torch.ones(1, 2))
    tensor([1.])
    """
    return cast(Tensor, _SmoothMaximum.apply(values, kernel))  # type: ignore[no-untyped-call]


class _SmoothMaximum(torch.autograd.Function):
    """The smooth maximum with its own backward pass. That of autograd would sum over the middle axes of a tensor with seven axes one number at
    a time.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, kernel: Tensor) -> Tensor:
        hot = values[..., None, :] * (_COLD * kernel)
        shares = hot.softmax(dim=-1)
        parts = hot.mul_(shares)
        whole = parts.sum(dim=-1)
        ctx.save_for_backward(parts, shares, whole, kernel)
        return whole / _COLD

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient: d maximum / d (kernel value) = shares (1 + hot - whole) = parts + shares (1 - whole)."""
        parts, shares, whole, kernel = ctx.saved_tensors
        pull = gradients[0]
        slope = (parts * pull[..., None]).addcmul_(shares, (pull * (1 - whole))[..., None])
        return slope.mul_(kernel).sum(dim=-2), None


def _with_edges(values: Tensor, axis: int, reach: int) -> Tensor:
    """Pad an axis by ``reach`` copies of its first and last entries. torch's own padding has no deterministic gradient on a GPU."""
    first, last = values.narrow(axis, 0, 1), values.narrow(axis, values.shape[axis] - 1, 1)
    shape = list(values.shape)
    shape[axis] = reach
    return torch.cat([first.expand(shape), values, last.expand(shape)], dim=axis)
