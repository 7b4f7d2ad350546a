"""Decode pictures safely."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"})
OWN_SOFTWARE = "Proofmap"
"""The entry ``Software`` of the PNG files that Proofmap draws, so that they are never taken for photos to explain."""
# Only formats that are safe to decode: Pillow would pass EPS, whatever the file's suffix, to Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000")
LONGEST_SIDE = 65_535
"""Largest width or height in pixels, as in a JPEG. Decoding a picture of 1 x 40,000,000 pixels takes 20 times as long as decoding a photo
with as many pixels."""


class UnreadableImage(InputError):
    """A file that is not a picture, is damaged, or has an unsupported format."""


def decode_image(
    source: str | Path | bytes,
    name: str = "",
    *,
    most_pixels: int | None = None,
    formats: tuple[str, ...] = FORMATS,
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
