"""Fills that need only the input: one colour, a blur, noise."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.fills.fill import FILLS, Fill, rounded
from proofmap.plugins.settings import setting
from proofmap.session import Session


@FILLS.register
class Gray(Fill):
    """One colour everywhere: by default the classifier's gray, which normalises to 0."""

    name = "gray"
    description = "one colour: the one that the classifier's normalisation makes zero"
    color: tuple[float, ...] | None = setting(
        None, "the colour, one value per channel or one for all; none: the classifier's gray"
    )

    def prepare(self, session: Session) -> None:
        self._value(session.inputs)
        super().prepare(session)

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        inputs = session.inputs
        if self.color is None:
            return inputs.blank_like(images)
        return inputs.per_channel(self._value(inputs).to(images)).expand_as(images)

    def record(self, session: Session) -> dict[str, object]:
        return {"fill": self.name, "color": rounded(self._value(session.inputs))}

    def _value(self, inputs: Inputs) -> Tensor:
        """The colour with one value per channel."""
        if self.color is None:
            return inputs.neutral
        given = self.color * inputs.channels if len(self.color) == 1 else self.color
        low, high = inputs.limits or (-math.inf, math.inf)
        if len(given) != inputs.channels or not all(low <= value <= high for value in given):
            raise InputError(
                f"Gray color must have {inputs.channels} channels with values in [{low:g}, {high:g}], or one value for all, not {given}"
            )
        return torch.tensor(given, dtype=torch.float32)


@FILLS.register
class Blur(Fill):
    """The blurred input. The defaults are those of RISE: an 11 x 11 Gaussian kernel with sigma 5, whose mass outside the window is
    reflected into it. Positions beyond the border of the input are gray (zero padding after normalisation).
    """

    name = "blur"
    description = "the input itself, blurred; gray beyond the border"
    sigma: float = setting(
        5.0, "standard deviation of the Gaussian, in positions; larger blurs more", above=0
    )
    kernel: int = setting(11, "side of the window, in positions; must be odd", least=1)
    border: Literal["edge"] | None = setting(
        None, "what is beyond the input's border; none: the classifier's gray; edge: its outermost positions"
    )

    def check_inputs(self, inputs: Inputs) -> None:
        _check_window(self, inputs)

    def weights(self) -> Tensor:
        """The one-dimensional kernel: a Gaussian, cut at 4 sigma and reflected at the window's edges, which sums to 1."""
        radius = int(4 * self.sigma + 0.5)
        folded = torch.zeros(self.kernel, dtype=torch.float64)
        for offset in range(-radius, radius + 1):
            place = (self.kernel // 2 + offset) % (2 * self.kernel)
            folded[min(place, 2 * self.kernel - 1 - place)] += math.exp(-0.5 * (offset / self.sigma) ** 2)
        return (folded / folded.sum()).float()

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        inputs = session.inputs
        axes = len(inputs.positions)
        border = torch.zeros(()) if self.border == "edge" else inputs.per_channel(inputs.neutral)
        border = border.to(images)
        line, channels = self.weights().to(images), inputs.channels
        convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[axes]
        x = images - border  # so that zero padding means the border colour
        for axis in (k for k, side in enumerate(inputs.positions) if side > 1):
            shape, padding = [1] * axes, [0] * axes
            shape[axis], padding[axis] = -1, len(line) // 2
            kernel = line.view(1, 1, *shape)
            if self.border == "edge":
                sides = [side for side in reversed(padding) for _ in range(2)]
                x, padding = F.pad(x, sides, mode="replicate"), [0] * axes
            x = convolve(x, kernel.expand(channels, *kernel.shape[1:]), padding=padding, groups=channels)
        return x + border

    def record(self, session: Session) -> dict[str, object]:
        border = "edge" if self.border == "edge" else rounded(session.inputs.neutral)
        return {**self.settings(), "border": border}


@FILLS.register
class Median(Fill):
    """The median of each channel in a square window around every position; the last positions are repeated beyond the border."""

    name = "median"
    description = "the median of a window around every position: flat areas with sharp borders"
    kernel: int = setting(11, "side of the window, in positions; must be odd", least=1)

    def check_inputs(self, inputs: Inputs) -> None:
        _check_window(self, inputs)

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        inputs = session.inputs
        axes, half = len(inputs.positions), self.kernel // 2
        padded = F.pad(images, [half] * (2 * axes), mode="replicate")
        out = torch.empty_like(images)
        # a part at a time: windows take 121 times the memory, or 1,331 times in three dimensions
        several = images.shape[2] if axes < 3 else 1
        for image, around in zip(out, padded, strict=True):
            for axis in range(axes):
                around = around.unfold(1 + axis, self.kernel, 1)
            for part, windows in zip(image.split(several, 1), around.split(several, 1), strict=True):
                part.copy_(windows.flatten(1 + axes).median(dim=-1).values)
        return out


@FILLS.register
class Noise(Fill):
    """Independent Gaussian values around the classifier's gray, clipped to the input's limits if it has any.

    ``sigma`` is in the units of the input if the input has limits, as pictures do (0 to 1). Otherwise it is in standard deviations
    of each channel.
    """

    name = "noise"
    description = "independent Gaussian noise around the gray"
    random = True
    sigma: float = setting(
        0.2,
        "standard deviation of the noise: in pixel values (0 to 1) for pictures, else in each channel's standard deviations",
        above=0,
    )

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        inputs = session.inputs
        if not inputs.has_sums:
            raise InputError(
                f"noise has no meaning for {inputs.noun} with categories, booleans or whole numbers; use another fill: "
                f"{', '.join(inputs.fills)}"
            )
        draws = streams.normal(keys, images[0].numel()).view(-1, *images.shape[1:])
        center = inputs.per_channel(inputs.neutral.to(images))
        if inputs.limits is None:
            return center + self.sigma * inputs.per_channel(images.new_tensor(inputs.std)) * draws
        return (center + self.sigma * draws).clamp(*inputs.limits)

    def record(self, session: Session) -> dict[str, object]:
        return {**self.settings(), "center": rounded(session.inputs.neutral)}


def _check_window(fill: Blur | Median, inputs: Inputs) -> None:
    if fill.kernel % 2 == 0:
        raise InputError(f"{type(fill).__name__} needs an odd kernel, not {fill.kernel}")
    if not inputs.has_neighbours:
        raise InputError(f"{inputs.noun} cannot be blurred: their {inputs.position_noun} have no neighbours")
    if len(inputs.positions) > 3:
        raise InputError(
            f"{inputs.noun} cannot be blurred: their {inputs.position_noun} have {len(inputs.positions)} axes, and at most 3 can be"
        )
