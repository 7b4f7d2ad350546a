"""Photos, rows, series and texts of visitors: uploaded, chosen from the data of the command line, or typed.

A photo is identified by a hash of its content. Items are kept in memory; the least recently used is dropped first.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.inputs import Series
from proofmap.core.inputs.pictures import decode_image
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import one_line, shortened
from proofmap.data.dataset import Dataset
from proofmap.data.photos import SAMPLE, sample_path
from proofmap.data.table_rows import TableData
from proofmap.data.texts import TextData

LIMITS = {
    "upload_bytes": 20_000_000,
    "pixels": 40_000_000,
    "characters": 20_000,
    "labels": 8,
    "methods": 3,
}
"""What visitors may send, which the page shows: the size of a picture and of a text; labels and methods of one job."""
ACCEPTED = f"JPEG, PNG or WebP, up to {LIMITS['upload_bytes'] // 1_000_000} MB."
"""The formats and size that an uploaded photo may have, in words for visitors."""
MOST_PHOTOS, MOST_BYTES = 64, 256_000_000
"""Largest number of kept photos, and of their bytes together."""
_LONGEST_NAME = 80
_decoding = threading.Semaphore(2)
"""Limits decoding to two pictures at the same time: a picture of 40 million pixels takes up to 0.6 GB (WebP)."""


K = TypeVar("K")
T = TypeVar("T")


class NotFound(InputError):
    """The server has no such photo, job, net, run or file."""


class Kept(Generic[K, T]):
    """A cache that any thread may use. The least recently used entries are dropped while ``too_many`` returns True for the values.

    ``gone`` is the error message for a missing entry.
    """

    def __init__(self, too_many: Callable[[Collection[T]], bool], gone: str = "") -> None:
        self._too_many, self._gone = too_many, gone
        self._all: OrderedDict[K, T] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, key: K) -> T:
        found = self.get(key)
        if found is None:
            raise NotFound(self._gone)
        return found

    def get(self, key: K) -> T | None:
        with self._lock:
            if key in self._all:
                self._all.move_to_end(key)
            return self._all.get(key)

    def add(self, key: K, value: T) -> T:
        with self._lock:
            self._all[key] = value
            self._all.move_to_end(key)
            while len(self._all) > 1 and self._too_many(self._all.values()):
                self._all.popitem(last=False)
        return value

    def drop(self, which: Callable[[K], bool]) -> None:
        with self._lock:
            self._all = OrderedDict((key, value) for key, value in self._all.items() if not which(key))

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        found = self.get(key)
        return self.add(key, make()) if found is None else found


def clean_name(name: str) -> str:
    """A clean name for an uploaded file: the last part of its path, in one line, of limited length.

    >>> clean_name("C:\\\\photos\\\\cat.jpg"), clean_name("")
    ('cat.jpg', 'photo')
    """
    last = one_line(name.replace("\\", "/").rpartition("/")[2].replace(":", "-")).strip()
    return last[-_LONGEST_NAME:].lstrip("-. ") or "photo"


def decoded(content: bytes, name: str) -> Image.Image:
    """Decode a visitor's picture. A picture with too many pixels is refused before it is decoded."""
    if len(content) > LIMITS["upload_bytes"]:
        raise InputError(f"{name} is too large. {ACCEPTED}")
    try:
        return decode_image(content, name, most_pixels=LIMITS["pixels"])
    except InputError as error:
        raise InputError(f"{error}. {ACCEPTED}") from None


MOST_ITEMS = 256
SHOWN_COLUMNS = 8
"""Largest number of columns shown in a list of rows."""
_PREVIEW, _TITLE = 160, 48
"""Largest number of characters of a text in a list, and in the name of its item."""


@dataclass(frozen=True, eq=False)
class Item:
    """An input that visitors ask about: a photo, row, series or text."""

    id: str
    name: str
    value: Any
    """The content of a photo's file; otherwise the row, series or text in the form that :meth:`Inputs.prepare` takes."""
    arguments: tuple[str, ...]
    """The arguments of a command line that name the item."""
    truth: str = ""
    """The name of the true label; empty if it is not known."""
    size: tuple[int, int] | None = None
    """The width and height of a photo; None for other items."""

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The value that :meth:`Inputs.prepare` takes. A photo is decoded: a picture, upright, as RGB or RGBA."""
        if self.size is None:
            yield self.value
            return
        with _decoding:
            yield decoded(self.value, self.name)

    @property
    def stem(self) -> str:
        """The name; that of a photo without its suffix and without the prefix of samples."""
        bare = self.name.removeprefix(SAMPLE)
        return self.name if self.size is None else bare.rpartition(".")[0] or bare


@dataclass(frozen=True, eq=False)
class Listing:
    """The data named on the command line, whose items visitors can choose."""

    name: str
    data: Dataset
    arguments: tuple[str, ...]
    """The arguments of a command line that name the data."""

    def about(self) -> dict[str, Any]:
        return {"name": self.name, "total": len(self.data)}

    def search(self, text: str) -> Sequence[int]:
        """The indices of the items whose name contains this text."""
        wanted = text.casefold().strip()
        return [i for i, name in enumerate(self.data.names) if wanted in str(name).casefold()]

    def columns(self) -> list[str]:
        """The column names for a list of items: the first columns of a table, ``text`` for texts, none for series."""
        if isinstance(self.data, TableData):
            return [one_line(str(name)) for name in list(self.data.frame.columns)[:SHOWN_COLUMNS]]
        return ["text"] if isinstance(self.data, TextData) else []

    def cells(self, index: int) -> list[str]:
        if isinstance(self.data, TableData):
            columns = self.data.columns
            row = self.data.encoded(columns)[index]
            return [one_line(columns.text(row, k)) for k in range(min(len(row), SHOWN_COLUMNS))]
        if isinstance(self.data, TextData):
            return [shortened(one_line(self.data.read(index)), _PREVIEW)]
        return []

    def truth(self, index: int) -> str:
        """The name of the true label of an item; empty if it is not known."""
        label = self.data.truth(index)
        if label is None or label == NO_LABEL:
            return ""
        return one_line(str(self.data.label_names[label] if self.data.label_names else label))

    def item(self, index: int) -> Item:
        if not 0 <= index < len(self.data):
            what = "series" if self.data.kind == Series.kind else "rows"
            raise NotFound(f"{self.name} has the {what} 0 to {len(self.data) - 1:,}, not {index:,}")
        name = one_line(str(self.data.names[index]))
        which = ("--rows", str(self.data.names[index]))
        return Item(
            _digest(f"data {index} {self.data.digest(index)}"),
            name,
            self.data.read(index),
            (*self.arguments, *which),
            self.truth(index),
        )


class Items:
    """The photos, rows, series and texts of a server. ``data`` is the dataset named on the command line."""

    def __init__(self, data: Dataset | None = None, arguments: Sequence[str] = ()) -> None:
        self.own = None if data is None else Listing(data.title, data, tuple(arguments))
        self._items: Kept[str, Item] = Kept(
            _too_many, "this is no longer on the server; choose it, or upload it again"
        )

    def __getitem__(self, item: str) -> Item:
        return self._items[item]

    @property
    def listing(self) -> Listing:
        """The data named on the command line. Raises if there is none."""
        if self.own is None:
            raise NotFound("this server has no data: start it with proofmap serve --model MODEL --data FILE")
        return self.own

    def choose(self, index: int) -> Item:
        """Keep and return an item of the data."""
        found = self.listing.item(index)
        return self._items.add(found.id, found)

    def add_photo(self, content: bytes, name: str = "") -> Item:
        """Keep an uploaded picture. ``name`` is the visitor's name for it. Raises if the content is not a picture."""
        return self._add_picture(content, clean_name(name))

    def add_sample(self, name: str) -> Item:
        """Keep one of the sample photographs."""
        return self._add_picture(sample_path(name).read_bytes(), f"{SAMPLE}{name}")

    def _add_picture(self, content: bytes, name: str) -> Item:
        with _decoding:
            size = decoded(content, name).size
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        return self._items.add(digest, Item(digest, name, content, (name,), size=size))

    def add_text(self, text: str) -> Item:
        """Keep a typed text as an item."""
        if not text.strip():
            raise InputError("the text is empty; type or paste some words")
        if len(text) > LIMITS["characters"]:
            raise InputError(
                f"the text has {len(text):,} characters, and at most {LIMITS['characters']:,} are taken; explain a part of it"
            )
        name = shortened(one_line(text).strip(), _TITLE)
        found = Item(_digest(text), name, text, ("--text", text))
        return self._items.add(found.id, found)


def _too_many(items: Collection[Item]) -> bool:
    photos = [len(item.value) for item in items if item.size is not None]
    return len(items) > MOST_ITEMS or len(photos) > MOST_PHOTOS or sum(photos) > MOST_BYTES


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
