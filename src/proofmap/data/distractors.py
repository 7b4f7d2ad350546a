"""The default distractors. Distractors are images that are shown behind hidden pixels; by default they are other images of the study itself.

- Distractors are images of the study's data as the net sees them, each once, chosen by name with a fixed seed.
- They are split into two halves by content (:func:`in_part`): methods draw from one half, metrics from the other. A
  half has up to 256 images.
- For a net of photographs, sample photographs of the package are added to a half with fewer than 4 images.
- If there is only one image, the sample photographs are used (without that image); other nets of pictures get noise.
- If there are too few images for two halves, methods and metrics draw from all images, and the record says so.

A net counts as a net of photographs if it has three input channels and one of the images is in colour. So no photograph of a cat is shown
behind a gray X-ray picture. An image is never its own distractor, because images with the same content are not drawn for it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.inputs.pictures import fit
from proofmap.core.text import counted
from proofmap.data.arrays import ArrayImages
from proofmap.data.dataset import Dataset, random_choice
from proofmap.data.loader import load_listed
from proofmap.data.photos import SAMPLE, SAMPLES, load_sample, photographs
from proofmap.data.specs import is_dataset, load_dataset

_Part = Literal["all", "learn", "judge"]
"""The sources of a pool to draw from: all, the half for methods (``learn``), or the half for metrics (``judge``)."""


MOST = 256
"""Largest number of own images (images of the study's data) in a half."""
ENOUGH = 4
"""Sample photographs are added to a half with fewer own images than this."""
_COLOURED = 16
"""A picture is in colour if the channels of a pixel differ by more than this number of levels, from 0 to 255."""
_HALVES: tuple[_Part, _Part] = ("learn", "judge")
_CHUNK = 64
_KEPT_OPEN = 64
_LEVELS = 255  # pictures are compared as bytes
_LEAST = 2
"""Smallest number of sources (images that pictures are made from) in a half of a pool. One of them may be the image that is explained."""


@dataclass(frozen=True, eq=False)
class Pool:
    """The images from which backgrounds are drawn: M pictures ``(M, *shape)``, as bytes, or inputs of another kind, and the marks of the S images
    that they were made from (the sources). Picture k was made from source k modulo S.

    A mark (:func:`mark`) is a number that identifies a source as the net would see it, so that an image is
    never its own distractor, not even as a crop. ``part`` says which sources were used, ``text`` describes the images, and ``digest`` identifies
    the whole pool.
    """

    values: Tensor
    marks: Tensor
    part: _Part = "all"
    text: str = ""

    @classmethod
    def of(cls, values: Tensor, inputs: Inputs, part: _Part = "all") -> Pool:
        """The pool of inputs ``(M, *shape)``, each of which is a source; pictures are kept as bytes."""
        return cls(_kept(values, inputs), mark(values, inputs), part)

    def moved(self, device: torch.device, text: str) -> Pool:
        """The pool on a device, described by a text."""
        return replace(self, values=self.values.to(device), marks=self.marks.to(device), text=text)

    @cached_property
    def digest(self) -> str:
        content = np.ascontiguousarray(self.values.cpu().numpy()).tobytes()
        return hashlib.blake2b(content, digest_size=8).hexdigest()

    def others(self, images: Tensor, inputs: Inputs) -> Tensor:
        """A boolean mask ``(N, S)`` of the sources that are not the image itself."""
        return mark(images, inputs)[:, None] != self.marks

    def drawn(self, images: Tensor, words: Tensor, inputs: Inputs) -> Tensor:
        """The index of one picture of the pool for each image, chosen by a random 32-bit number (``words``). Pictures made from the image itself
        are skipped.
        """
        size, sources = len(self.values), len(self.marks)
        other = self.others(images, inputs)
        allowed = other.sum(dim=1)
        if self._is_one_image and not bool(allowed.all()):
            raise InputError(
                "the pool of random images contains only the explained image; name a pool with other images"
            )
        rounds, rest = divmod(size, sources)  # picture k is from source k % sources
        left = (words * (rounds * allowed + other[:, :rest].sum(dim=1))) >> 32
        turn, within = left // allowed, left % allowed
        return turn * sources + torch.searchsorted(other.cumsum(dim=1), within[:, None] + 1)[:, 0]

    @cached_property
    def _is_one_image(self) -> bool:
        """Whether all sources are the same image."""
        return len(self.marks.unique()) == 1

    def described(self, source: object, noun: str) -> str:
        """A description of the images, such as ``41 of your own images``."""
        sources = len(self.marks)
        if not isinstance(source, Distractors):
            is_samples = isinstance(source, str) and source in ("own", "samples")
            return f"{_photographs(sources)}" if is_samples else f"{sources} {noun} of a pool that was named"
        own = int(torch.isin(self.marks, source.marks).sum())
        parts = [f"{own} of your own {noun}"] if own else []
        return " and ".join([*parts, *([_photographs(sources - own)] if sources > own else [])])

    @staticmethod
    def build(source: Any, inputs: Inputs, *, size: int, crop: str, seed: int, part: _Part = "all") -> Pool:
        """A pool of ``size`` inputs from ``source``: :class:`Distractors`, an array ``(M, *shape)``, or for pictures also ``"samples"``, a folder,
        files, a :class:`~proofmap.data.Dataset`, or its string such as ``cifar10:FOLDER[train]``. Its images are the sources of the pictures,
        which are bytes ``(M, C, H, W)``.

        With ``crop="random"`` pictures are random resized crops (8 to 100 % of the area, sides 3:4 to 4:3, flipped with probability
        1/2), and sources are used again if there are fewer than ``size``. With ``crop="none"`` sources are resized, centre-cropped and
        used once. Sources outside ``part`` are skipped. If a half has fewer than two sources, all sources are used, and the pool's ``part`` is
        ``all``.
        """
        if isinstance(source, Distractors):
            return source.pool(inputs, size=size, crop=crop, seed=seed, part=part)
        if _in_colours(inputs):
            return _picture_pool(_pictures_of(source), inputs, size, crop, seed, part)
        if isinstance(source, (str, Path)):
            raise InputError(
                f"distractors for {inputs.noun} need several {inputs.noun}, or source = an array "
                f"(M, {', '.join(map(str, inputs.shape))}), not {source!r}; or use another fill"
            )
        values = inputs.check(torch.as_tensor(source).float())
        marks = mark(values, inputs)
        part = part if _splits(marks) else "all"
        order = streams.permutations(torch.tensor(streams.key_of(seed, "pool order")), len(values))
        return Pool.of(values[order[in_part(marks[order], part)][:size]], inputs, part)


def in_part(marks: Tensor, part: _Part) -> Tensor:
    """A boolean mask ``(N,)`` of the sources that belong to ``part``. Sources are given by their marks ``(N,)``.

    A random bit, computed from the mark, decides the half of a source. So the half depends only on the image's content, and no image is in
    both halves, even in two different pools.
    """
    if part == "all":
        return torch.ones_like(marks, dtype=torch.bool)
    return (streams.random_words(marks, 1)[:, 0] & 1).bool() == (part == "learn")


def _splits(marks: Tensor) -> bool:
    """Whether the sources can be split by these marks into two halves with at least :data:`_LEAST` distinct sources each."""
    learned = int(in_part(marks.unique(), "learn").sum())
    return min(learned, len(marks.unique()) - learned) >= _LEAST


@dataclass(frozen=True, eq=False)
class Distractors:
    """The images that a pool of distractors is made from: own images ``(K, *shape)``, with the marks ``(K,)`` that identify them, and names of
    sample photographs. If there are neither, the pool is noise.
    """

    images: Tensor
    marks: Tensor
    samples: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Names and digests of own images from a dataset."""

    @property
    def is_noise(self) -> bool:
        return not len(self.marks) and not self.samples

    @classmethod
    def from_images(cls, images: Tensor, inputs: Inputs) -> Distractors | None:
        """Distractors made from the images ``(N, *shape)`` of one call. None if these images cannot serve as distractors."""
        found = _Found(inputs)
        key = torch.tensor(streams.key_of(0, "own distractors"))
        for i in streams.permutations(key, len(images)).tolist():
            if found.is_full:
                break
            found.add(images[i : i + 1].detach().cpu())
        return _completed(found.distractors(), inputs)

    @classmethod
    def from_dataset(cls, dataset: Dataset, inputs: Inputs) -> Distractors | None:
        """The distractors for a study of a dataset, made from its images. Images that cannot be read are skipped. None if the images cannot
        serve as distractors."""
        order, found = random_choice(dataset.names, len(dataset), seed=0), _Found(inputs)
        chunk = 4 * MOST if dataset.sequential else _CHUNK  # usually one pass over a stream
        while order and not found.is_full:
            found.read(dataset, sorted(order[:chunk]) if dataset.sequential else order[:chunk])
            order = order[chunk:]
        return _completed(found.distractors(), inputs)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], dataset: Dataset, inputs: Inputs) -> Distractors:
        """The distractors that a run's record names. Raises an error if an image is missing or has changed."""
        places = {name: i for i, name in enumerate(dataset.names)}
        own: Mapping[str, str] = record["own"]
        for name, digest in own.items():
            gone = name not in places
            if gone or dataset.digest(places[name]) != digest:
                raise InputError(
                    f"{name} is a distractor of the run, but it {'is gone' if gone else 'has changed'}; "
                    "restore it, or choose another --out"
                )
        found = _Found(inputs)
        found.read(dataset, [places[name] for name in own])
        again = found.distractors(tuple(record["samples"]))
        missing = [name for name in own if name not in again.names]
        if missing:
            raise InputError(f"{missing[0]} is a distractor of the run, but cannot be read; restore it")
        return again

    def record(self, dataset: Dataset) -> dict[str, Any]:
        """Names and digests of the distractors for a run's record, so that the run always uses the same ones."""
        return {"data": dataset.title, "own": dict(self.names), "samples": list(self.samples)}

    def pool(self, inputs: Inputs, *, size: int, crop: str, seed: int, part: _Part = "all") -> Pool:
        """A pool in which every image is used equally often. Own images are used whole; ``crop`` says how sample photographs are cropped.
        If a half has too few images, all images are used.
        """
        halves = {half: self._half(half, inputs) for half in _HALVES}
        is_split = all(len(half.marks) + len(half.samples) >= _LEAST for half in halves.values())
        found = halves[part] if part != "all" and is_split else self
        return replace(found._whole_pool(inputs, size, crop, seed), part="all" if found is self else part)

    def _half(self, part: _Part, inputs: Inputs) -> Distractors:
        """The distractors of one half: its own images and, if there are few of them, its sample photographs."""
        own = in_part(self.marks, part)
        few = int(own.sum()) < ENOUGH
        samples = tuple(name for name in self.samples if few and _is_sample_in(part, name, inputs))
        return Distractors(self.images[own], self.marks[own], samples)

    def _whole_pool(self, inputs: Inputs, size: int, crop: str, seed: int) -> Pool:
        order = streams.permutations(torch.tensor(streams.key_of(seed, "pool order")), len(self.marks))
        order = order[:size]
        own, marks = self.images[order], self.marks[order]
        if not self.samples:
            return Pool(own, marks)
        assert isinstance(inputs, Pictures)
        if not len(own):
            return _sample_pool(self.samples, inputs, size, crop, seed)
        joining = min(len(self.samples), size - len(own))
        if joining == 0:
            return Pool(own, marks)
        times = size // (len(own) + joining) if crop == "random" else 1
        others = _picture_pool(_named_samples(self.samples), inputs, times * joining, crop, seed, "all")
        shape = others.values.shape[1:]
        rounds = [own.expand(times, *own.shape), others.values.view(times, -1, *shape)]
        return Pool(torch.cat(rounds, dim=1).flatten(0, 1), torch.cat([marks, others.marks]))


@lru_cache(maxsize=4)
def _sample_pool(samples: tuple[str, ...], inputs: Pictures, size: int, crop: str, seed: int) -> Pool:
    """A pool of sample photographs. The pool is cached, because making it takes seconds and every method and metric uses it."""
    return _picture_pool(_named_samples(samples), inputs, size, crop, seed, "all")


def _named_samples(samples: Sequence[str]) -> Dataset:
    return photographs([SAMPLE + name for name in samples])


def _photographs(n: int) -> str:
    return f"{counted(n, 'sample photograph')} of the package"


# ---- own images -----------------------------------------------------------------------------------------------


def _completed(found: Distractors, inputs: Inputs) -> Distractors | None:
    """The distractors, with sample photographs added if there are few own images. A single image is never a distractor. None if there are
    no distractors."""
    own = len(found.marks)
    photographs = _are_photographs(found.images, inputs)
    enough = all(int(in_part(found.marks, part).sum()) >= ENOUGH for part in _HALVES)
    if enough or (own > 1 and not photographs):
        return found
    if not photographs:
        return Distractors(found.images[:0], found.marks[:0]) if len(inputs.positions) > 1 else None
    known = set(found.marks.tolist())
    others = tuple(name for name in SAMPLES if _sample_mark(name, inputs) not in known)
    if own > 1:
        return Distractors(found.images, found.marks, others, found.names)
    return Distractors(found.images[:0], found.marks[:0], others)


def _in_colours(inputs: Inputs) -> TypeGuard[Pictures]:
    """Whether inputs are pictures with values in [0, 1], which bytes can hold."""
    return isinstance(inputs, Pictures) and not inputs.unlimited


def _are_photographs(images: Tensor, inputs: Inputs) -> bool:
    """Whether pictures ``(K, C, H, W)`` of bytes have three channels, and one of them is in colour."""
    if not _in_colours(inputs) or inputs.channels != 3 or not len(images):
        return False
    spread = images.amax(dim=1) - images.amin(dim=1)
    return int(spread.max()) > _COLOURED


@cache
def _sample_mark(name: str, inputs: Inputs) -> int:
    return int(mark(inputs.prepare(load_sample(name))[None], inputs))


def _is_sample_in(part: _Part, name: str, inputs: Inputs) -> bool:
    return bool(in_part(torch.tensor([_sample_mark(name, inputs)]), part))


class _Found:
    """Collects the user's images by their marks, without duplicates. The result does not depend on the order in which images are added."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self._by_mark: dict[int, tuple[Tensor, str, str]] = {}
        self._free: dict[bool, int] = {True: MOST, False: MOST}  # by whether it is the half for learning

    @property
    def is_full(self) -> bool:
        """Whether both halves have :data:`MOST` images."""
        return not any(self._free.values())

    def add(self, images: Tensor, names: Sequence[tuple[str, str]] = ()) -> None:
        """Add images ``(n, *shape)`` with their names and digests, unless their half is full; pictures are kept as bytes."""
        values = images.to(torch.float32)
        kept, marks = _kept(values, self.inputs), mark(values, self.inputs)
        halves = in_part(marks, "learn").tolist()
        for k, (value, half) in enumerate(zip(marks.tolist(), halves, strict=True)):
            if value not in self._by_mark and self._free[half]:
                self._by_mark[value] = (kept[k], *(names[k] if names else ("", "")))
                self._free[half] -= 1

    def read(self, dataset: Dataset, indices: Sequence[int]) -> None:
        """Add the images ``indices`` of a dataset; images that cannot be read are skipped."""
        blocks = [list(indices[start : start + _CHUNK]) for start in range(0, len(indices), _CHUNK)]
        for block in load_listed(dataset, self.inputs, blocks, ahead=1):
            self.add(block.images, [(dataset.names[i], dataset.digest(i)) for i in block.indices])

    def distractors(self, samples: tuple[str, ...] = ()) -> Distractors:
        marks = sorted(self._by_mark)
        chosen = [self._by_mark[value] for value in marks]
        images = torch.stack([image for image, _, _ in chosen]) if chosen else self.inputs.blank(0)
        names = {name: digest for _, name, digest in chosen if name}
        return Distractors(images, torch.tensor(marks, dtype=torch.int64), samples, names)


# ---- named sources ----


def _pictures_of(source: Any) -> Dataset:
    """The dataset of a source of pictures."""
    if isinstance(source, str) and source in ("own", "samples"):
        return _named_samples(tuple(SAMPLES))
    if isinstance(source, str) and is_dataset(source):
        source = load_dataset(source)
    elif isinstance(source, (str, Path)):
        source = photographs([source])
    elif isinstance(source, (list, tuple)) and all(isinstance(one, (str, Path)) for one in source):
        source = photographs(source)
    if not isinstance(source, Dataset):
        source = ArrayImages(source.detach().cpu().numpy() if isinstance(source, Tensor) else source)
    found: Dataset = source
    if found.kind != Pictures.kind or not len(found):
        raise InputError(f"distractors are pictures; {found.title} has {len(found)} {found.kind}")
    return found


def _picture_pool(pictures: Dataset, inputs: Pictures, size: int, crop: str, seed: int, part: _Part) -> Pool:
    channels, (height, width) = inputs.channels, inputs.size
    if channels not in (1, 3):
        raise InputError(
            f"distractor pictures have 1 or 3 channels, the classifier takes {channels}; use fill='gray'"
        )
    order = streams.permutations(torch.tensor(streams.key_of(seed, "pool order")), len(pictures)).tolist()
    read = lru_cache(_KEPT_OPEN)(pictures.read)

    def made(which: int, i: int) -> np.ndarray:
        """Picture ``i`` of the pool, made from source number ``which``."""
        coloured = read(which).convert("RGB").convert("L" if channels == 1 else "RGB")
        if crop == "random":
            coloured = _random_crop(coloured, (height, width), streams.key_of(seed, which, i, "crop"))
        else:
            coloured = fit(coloured, (height, width), None, "bilinear")
        return np.asarray(coloured).reshape(height, width, channels)

    chosen, found, marks = list[int](), list[np.ndarray](), list[Tensor]()
    for which in order:
        marks.append(mark(inputs.prepare(read(which), cropped=pictures.cropped)[None], inputs))
        if bool(in_part(marks[-1], part)):
            found.append(made(which, len(chosen)))
            chosen.append(which)
        if len(chosen) == size:
            break
    seen = torch.cat(marks)
    if part != "all" and len(marks) == len(order) and not _splits(seen):
        return _picture_pool(pictures, inputs, size, crop, seed, "all")
    if crop == "random":
        found += [made(chosen[i % len(chosen)], i) for i in range(len(chosen), size)]
    values = torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2).contiguous()
    return Pool(values, seen[in_part(seen, part)], part)


def _kept(values: Tensor, inputs: Inputs) -> Tensor:
    """Inputs as a pool keeps them: pictures as bytes."""
    is_picture = _in_colours(inputs)
    return (values * _LEVELS).round().clamp(0, _LEVELS).to(torch.uint8) if is_picture else values


def mark(images: Tensor, inputs: Inputs) -> Tensor:
    """A 64-bit number ``(N,)`` for the content of each image ``(N, *shape)`` as the net sees it, computed on the images' device. Equal
    images have equal numbers.

    The number is computed from about 4000 evenly spread values of the image; pictures are compared as bytes.
    """
    flat = images.detach().flatten(1)
    some = flat[:, :: max(1, flat.shape[1] // 4096) | 1].to(torch.float32)
    is_picture = _in_colours(inputs)
    whole = (some * _LEVELS).round() if is_picture else some.contiguous().view(torch.int32)
    return (whole.to(torch.int64) * _mark_weights(some.shape[1], images.device)).sum(dim=1)


@cache
def _mark_weights(n: int, device: torch.device) -> Tensor:
    return streams.random_words(torch.tensor(streams.key_of("mark"), device=device), n)


def _random_crop(image: Image.Image, size: tuple[int, int], key: int) -> Image.Image:
    area, ratio, left, top, flip = streams.uniform(torch.tensor(key), 5).tolist()
    wanted = (0.08 + 0.92 * area) * image.width * image.height
    aspect = math.exp(math.log(3 / 4) + ratio * math.log(16 / 9))
    width = min(image.width, max(1, round(math.sqrt(wanted * aspect))))
    height = min(image.height, max(1, round(math.sqrt(wanted / aspect))))
    x, y = int(left * (image.width - width + 1)), int(top * (image.height - height + 1))
    image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR, box=(x, y, x + width, y + height))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip < 0.5 else image
