"""ROAD's noisy linear imputation: hidden pixels are estimated from their neighbours, for all images at once.

Every hidden pixel is the weighted mean of its neighbours, some of which are hidden too:

    sum over neighbours j of w_ij (x_i - x_j) = 0,      w = 1/6 for direct neighbours, 1/12 for diagonal ones, 0 outside the picture.

This is a symmetric positive definite system with one unknown per hidden pixel. It is solved on the device without building a
matrix, for all images and channels together, by conjugate gradients with a multigrid preconditioner; each channel of each image
stops when its own residual is small enough. The first guess is a coarse picture of the known pixels (averages of ever larger
blocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.fills.fill import FILLS, Fill, rounded
from proofmap.plugins.settings import setting
from proofmap.session import Session

_CORNER = 1 / 12
_TOLERANCE = 1e-5
"""Tolerance of the residual, relative to the right-hand side."""
_MOST_STEPS = 500
_LOOK = 4
"""Number of steps between two checks for convergence. Checks are rare because each one waits for the device."""
_DAMPING = 0.8
_COARSEST = 6
"""Grids are halved while both sides have at least this number of pixels; the last grid gets this number of steps."""


@FILLS.register
class Road(Fill):
    """Hidden pixels are imputed from the shown ones, with a little noise, so that the net cannot see the shape of the hidden region.

    The fill depends on what is shown, so it is for games and metrics; methods take other fills. If nothing is shown, the background
    is the classifier's gray with noise. Series are imputed along time.
    """

    name = "road"
    description = "hidden pixels imputed from their neighbours, with noise (for judging)"
    reference = "Rong et al. 2022 (ROAD)"
    random = True
    reads_mask = True
    noise: float = setting(
        0.01,
        "standard deviation of the added noise: in pixel values (0 to 1) for pictures, else in the input's standard deviations",
        above=0,
    )

    def check_inputs(self, inputs: Inputs) -> None:
        if not inputs.has_neighbours or len(inputs.positions) > 2:
            reason = "have no neighbours" if not inputs.has_neighbours else "lie in more than two dimensions"
            raise InputError(
                f"{inputs.noun} cannot be imputed: their {inputs.position_noun} {reason}; use one of {', '.join(inputs.fills)}"
            )

    def backgrounds_behind(self, session: Session, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        inputs = session.inputs
        gray = inputs.per_channel(inputs.neutral.to(images))
        x, known = (images - gray).float(), keep
        if len(inputs.positions) == 1:  # a series is a picture of one row
            x, known = x[:, :, None], inputs.over_channels(known)
        imputed = impute(x, known).view_as(images).to(images.dtype) + gray
        noise = self.noise * streams.normal(keys, images[0].numel()).view_as(images).to(images)
        if inputs.limits is None:
            return imputed + inputs.per_channel(images.new_tensor(inputs.std)) * noise
        return (imputed + noise).clamp(*inputs.limits)

    def record(self, session: Session) -> dict[str, object]:
        return {**self.settings(), "where nothing is shown": rounded(session.inputs.neutral)}


def impute(x: Tensor, known: Tensor, *, tolerance: float = _TOLERANCE) -> Tensor:
    """Pictures ``(N, C, H, W)`` in which every pixel that is not ``known`` ``(N, H, W)`` is imputed from the known pixels; zero if
    no pixel is known.
    """
    hidden = (~known)[:, None].to(x.dtype)
    levels = _levels(hidden)
    shown = x * (1 - hidden)
    target = hidden * _neighbours(shown)
    u = hidden * coarse_guess(shown, 1 - hidden)
    residual = target - levels[0].apply(u)
    better = _smoothed(levels, residual)
    direction, slope = better, _dot(residual, better)
    enough = tolerance**2 * _dot(target, target)
    for step in range(_MOST_STEPS):
        going = _dot(residual, residual) > enough
        if step % _LOOK == 0 and not bool(going.any()):
            break
        moved = levels[0].apply(direction)
        length = torch.where(going, slope / _dot(direction, moved).clamp_min(1e-30), 0.0)
        u = torch.addcmul(u, length, direction)
        residual = torch.addcmul(residual, -length, moved)
        better = _smoothed(levels, residual)
        after = _dot(residual, better)
        direction = torch.addcmul(better, after / slope.clamp_min(1e-30), direction)
        slope = after
    return shown + u


def coarse_guess(shown: Tensor, known: Tensor) -> Tensor:
    """A first guess for every pixel: about the mean of the known pixels in the smallest block around it that contains any."""
    if shown.shape[-2:].numel() == 1:
        return shown
    block = tuple(min(2, side) for side in shown.shape[-2:])
    values = F.avg_pool2d(shown * known, block, ceil_mode=True, count_include_pad=False)
    share = F.avg_pool2d(known, block, ceil_mode=True, count_include_pad=False)
    means = values / share.clamp_min(1e-12)
    coarse = coarse_guess(means, (share > 0).to(known))
    large = F.interpolate(coarse, scale_factor=tuple(map(float, block)), mode="bilinear", align_corners=False)
    return torch.where(known > 0, shown, large[..., : shown.shape[-2], : shown.shape[-1]])


# ---- the system on coarser grids ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """The system of one grid: ``hidden`` is 1 for unknown pixels. ``weights`` is the sum of the weights of each pixel's neighbours."""

    hidden: Tensor
    weights: Tensor

    def apply(self, u: Tensor) -> Tensor:
        return self.hidden * (self.weights * u - _neighbours(u))

    def relaxed(self, residual: Tensor) -> Tensor:
        """The change of the solution in one step of damped Jacobi, for a residual."""
        return self.hidden * residual * (_DAMPING / self.weights)


def _levels(hidden: Tensor) -> list[_Level]:
    """The systems of the grid and of ever coarser grids, each with half the side of the one before. A coarse pixel is unknown if
    all of its four pixels are.
    """
    weights = _neighbours(torch.ones_like(hidden[:1]))  # fewer at the border
    level = _Level(hidden, weights.clamp_min(_CORNER))
    if min(hidden.shape[-2:]) < _COARSEST:
        return [level]
    return [level, *_levels(1 - F.max_pool2d(1 - hidden, 2, ceil_mode=True))]


def _smoothed(levels: Sequence[_Level], residual: Tensor) -> Tensor:
    """An approximate solution for this right-hand side: one V-cycle of multigrid, a symmetric preconditioner."""
    level = levels[0]
    u = level.relaxed(residual)
    if len(levels) > 1:
        rest = residual - level.apply(u)
        coarse = _smoothed(levels[1:], levels[1].hidden * _gathered(rest))
        u = u + level.hidden * _spread(coarse, residual.shape[-2:])
    for _ in range(1 if len(levels) > 1 else _COARSEST):
        u = u + level.relaxed(residual - level.apply(u))
    return u


def _gathered(u: Tensor) -> Tensor:
    """Values ``(N, C, H, W)`` of the finer grid, summed on the coarse grid. Each value is divided among the coarse pixels around
    it. This is the transpose of ``_spread``.
    """
    n, channels, height, width = u.shape
    even = F.pad(u, (0, width % 2, 0, height % 2)).flatten(0, 1)[:, None]
    coarse = F.conv2d(even, _between(u), stride=2, padding=1)
    return coarse.view(n, channels, *coarse.shape[2:])


def _spread(u: Tensor, size: Sequence[int]) -> Tensor:
    """Coarse values interpolated linearly to the finer grid."""
    fine = F.conv_transpose2d(u.flatten(0, 1)[:, None], _between(u), stride=2, padding=1)
    return fine.view(*u.shape[:2], *fine.shape[2:])[..., : size[0], : size[1]]


def _between(u: Tensor) -> Tensor:
    line = u.new_tensor([0.25, 0.75, 0.75, 0.25])
    return (line[:, None] * line)[None, None]


def _neighbours(u: Tensor) -> Tensor:
    """The weighted sum of the eight neighbours of every pixel of ``(N, C, H, W)``; zero outside.

    The weights with 1/3 in the middle are (1, 2, 1) along one axis times (1, 2, 1) along the other, over 12.
    """
    p = F.pad(u, (1, 1, 1, 1))
    p = torch.add(p[..., :-2, :] + p[..., 2:, :], p[..., 1:-1, :], alpha=2)
    p = torch.add(p[..., :-2] + p[..., 2:], p[..., 1:-1], alpha=2)
    return torch.sub(p / 12, u, alpha=1 / 3)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner product of each picture and channel, ``(N, C, 1, 1)``."""
    return (a * b).sum(dim=(2, 3), keepdim=True)
