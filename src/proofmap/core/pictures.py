"""Decode pictures safely, resize and crop them."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.files import check_ends

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box"]
Fit = Literal["crop", "pad", "squash"]

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"})
RESULTS = frozenset({"scores.sqlite", "evaluation.json", "scores.csv"})
"""A folder that holds one of these files contains results of Proofmap."""
OWN_SOFTWARE = "Proofmap"
# Only formats that are safe to decode: Pillow would pass EPS, whatever the file's suffix, to Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000")
LONGEST_SIDE = 65_535
"""Largest width or height in pixels, as in a JPEG. Decoding a picture of 1 x 40,000,000 pixels takes 20 times as long as decoding a photo
with as many pixels."""
NARROWEST = 100
"""Largest ratio of the pixels of a resized picture to those kept by the crop. Without a limit, a narrow strip in a file of 200 bytes
took 400 MB."""
_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class UnreadableImage(InputError):
    """A file that is not a picture, is damaged, or has an unsupported format."""


def own_mark() -> PngImagePlugin.PngInfo:
    """The PNG text that marks pictures of Proofmap, so that they are never taken for photos to explain."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", OWN_SOFTWARE)
    return info


def is_own_picture(path: str | Path) -> bool:
    """Whether Proofmap wrote this picture."""
    try:
        with open(path, "rb") as file:
            return b"Software\0" + OWN_SOFTWARE.encode() in file.read(1024)
    except OSError:
        return False


def read_image(path: str | Path) -> Image.Image:
    """A photo from a file, turned upright as its EXIF data say: RGB, or RGBA if it is transparent."""
    return decode_image(path, str(path))


def decode_image(
    source: str | Path | bytes,
    name: str,
    *,
    most_pixels: int | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> Image.Image:
    """Decode a picture file, or its bytes. The picture is upright, and RGB, or RGBA if it is transparent. Error messages call the file
    ``name``.

    Pictures with a side above :data:`LONGEST_SIDE` or more than ``most_pixels`` (default ``PIL.Image.MAX_IMAGE_PIXELS``) are
    refused before they are decoded. Only the first of several frames is decoded.
    """
    if not isinstance(source, bytes):
        check_ends(source, name)
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats) as file:
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
    except UnidentifiedImageError:
        raise UnreadableImage(
            f"{name} cannot be read as an image: it is damaged, or not in a format that is read ({', '.join(sorted(SUFFIXES))})"
        ) from None
    except (
        Exception
    ) as error:  # damaged files raise almost anything: struct.error, KeyError, MemoryError, ...
        raise UnreadableImage(
            f"{name} cannot be read as an image: {str(error) or type(error).__name__}"
        ) from None
    return in_colour(image, name)


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


def in_colour(image: Image.Image, name: str) -> Image.Image:
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


def seen_part(
    given: tuple[int, int], size: tuple[int, int], resize: int | None, how: Fit = "crop"
) -> tuple[float, float, float, float]:
    """The part of a picture that is left after :func:`fit`: left, top, right, bottom, as fractions of the picture's sides.

    >>> seen_part((1200, 200), (224, 224), 224)
    (0.4166666666666667, 0.0, 0.5833333333333334, 1.0)
    """
    (wide, high), (left, top) = fitted_size(given, size, resize, how)
    right, bottom = left + size[1], top + size[0]
    return max(0, left) / wide, max(0, top) / high, min(wide, right) / wide, min(high, bottom) / high


def resize_shorter_side(image: Image.Image, side: int) -> Image.Image:
    """The whole picture, resized by bilinear interpolation so that its shorter side has ``side`` pixels. Its proportions are kept.

    >>> resize_shorter_side(Image.new("RGB", (400, 300)), 256).size
    (341, 256)
    """
    shorter = min(image.size)
    width, height = (side if length == shorter else int(side * length / shorter) for length in image.size)
    _check_proportions(image.size, (width, height), (side, side))
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _check_proportions(given: tuple[int, int], scaled: tuple[int, int], kept: tuple[int, int]) -> None:
    """Raise if a very narrow picture would be resized to far more pixels than the crop keeps."""
    if math.prod(scaled) > min(NARROWEST * math.prod(kept), Image.MAX_IMAGE_PIXELS or math.inf):
        raise InputError(
            f"a picture of {given[0]} x {given[1]} pixels is too narrow: resized until its shorter side fits, it would have "
            f"{scaled[0]} x {scaled[1]}, more than {NARROWEST} times what is kept; crop it first"
        )


def to_pixels(image: Image.Image, background: Sequence[float] | None = None) -> Tensor:
    """The picture as a float tensor ``(3, H, W)`` in [0, 1]. Transparent pixels show ``background`` (mid-gray if None)."""
    pixels = torch.from_numpy(np.asarray(image, dtype=np.float32).copy() / 255.0).permute(2, 0, 1)
    if pixels.shape[0] == 4:
        colour = torch.tensor([0.5, 0.5, 0.5] if background is None else list(background)).view(3, 1, 1)
        alpha = pixels[3:]
        pixels = alpha * pixels[:3] + (1 - alpha) * colour
    return pixels
