"""Pictures from files and bytes, in any number of threads at once.

Unlike :func:`proofmap.images.read_image`, nothing here touches the process's warning filters, which
``warnings.catch_warnings`` restores in the wrong order when two threads use it at the same time.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from proofmap.errors import InputError

# Safe on a file from outside: Pillow would hand EPS, whatever the file's suffix, to Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000")


def decode_image(source: str | Path | bytes, name: str) -> Image.Image:
    """A file, or the bytes of one, as upright RGB (RGBA where it is transparent); errors call it ``name``."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as file:
            # Pillow only warns between one and two times this limit
            if file.width * file.height > (Image.MAX_IMAGE_PIXELS or math.inf):
                raise Image.DecompressionBombError(f"{file.width} x {file.height} pixels")
            file.load()
            image = ImageOps.exif_transpose(file)
    except FileNotFoundError:
        raise InputError(f"there is no file {name}") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(
            f"{name} is too large ({error}); shrink it first, or raise PIL.Image.MAX_IMAGE_PIXELS"
        ) from None
    except (
        Exception
    ) as error:  # damaged files raise almost anything: struct.error, KeyError, MemoryError, ...
        raise InputError(f"{name} cannot be read as an image: {str(error) or type(error).__name__}") from None
    return in_colour(image, name)


def in_colour(image: Image.Image, name: str) -> Image.Image:
    """A picture in any of Pillow's modes as RGB, or as RGBA where it is transparent."""
    if image.mode in ("RGB", "RGBA") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16"):  # convert() would clip to white
        eight = (np.asarray(image).astype(np.float64) / 257.0).round().astype(np.uint8)
        return Image.fromarray(eight).convert("RGB")
    if image.mode in ("I", "F"):
        raise InputError(f"{name} has {image.mode!r} pixels without a known range; save it with 8 or 16 bits")
    transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    return image.convert("RGBA" if transparent else "RGB")


def resize_shorter_side(image: Image.Image, side: int) -> Image.Image:
    """The whole picture, bilinear, with its shorter side at ``side`` pixels and its proportions kept.

    >>> resize_shorter_side(Image.new("RGB", (400, 300)), 256).size
    (341, 256)
    """
    scale = side / min(image.size)
    width, height = (max(side, round(length * scale)) for length in image.size)
    if width * height > (Image.MAX_IMAGE_PIXELS or math.inf):
        raise InputError(
            f"a picture of {image.width} x {image.height} pixels is too narrow: with its shorter side at {side} it "
            f"would have {width} x {height}; crop it first"
        )
    return image.resize((width, height), Image.Resampling.BILINEAR)
