"""Pictures from disk to pixels: found, decoded safely, resized and cropped; bad files are named, never skipped."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box"]

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"})
# Safe on a file from outside: Pillow would hand EPS, whatever the file's suffix, to Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000")
_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def find_images(places: Iterable[str | Path]) -> list[Path]:
    """The image files among the given files and folders (searched in depth), in a fixed order."""
    found: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            if not inside:
                raise InputError(f"the folder {place} holds no images ({', '.join(sorted(SUFFIXES))})")
            found += inside
        elif place.exists():
            check_ends(place)
            found.append(place)
        else:
            raise InputError(f"there is no file or folder {place}")
    if not found:
        raise InputError("no image was given; name at least one file or folder")
    return found


def read_image(path: str | Path) -> Image.Image:
    """One photo as RGB, upright (EXIF), or with its transparency kept as RGBA."""
    return decode_image(path, str(path))


def decode_image(source: str | Path | bytes, name: str) -> Image.Image:
    """A file, or the bytes of one, as upright RGB (RGBA where it is transparent); error messages call it ``name``."""
    if not isinstance(source, bytes):
        check_ends(source, name)
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


def fit(
    image: Image.Image, size: tuple[int, int], resize: int | None, interpolation: Interpolation
) -> Image.Image:
    """Resize so that the shorter side is ``resize`` (the input size when None), then crop the centre to ``size``.

    >>> fit(Image.new("RGB", (400, 300)), (224, 224), 256, "bilinear").size
    (224, 224)
    """
    scaled, (left, top) = fitted_size(image.size, size, resize)
    if scaled[0] * scaled[1] > (Image.MAX_IMAGE_PIXELS or math.inf):
        raise InputError(
            f"a picture of {image.width} x {image.height} pixels is too narrow: enlarged until its shorter side "
            f"fits, it would have {scaled[0]} x {scaled[1]}; crop it first"
        )
    image = image.resize(scaled, _RESAMPLING[interpolation])
    return image.crop((left, top, left + size[1], top + size[0]))


def fitted_size(
    given: tuple[int, int], size: tuple[int, int], resize: int | None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """What :func:`fit` makes of a picture of ``given`` width and height: width and height after resizing, and the left
    and upper border that the crop takes away.

    >>> fitted_size((400, 300), (224, 224), 256)
    ((341, 256), (58, 16))
    """
    height, width = size
    margin = 1.0 if resize is None else resize / min(size)
    scale = max(height * margin / given[1], width * margin / given[0])
    scaled = (max(width, round(given[0] * scale)), max(height, round(given[1] * scale)))
    return scaled, ((scaled[0] - width) // 2, (scaled[1] - height) // 2)


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


def to_pixels(image: Image.Image, background: Sequence[float] | None = None) -> Tensor:
    """``(3, H, W)`` floats in [0, 1]; transparent pixels show ``background`` (mid-gray when None)."""
    pixels = torch.from_numpy(np.asarray(image, dtype=np.float32).copy() / 255.0).permute(2, 0, 1)
    if pixels.shape[0] == 4:
        colour = torch.tensor([0.5, 0.5, 0.5] if background is None else list(background)).view(3, 1, 1)
        alpha = pixels[3:]
        pixels = alpha * pixels[:3] + (1 - alpha) * colour
    return pixels
