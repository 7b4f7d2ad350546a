"""ROAD's noisy linear imputation: hidden pixels are what their neighbours say, solved for all images at once.

Every hidden pixel is the weighted mean of its neighbours, of which some are hidden, too:

    sum over neighbours j of w_ij (x_i - x_j) = 0,      w = 1/6 beside and above, 1/12 across corners, none outside the picture.

This is a symmetric positive definite system with one unknown per hidden pixel. It is solved by conjugate gradients without ever being
written down, on the device, for all images and channels together; each stops at its own residual. A coarse picture of what
is known (averages of ever larger blocks) is where it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.fills.fill import FILLS, Fill, ReadyFill
from proofmap.plugins.settings import setting

_SIDE, _CORNER = 1 / 6, 1 / 12
_TOLERANCE = 1e-5
"""Of the residual, relative to the right-hand side."""
_MOST_STEPS = 2000
_LOOK = 16
"""Steps between two looks at whether all are done: a look waits for the device."""


@FILLS.register
@dataclass(frozen=True, kw_only=True)
class Road(Fill):
    """Hidden pixels are imputed from those shown, with a little noise: the net cannot see the shape of what was removed.

    It depends on what is shown, so it is for games and metrics; methods take other fills. Where nothing is shown it is the
    classifier's gray with the noise. Series are imputed along time.
    """

    name: ClassVar[str] = "road"
    description: ClassVar[str] = "hidden pixels imputed from their neighbours, with noise (for judging)"
    reference: ClassVar[str] = "Rong et al. 2022 (ROAD)"
    random: ClassVar[bool] = True
    reads_mask: ClassVar[bool] = True
    noise: float = setting(
        0.01, "standard deviation, in pixels' units; in the input's std elsewhere", above=0
    )

    def prepare(self, classifier: Classifier) -> ReadyRoad:
        inputs = classifier.inputs
        if not inputs.has_neighbours or len(inputs.positions) > 2:
            raise InputError(
                f"{inputs.noun} cannot be imputed: their {inputs.position_noun} have no neighbours; use another fill"
            )
        return ReadyRoad(self, inputs)

    def record(self, inputs: Inputs) -> dict[str, object]:
        return {**self.settings(), "where nothing is shown": [round(v, 6) for v in inputs.neutral.tolist()]}


@dataclass(frozen=True, eq=False)
class ReadyRoad(ReadyFill):
    """The imputation for one kind of input."""

    fill: Road

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        nothing = torch.zeros(len(images), *self.inputs.positions, dtype=torch.bool, device=images.device)
        return self.behind(images, keys, nothing)

    def behind(self, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        inputs = self.inputs
        gray = inputs.per_channel(inputs.neutral.to(images))
        x, known = (images - gray).float(), keep
        if len(inputs.positions) == 1:  # a series is a picture of one row
            x, known = x[:, :, None], known[:, None]
        imputed = impute(x, known).view_as(images).to(images.dtype) + gray
        noise = self.fill.noise * streams.normal(keys, images[0].numel()).view_as(images).to(images)
        if inputs.limits is None:
            return imputed + inputs.per_channel(images.new_tensor(inputs.std)) * noise
        return (imputed + noise).clamp(*inputs.limits)


def impute(x: Tensor, known: Tensor, *, tolerance: float = _TOLERANCE) -> Tensor:
    """Pictures ``(N, C, H, W)`` with every pixel that is not known ``(N, H, W)`` solved for; zero where nothing is known."""
    hidden = (~known)[:, None].to(x.dtype)
    shown = x * (1 - hidden)
    weights = _neighbours(torch.ones_like(hidden[:1]))  # fewer at the border
    target = hidden * _neighbours(shown)

    def system(u: Tensor) -> Tensor:
        return hidden * (weights * u - _neighbours(u))

    u = hidden * coarse_guess(shown, 1 - hidden)
    residual = target - system(u)
    direction = residual.clone()
    size = _dot(residual, residual)
    enough = tolerance**2 * _dot(target, target)
    for step in range(_MOST_STEPS):
        going = size > enough
        if step % _LOOK == 0 and not bool(going.any()):
            break
        moved = system(direction)
        length = torch.where(going, size / _dot(direction, moved).clamp_min(1e-30), 0.0)
        u = torch.addcmul(u, length, direction)
        residual = torch.addcmul(residual, -length, moved)
        after = torch.where(going, _dot(residual, residual), size)
        direction = torch.where(going, torch.addcmul(residual, after / size.clamp_min(1e-30), direction), 0.0)
        size = after
    return shown + u


def coarse_guess(shown: Tensor, known: Tensor) -> Tensor:
    """A value for every pixel: the mean of what is known in the smallest block around it that has any."""
    if shown.shape[-2:].numel() == 1:
        return shown
    block = tuple(min(2, side) for side in shown.shape[-2:])
    values = F.avg_pool2d(shown * known, block, ceil_mode=True, count_include_pad=False)
    share = F.avg_pool2d(known, block, ceil_mode=True, count_include_pad=False)
    means = values / share.clamp_min(1e-12)
    coarse = coarse_guess(means, (share > 0).to(known))
    large = F.interpolate(coarse, scale_factor=tuple(map(float, block)), mode="bilinear", align_corners=False)
    return torch.where(known > 0, shown, large[..., : shown.shape[-2], : shown.shape[-1]])


def _neighbours(u: Tensor) -> Tensor:
    """The weighted sum of the eight neighbours of every pixel of ``(N, C, H, W)``; nothing outside."""
    n, channels, height, width = u.shape
    kernel = u.new_tensor([[_CORNER, _SIDE, _CORNER], [_SIDE, 0.0, _SIDE], [_CORNER, _SIDE, _CORNER]])
    flat = F.conv2d(u.reshape(n * channels, 1, height, width), kernel[None, None], padding=1)
    return flat.view_as(u)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner product of each picture and channel, ``(N, C, 1, 1)``."""
    return (a * b).sum(dim=(2, 3), keepdim=True)
