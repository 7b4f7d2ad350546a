"""Photos of visitors: kept in memory as uploaded, identified by a hash of their content; the least recently used is dropped first."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.pictures import FORMATS, UnreadableImage, decode_image
from proofmap.core.text import one_line
from proofmap.data.photos import SAMPLE, sample_path

UPLOAD_BYTES = 20_000_000
PIXELS = 40_000_000
ACCEPTED = f"JPEG, PNG or WebP, up to {UPLOAD_BYTES // 1_000_000} MB."
"""What an upload may be, in words for everybody."""
MOST_PHOTOS = 64
MOST_BYTES = 256_000_000
"""Bytes of all photos together."""
_LONGEST_NAME = 80
_FORMATS = tuple(kind for kind in FORMATS if kind != "JPEG2000")
"""JPEG 2000 is refused: a file of 800 bytes takes seconds and 0.8 GB, and browsers do not show it."""
_decoding = threading.Semaphore(2)
"""At most two decoders: a picture of 40 million pixels takes up to 0.6 GB (WebP)."""


class NotFound(InputError):
    """The server has no such photo, job, net, run or file."""


@dataclass(frozen=True)
class Photo:
    """The content of a picture's file, and its name."""

    id: str
    name: str
    content: bytes
    width: int
    height: int

    @contextmanager
    def opened(self) -> Iterator[Image.Image]:
        """The decoded picture, upright, as RGB or RGBA."""
        with _decoding:
            yield decoded(self.content, self.name)

    @property
    def arguments(self) -> tuple[str, ...]:
        """How the command line names it."""
        return (self.name,)

    @cached_property
    def stem(self) -> str:
        """The name without its suffix and without the prefix of samples."""
        bare = self.name.removeprefix(SAMPLE)
        return bare.rpartition(".")[0] or bare


class Photos:
    """The photos of this server."""

    def __init__(self, look: Callable[[Photo, Image.Image], None] | None = None) -> None:
        """``look`` is called with every new photo and its decoded picture, which saves decoding it again."""
        self._look = look
        self._kept: OrderedDict[str, Photo] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, photo: str) -> Photo:
        with self._lock:
            if photo not in self._kept:
                raise NotFound("the photo is no longer on the server; upload it again")
            self._kept.move_to_end(photo)
            return self._kept[photo]

    def add(self, content: bytes, name: str = "") -> Photo:
        """Keep an uploaded picture under the visitor's name for it; content that is no picture is refused."""
        return self._add(content, clean_name(name))

    def add_sample(self, name: str) -> Photo:
        """Keep one of the sample photographs."""
        return self._add(sample_path(name).read_bytes(), f"{SAMPLE}{name}")

    def _add(self, content: bytes, name: str) -> Photo:
        with _decoding:
            picture = decoded(content, name)
            digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            made = Photo(digest, name, content, picture.width, picture.height)
            if self._look is not None:
                self._look(made, picture)
            del picture
        with self._lock:
            self._kept[made.id] = made
            self._kept.move_to_end(made.id)
            while len(self._kept) > MOST_PHOTOS or self._bytes() > MOST_BYTES:
                self._kept.popitem(last=False)
        return made

    def _bytes(self) -> int:
        return sum(len(photo.content) for photo in self._kept.values())


def clean_name(name: str) -> str:
    """The name of an uploaded photo: the last part of its path, in one line, not too long.

    >>> clean_name("C:\\\\photos\\\\cat.jpg"), clean_name("")
    ('cat.jpg', 'photo')
    """
    last = one_line(name.replace("\\", "/").rpartition("/")[2].replace(":", "-")).strip()
    return last[-_LONGEST_NAME:].lstrip("-. ") or "photo"


def decoded(content: bytes, name: str) -> Image.Image:
    """A visitor's picture. One with too many pixels is refused by its header, before it is decoded."""
    if len(content) > UPLOAD_BYTES:
        raise InputError(f"{name} is too large. {ACCEPTED}")
    try:
        return decode_image(content, name, most_pixels=PIXELS, formats=_FORMATS)
    except UnreadableImage:
        raise InputError(f"{name} cannot be read as a picture. {ACCEPTED}") from None
