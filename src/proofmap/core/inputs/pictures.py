"""Pictures as input: a position is a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from PIL import Image

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Box, Inputs, read_box
from proofmap.core.pictures import Fit, Interpolation, fit, fitted_size, in_colour, seen_part, to_pixels

_BRIGHTNESS = (0.299, 0.587, 0.114)  # ITU-R BT.601


def _height_and_width(size: Any) -> tuple[int, int]:
    """Height and width from ``size``: two numbers, or one for a square. Other lists, such as (channels, height, width), are refused."""
    try:
        sides = tuple(map(float, [size, size] if np.ndim(size) == 0 else size))
    except (TypeError, ValueError):
        sides = ()
    if len(sides) != 2 or not all(side.is_integer() for side in sides):
        raise InputError(f"size must be (height, width) in pixels, or one number for a square, not {size!r}")
    height, width = map(int, sides)
    if min(height, width) < 1:
        raise InputError(f"size must be positive, not {(height, width)}")
    return height, width


@dataclass(frozen=True, kw_only=True)
class Pictures(Inputs):
    """Pictures ``(C, H, W)`` with values in [0, 1]; a position is a pixel.

    Args:
        size: height and width (one number for a square).
        resize: shorter side of photos before the centre crop; the input size if None.
        interpolation: how photos are resized.
        fit: how photos of other proportions are fitted: ``crop`` keeps the centre, ``pad`` keeps the whole photo and adds gray around it,
            ``squash`` changes the proportions.
    """

    kind = "pictures"
    noun = "images"
    singular = "image"
    form = "(N, channels, height, width)"
    fills = ("gray", "noise", "blur", "images")
    position_noun = "pixels"
    neutral_words = ""
    limits = (0.0, 1.0)

    size: tuple[int, int]
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    resize: int | None = None
    interpolation: Interpolation = "bilinear"
    fit: Fit = "crop"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _height_and_width(self.size))
        for name, choices in (("interpolation", Interpolation), ("fit", Fit)):
            if getattr(self, name) not in get_args(choices):
                known = ", ".join(get_args(choices))
                raise InputError(f"{name} must be one of {known}, not {getattr(self, name)!r}")
        super().__post_init__()
        self._check_units()

    def _check_units(self) -> None:
        """Refuse mean and std in units of 0..255: all pictures would look nearly the same to the net."""
        of_bytes = max(map(abs, self.mean)) > 2
        if of_bytes or max(self.std) > 2:
            mean = tuple(round(v / 255, 4) for v in self.mean) if of_bytes else self.mean
            std = tuple(round(v / 255, 4) for v in self.std)
            raise InputError(
                f"mean {self.mean} and std {self.std} do not belong to pictures with values in [0, 1]. If they are in units "
                f"of 0..255, divide by 255: mean={mean}, std={std}"
            )

    @property
    def positions(self) -> tuple[int, ...]:
        return self.size

    def _form(self) -> str:
        return "(N, C, H, W)"

    def _shape_advice(self, given: Tensor) -> str:
        channels, height, width = self.shape
        if tuple(given.shape[-3:]) == (height, width, channels) and given.ndim in (3, 4):
            return "; channels come before height and width: write x.movedim(-1, -3)"
        if channels == 1 and tuple(given.shape[-2:]) == (height, width) and given.ndim in (2, 3):
            return "; pictures have an axis of channels: write x.unsqueeze(-3)"
        return super()._shape_advice(given)

    def shape_hint(self) -> str:
        return (
            f"Check size, and mean and std: they have {len(self.mean)} {'entry' if len(self.mean) == 1 else 'entries'}, one for "
            "each channel of the net"
        )

    def _bytes_hint(self) -> str:
        return "; divide 8-bit pixels by 255"

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        """The photo ``item``, resized to the input size, as a tensor. Gray-scale becomes RGB, and transparent pixels show the neutral
        gray. An array of numbers is not resized."""
        if not isinstance(item, Image.Image):
            return self.check(super().prepare(item)[None])[0]
        item = in_colour(item, "the picture")
        gray = self.neutral.expand(3).tolist()
        fitted = fit(item, self.size, None if cropped else self.resize, self.interpolation, self.fit, gray)
        pixels = to_pixels(fitted, gray if item.mode == "RGBA" else None)
        if self.channels == 1:
            pixels = (pixels * pixels.new_tensor(_BRIGHTNESS).view(3, 1, 1)).sum(dim=0, keepdim=True)
        return pixels

    def check_readable(self) -> None:
        if self.channels not in (1, 3):
            raise InputError(f"pictures have 1 or 3 channels, but the classifier takes {self.channels}")

    def moved_boxes(self, boxes: Sequence[Box], item: Any, *, cropped: bool = False) -> tuple[Box, ...]:
        if not isinstance(item, Image.Image):
            return tuple(boxes)
        (wide, high), (left, top) = fitted_size(
            item.size, self.size, None if cropped else self.resize, self.fit
        )
        across, down = wide / item.width, high / item.height
        moved = []
        for x0, y0, x1, y1 in boxes:
            x0, x1 = (min(max(x * across - left, 0.0), float(self.size[1])) for x in (x0, x1))
            y0, y1 = (min(max(y * down - top, 0.0), float(self.size[0])) for y in (y0, y1))
            if x0 < x1 and y0 < y1:
                moved.append((x0, y0, x1, y1))
        return tuple(moved)

    def checked_boxes(self, boxes: Sequence[Any], name: str) -> list[Box]:
        height, width = self.size
        checked = []
        for box in boxes:
            left, top, right, bottom = read_box(box, f"the list of boxes of {name!r}")
            if not (max(left, 0) < min(right, width) and max(top, 0) < min(bottom, height)):
                raise InputError(
                    f"the box {(left, top, right, bottom)} of {name!r} holds no pixel of the input, {width} wide and {height} high; boxes are "
                    "(left, top, right, bottom) in pixels of the input, not of the photo, and not (left, top, width, height)"
                )
            checked.append((left, top, right, bottom))
        return checked

    def record(self) -> dict[str, object]:
        return {
            "size": list(self.size),
            "mean": list(self.mean),
            "std": list(self.std),
            "resize": self.resize,
            "interpolation": self.interpolation,
            **({} if self.fit == "crop" else {"fit": self.fit}),
        }

    def seen_part(self, item: Image.Image, *, cropped: bool = False) -> Box:
        """The part of a photo that the net sees: left, top, right, bottom, as fractions of the photo's sides."""
        return seen_part(item.size, self.size, None if cropped else self.resize, self.fit)

    def seen_share(self, item: Image.Image, *, cropped: bool = False) -> float:
        """The share of a photo's area that the net sees."""
        left, top, right, bottom = self.seen_part(item, cropped=cropped)
        return (right - left) * (bottom - top)

    def picture(self, x: Tensor) -> np.ndarray:
        """A picture of the first three channels. If there are fewer than three, their mean is shown as gray."""
        colours = x[:3] if len(x) >= 3 else x.mean(dim=0).expand(3, -1, -1)
        drawn: np.ndarray = (colours.clamp(0, 1).cpu() * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        return drawn

    def pixel_positions(self) -> Tensor:
        return torch.arange(self.count).view(self.size)

    def picture_size(self) -> tuple[int, int]:
        return self.size
