"""Pools of distractors, the images that are shown behind hidden pixels. A pool has pictures of one size and is made once; the same seed gives
the same pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.pictures import find_images, fit, read_image
from proofmap.data.photos import SAMPLES, load_sample
from proofmap.data.specs import is_dataset, load_dataset

Opener = Callable[[], Image.Image]
_KEPT_OPEN = 64


LEVELS = 255  # pictures are compared as bytes
LEAST = 2
"""Smallest number of sources (images that pictures are made from) in a half of a pool. One of them may be the image that is explained."""

Part = Literal["all", "learn", "judge"]
"""The sources of a pool to draw from: all, the half for methods (``learn``), or the half for metrics (``judge``)."""


@dataclass(frozen=True)
class Pool:
    """The M pictures ``(M, *shape)`` of a pool, and the marks of the S images that they were made from (the sources). Picture k was made from
    source k modulo S.

    A mark (:func:`proofmap.core.streams.content_marks`) is a number that identifies a source as the net would see it, so that an image is
    never its own distractor, not even as a crop. ``part`` says which sources were used.
    """

    pictures: Tensor
    marks: Tensor
    part: Part = "all"


def in_part(marks: Tensor, part: Part) -> Tensor:
    """A boolean mask ``(N,)`` of the sources that belong to ``part``. Sources are given by their marks ``(N,)``.

    A random bit, computed from the mark, decides the half of a source. So the half depends only on the image's content, and no image is in
    both halves, even in two different pools.
    """
    if part == "all":
        return torch.ones_like(marks, dtype=torch.bool)
    return (streams.random_words(marks, 1)[:, 0] & 1).bool() == (part == "learn")


def can_be_halved(marks: Tensor) -> bool:
    """Whether the sources can be split by these marks into two halves with at least :data:`LEAST` distinct sources each."""
    learned = int(in_part(marks.unique(), "learn").sum())
    return min(learned, len(marks.unique()) - learned) >= LEAST


def build_pool(source: Any, inputs: Pictures, *, size: int, crop: str, seed: int, part: Part = "all") -> Pool:
    """A pool of ``size`` pictures as bytes ``(M, C, H, W)``. ``source`` is a folder, files, an array, a dataset (an object, or a string
    such as ``cifar10:FOLDER[train]``) or ``"samples"``. Its images are the sources of the pictures.

    With ``crop="random"`` pictures are random resized crops (8 to 100 % of the area, sides 3:4 to 4:3, flipped with probability
    1/2), and sources are used again if there are fewer than ``size``. With ``crop="none"`` sources are resized, centre-cropped and
    used once. Sources outside ``part`` are skipped. If a half has fewer than :data:`LEAST` sources, all sources are used, and the pool's
    ``part`` is ``all``.
    """
    channels, (height, width) = inputs.channels, inputs.size
    if channels not in (1, 3):
        raise InputError(
            f"distractor pictures have 1 or 3 channels, the classifier takes {channels}; use fill='gray'"
        )
    openers, in_memory = _openers(source), not isinstance(source, (str, Path, list, tuple))
    order = streams.permutations(torch.tensor(streams.key_of(seed, "pool order")), len(openers)).tolist()
    opened: dict[int, tuple[Image.Image, Image.Image]] = {}

    def read(which: int) -> tuple[Image.Image, Image.Image]:
        """Source number ``which``: the unchanged image, and the image in the net's colours."""
        if which not in opened:
            if len(opened) >= _KEPT_OPEN:
                opened.clear()
            whole = openers[which]()
            opened[which] = whole, whole.convert("RGB").convert("L" if channels == 1 else "RGB")
        return opened[which]

    def picture(which: int, i: int) -> np.ndarray:
        """Picture ``i`` of the pool, made from source number ``which``."""
        _, coloured = read(which)
        if crop == "random":
            made = _random_crop(coloured, (height, width), streams.key_of(seed, which, i, "crop"))
        else:
            made = fit(coloured, (height, width), None, "bilinear")
        return np.asarray(made).reshape(height, width, channels)

    chosen, pictures, marks = list[int](), list[np.ndarray](), list[Tensor]()
    for which in order:
        whole, _ = read(which)
        as_it_is = in_memory and whole.size == (width, height)
        marks.append(mark(inputs.prepare(whole, cropped=as_it_is)[None], inputs))
        if bool(in_part(marks[-1], part)):
            pictures.append(picture(which, len(chosen)))
            chosen.append(which)
        if len(chosen) == size:
            break
    seen = torch.cat(marks)
    if part != "all" and len(marks) == len(order) and not can_be_halved(seen):
        return build_pool(source, inputs, size=size, crop=crop, seed=seed)
    if crop == "random":
        pictures += [picture(chosen[i % len(chosen)], i) for i in range(len(chosen), size)]
    values = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()
    return Pool(values, seen[in_part(seen, part)], part)


def mark(images: Tensor, inputs: Inputs) -> Tensor:
    """The marks ``(N,)`` of images ``(N, *shape)`` as the net sees them."""
    return streams.content_marks(images, LEVELS if isinstance(inputs, Pictures) else None)


def _random_crop(image: Image.Image, size: tuple[int, int], key: int) -> Image.Image:
    area, ratio, left, top, flip = streams.uniform(torch.tensor(key), 5).tolist()
    wanted = (0.08 + 0.92 * area) * image.width * image.height
    aspect = math.exp(math.log(3 / 4) + ratio * math.log(16 / 9))
    width = min(image.width, max(1, round(math.sqrt(wanted * aspect))))
    height = min(image.height, max(1, round(math.sqrt(wanted / aspect))))
    x, y = int(left * (image.width - width + 1)), int(top * (image.height - height + 1))
    image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR, box=(x, y, x + width, y + height))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip < 0.5 else image


def _openers(source: Any) -> Sequence[Opener]:
    if isinstance(source, str) and source == "samples":
        return [partial(load_sample, name) for name in SAMPLES]
    if isinstance(source, str) and is_dataset(source):
        dataset = load_dataset(source)
        if dataset.kind != Pictures.kind:
            raise InputError(f"distractors are pictures; {dataset.title} has other inputs")
        return [partial(dataset.read, i) for i in range(len(dataset))]
    if isinstance(source, (str, Path)):
        source = find_images([source])
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, Path)) for s in source):
        names = [s for s in source if s in SAMPLES]
        if len(names) == len(source):
            return [partial(load_sample, name) for name in names]
        return [partial(read_image, path) for path in find_images(source)]
    try:
        n = len(source)
    except TypeError:
        raise InputError(
            f"distractors must have a length, and a {type(source).__name__} has none; give a list, an array or a dataset"
        ) from None
    if n == 0:
        raise InputError("there are no distractors: the source is empty")
    return [partial(_from_item, source, i) for i in range(n)]


def _from_item(source: Any, index: int) -> Image.Image:
    """An item of an array, tensor or dataset as a picture. It may be CHW or HWC, of bytes or of floats in [0, 1], or a pair (image, label)."""
    item = source[index]
    if isinstance(item, (tuple, list)):
        item = item[0]
    if isinstance(item, dict):
        item = item.get("image", next(iter(item.values())))
    if isinstance(item, Image.Image):
        return item
    array = item.detach().cpu().numpy() if isinstance(item, Tensor) else np.asarray(item)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or array.size == 0:
        raise InputError(
            f"distractor {index} has shape {array.shape}; expected a picture (H, W, C) or (C, H, W) in gray or RGB"
        )
    if array.dtype != np.uint8:
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise InputError(f"distractor {index} must hold 8-bit pixels or floats in [0, 1]")
        array = (array * 255).round().astype(np.uint8)
    return Image.fromarray(np.broadcast_to(array[:, :, :3], (*array.shape[:2], 3)).copy())
