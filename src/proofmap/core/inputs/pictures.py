"""Pictures as input: a position is a pixel. Picture files, decoded safely."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.files import check_ends
from proofmap.core.inputs.base import Box, Inputs, read_box

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"})
OWN_SOFTWARE = "Proofmap"
"""The entry ``Software`` of the PNG files that Proofmap draws, so that they are never taken for photos to explain."""
# Only formats that are safe to decode: a JPEG 2000 file of 800 bytes takes seconds and 0.8 GB, and Pillow would pass EPS, whatever the file's suffix, to Ghostscript.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
LONGEST_SIDE = 65_535
"""Largest width or height in pixels, as in a JPEG. Decoding a picture of 1 x 40,000,000 pixels takes 20 times as long as decoding a photo
with as many pixels."""

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box"]
Fit = Literal["crop", "pad", "squash"]
_NARROWEST = 100
"""Largest ratio of the pixels of a resized picture to those kept by the crop. Without a limit, a narrow strip in a file of 200 bytes
took 400 MB."""
_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_LEAST_SHARE = 0.4
"""If the net sees a smaller share of a photo's area than this, a warning is given. ImageNet's crop keeps half of a 3 : 2 photo."""
_BRIGHTNESS = (0.299, 0.587, 0.114)  # ITU-R BT.601


def _height_and_width(size: Any) -> tuple[int, int]:
    """Height and width from ``size``: two numbers, or one for a square. Other lists, such as (channels, height, width), are refused."""
    try:
        sides = tuple(map(float, [size, size] if np.ndim(size) == 0 else size))
    except (TypeError, ValueError):
        sides = ()
    if len(sides) != 2 or not all(side.is_integer() for side in sides):
        volumes = f"; for volumes write inputs=pm.Volumes(size={size!r})" if len(sides) == 3 else ""
        raise InputError(
            f"size must be (height, width) in pixels, or one number for a square, not {size!r}{volumes}"
        )
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
        unlimited: values are those that the net takes, such as normalised ones, and may be any.
        colours: the mean and the standard deviation by which unlimited values were normalised, so that photos are read and pictures drawn in
            their colours; empty if they are not known: then pictures are drawn in the range of their values, and photos cannot be read.
    """

    kind = "pictures"
    noun = "images"
    singular = "image"
    form = "(N, channels, height, width)"
    fills = ("gray", "noise", "blur", "images")
    position_noun = "pixels"
    neutral_words = ""

    size: tuple[int, int]
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    resize: int | None = None
    interpolation: Interpolation = "bilinear"
    fit: Fit = "crop"
    unlimited: bool = False
    colours: tuple[tuple[float, ...], ...] = ()

    @property
    def limits(self) -> tuple[float, float] | None:  # type: ignore[override]
        return None if self.unlimited else (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _height_and_width(self.size))
        object.__setattr__(self, "colours", tuple(tuple(map(float, values)) for values in self.colours))
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

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        """The photo ``item``, resized to the input size, as a tensor. Gray-scale becomes RGB, and transparent pixels show the neutral
        gray. An array of numbers is not resized."""
        if not isinstance(item, Image.Image):
            return super().prepare(item)
        if self.unlimited and not self.colours:
            raise InputError(
                "how the net's pictures are normalised is not known, so photos cannot be read; write pm.Classifier(net, size=..., mean=..., std=...)"
            )
        item = _in_colour(item, "the picture")
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in self.colours or ((0.0,), (1.0,)))
        gray = (self.neutral * std.flatten() + mean.flatten()).expand(3).tolist()
        fitted = fit(item, self.size, None if cropped else self.resize, self.interpolation, self.fit, gray)
        pixels = _to_pixels(fitted, gray if item.mode == "RGBA" else None)
        if self.channels == 1:
            pixels = (pixels * pixels.new_tensor(_BRIGHTNESS).view(3, 1, 1)).sum(dim=0, keepdim=True)
        return (pixels - mean) / std if self.colours else pixels

    def check_given(self, x: Tensor) -> None:
        low, high = (float(end) for end in x.detach().aminmax())
        if self.colours and 0 <= low < 0.5 < high <= 1:
            (mean, std), worst = self.colours, [-m / s for m, s in zip(*self.colours, strict=True)]
            raise InputError(
                f"the images lie in [{low:.3g}, {high:.3g}], as pixels do, but the classifier was said to take images that are normalised already, by mean "
                f"{mean} and std {std}, which have values down to {min(worst):.3g}; normalise them, or leave normalised=True out"
            )

    def check_readable(self) -> None:
        if self.channels not in (1, 3) and not self.unlimited:
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
            **({"unlimited": True} if self.unlimited else {}),
            **({"colours": [list(values) for values in self.colours]} if self.colours else {}),
        }

    def seen_share(self, item: Image.Image, *, cropped: bool = False) -> float:
        """The share of a photo's area that the net sees."""
        (wide, high), (left, top) = fitted_size(
            item.size, self.size, None if cropped else self.resize, self.fit
        )
        across = min(wide, left + self.size[1]) - max(0, left)
        down = min(high, top + self.size[0]) - max(0, top)
        return across / wide * (down / high)

    def warn_of_crop(self, name: str, photo: Image.Image) -> None:
        """Warn if the net sees only a small part of a photo."""
        share = self.seen_share(photo)
        if share < _LEAST_SHARE:
            warnings.warn(
                f"{name} is {photo.width} x {photo.height}: the net sees the middle {100 * share:.0f} % of it. "
                "fit='pad' (--fit pad) shows all of it, fit='squash' all of it out of proportion",
                stacklevel=3,
            )

    def picture(self, x: Tensor) -> np.ndarray:
        """A picture of the first three channels. If there are fewer than three, their mean is shown as gray."""
        if self.colours:
            mean, std = (x.new_tensor(values).view(-1, 1, 1) for values in self.colours)
            x = x * std + mean
        elif self.unlimited:
            x = (x - x.min()) / (x.max() - x.min()).clamp_min(1e-6)
        return as_rgb(x)

    def pixel_positions(self) -> Tensor:
        return torch.arange(self.count).view(self.size)

    def picture_size(self) -> tuple[int, int]:
        return self.size


def as_rgb(x: Tensor) -> np.ndarray:
    """The colours ``(..., 3)``, uint8, of values ``(C, ...)`` in [0, 1]."""
    colours = x[:3] if len(x) >= 3 else x.mean(dim=0).expand(3, *x.shape[1:])
    drawn: np.ndarray = (colours.clamp(0, 1).cpu() * 255).round().to(torch.uint8).movedim(0, -1).numpy()
    return drawn


# ---- resizing and cropping --------------------------------------------------------------------------------------


def fit(
    image: Image.Image,
    size: tuple[int, int],
    resize: int | None,
    interpolation: Interpolation,
    how: Fit = "crop",
    background: Sequence[float] = (0.5, 0.5, 0.5),
) -> Image.Image:
    """The picture changed to ``size`` (height, width), in one of three ways:

    - ``crop``: the picture is resized so that its shorter side is ``resize`` (the input size if None), and its centre is cut out, pixel
      for pixel as by torchvision's ``Resize`` and ``CenterCrop`` if ``size`` is a square. If it is not, the picture is resized until it
      covers ``resize / min(size)`` times ``size``, as timm does it;
    - ``pad``: the picture is resized until all of it fits, and ``background`` is added around it;
    - ``squash``: the picture is resized to ``size``, and its proportions change.

    >>> fit(Image.new("RGB", (400, 300)), (224, 224), 256, "bilinear").size
    (224, 224)
    """
    scaled, (left, top) = fitted_size(image.size, size, resize, how)
    if how == "crop":
        kept = (size[1], size[0]) if resize is None else (max(resize, size[1]), max(resize, size[0]))
        _check_proportions(image.size, scaled, kept)
    image = image.resize(scaled, _RESAMPLING[interpolation])
    if how != "pad":
        return image.crop((left, top, left + size[1], top + size[0]))
    colour = tuple(round(255 * value) for value in background)
    page = Image.new(image.mode, (size[1], size[0]), (*colour, 255) if image.mode == "RGBA" else colour)
    page.paste(image, (-left, -top))
    return page


def fitted_size(
    given: tuple[int, int], size: tuple[int, int], resize: int | None, how: Fit = "crop"
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Width and height of a picture after :func:`fit` has resized it, and the number of pixels that are then cut off at the left and at the
    top (negative if a border is added). ``given`` is the picture's original (width, height).

    >>> fitted_size((400, 300), (224, 224), 256)
    ((341, 256), (58, 16))
    >>> fitted_size((400, 300), (224, 224), 256, "pad")
    ((224, 168), (0, -28))
    """
    (given_width, given_height), (height, width) = given, size
    if how == "squash":
        return (width, height), (0, 0)
    margin = 1.0 if resize is None or how == "pad" else resize / min(size)
    tall, wide = height * margin, width * margin
    # the side that decides gets its length exactly, the other one is rounded down, as torchvision does it
    if (wide * given_height >= tall * given_width) == (how == "crop"):
        scaled = (round(wide), int(wide * given_height / given_width))
    else:
        scaled = (int(tall * given_width / given_height), round(tall))
    scaled = (max(1, scaled[0]), max(1, scaled[1]))
    if how == "crop":
        scaled = (max(width, scaled[0]), max(height, scaled[1]))
    return scaled, (round((scaled[0] - width) / 2), round((scaled[1] - height) / 2))


def _check_proportions(given: tuple[int, int], scaled: tuple[int, int], kept: tuple[int, int]) -> None:
    """Raise if a very narrow picture would be resized to far more pixels than the crop keeps."""
    if math.prod(scaled) > min(_NARROWEST * math.prod(kept), Image.MAX_IMAGE_PIXELS or math.inf):
        raise InputError(
            f"a picture of {given[0]} x {given[1]} pixels is too narrow: resized until its shorter side fits, it would have "
            f"{scaled[0]} x {scaled[1]}, more than {_NARROWEST} times what is kept; crop it first"
        )


def _to_pixels(image: Image.Image, background: Sequence[float] | None = None) -> Tensor:
    """The picture as a float tensor ``(3, H, W)`` in [0, 1]. Transparent pixels show ``background`` (mid-gray if None)."""
    pixels = torch.from_numpy(np.asarray(image, dtype=np.float32).copy() / 255.0).permute(2, 0, 1)
    if pixels.shape[0] == 4:
        colour = torch.tensor([0.5, 0.5, 0.5] if background is None else list(background)).view(3, 1, 1)
        alpha = pixels[3:]
        pixels = alpha * pixels[:3] + (1 - alpha) * colour
    return pixels


# ---- picture files ----------------------------------------------------------------------------------------------


def decode_image(
    source: str | Path | bytes,
    name: str = "",
    *,
    most_pixels: int | None = None,
) -> Image.Image:
    """Decode a picture file, or its bytes. The picture is upright, and RGB, or RGBA if it is transparent. Error messages call the file
    ``name``, by default its path.

    Pictures with a side above :data:`LONGEST_SIDE` or more than ``most_pixels`` (default ``PIL.Image.MAX_IMAGE_PIXELS``) are
    refused before they are decoded. Only the first of several frames is decoded.
    """
    name = name or str(source)
    if not isinstance(source, bytes):
        check_ends(source, name)
    try:
        with Image.open(
            io.BytesIO(source) if isinstance(source, bytes) else source, formats=_FORMATS
        ) as file:
            _check_size(file.size, name, most_pixels)
            file.load()
            image = ImageOps.exif_transpose(file)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {name}") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(
            f"{name} is too large ({error}); shrink it first, or raise PIL.Image.MAX_IMAGE_PIXELS"
        ) from None
    except (
        Exception
    ) as error:  # damaged files raise almost anything: struct.error, KeyError, MemoryError, ...
        reason = str(error) or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = f"it is damaged, or not in a format that is read ({', '.join(sorted(SUFFIXES))})"
        raise InputError(f"{name} cannot be read as an image: {reason}") from None
    return _in_colour(image, name)


def _check_size(size: tuple[int, int], name: str, most_pixels: int | None) -> None:
    """Refuse a picture that would take too much time or memory."""
    width, height = size
    if max(size) > LONGEST_SIDE:
        raise InputError(
            f"{name} has {width} x {height} pixels; at most {LONGEST_SIDE:,} are read in width and in height, so crop or shrink it first"
        )
    if most_pixels is not None and width * height > most_pixels:
        raise InputError(
            f"{name} has {width} x {height} pixels; at most {most_pixels / 1e6:g} million are taken, so shrink it first"
        )
    # Pillow only warns between one and two times this limit
    if width * height > (Image.MAX_IMAGE_PIXELS or math.inf):
        raise Image.DecompressionBombError(f"{width} x {height} pixels")


def _in_colour(image: Image.Image, name: str) -> Image.Image:
    """A picture in any of Pillow's modes as RGB, or as RGBA if it is transparent."""
    if image.mode in ("RGB", "RGBA") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16"):  # convert() would clip to white
        return Image.fromarray(eight_bits(np.asarray(image))).convert("RGB")
    if image.mode in ("I", "F"):
        raise InputError(f"{name} has {image.mode!r} pixels without a known range; save it with 8 or 16 bits")
    transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")


def eight_bits(levels: np.ndarray) -> np.ndarray:
    """16-bit levels as 8-bit levels: v / 257, rounded. Computed in whole numbers, because floats would take 20 bytes per pixel.

    >>> eight_bits(np.array([0, 128, 129, 65535], dtype=np.uint16))
    array([  0,   0,   1, 255], dtype=uint8)
    """
    whole, rest = np.divmod(levels, np.uint16(257))
    return (whole + (rest > 128)).astype(np.uint8)
