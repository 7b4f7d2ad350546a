"""Photos, rows, series and texts of visitors: uploaded, chosen from the data of the command line or from an uploaded file, or typed.

A photo is identified by a hash of its content. Files and items are kept in memory; the least recently used is dropped first.
"""

from __future__ import annotations

import csv
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, TypeVar

from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.core.inputs.frames import read_frame
from proofmap.core.inputs.pictures import decode_image
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, did_you_mean, one_line, shortened
from proofmap.data.dataset import Dataset
from proofmap.data.photos import SAMPLE, sample_path
from proofmap.data.series_files import series_content
from proofmap.data.table_rows import TableData
from proofmap.data.texts import TextData

LIMITS = {
    "upload_bytes": 20_000_000,
    "pixels": 40_000_000,
    "table_bytes": 5_000_000,
    "rows": 20_000,
    "characters": 20_000,
    "labels": 8,
    "methods": 3,
}
"""What visitors may send, which the page shows: the size of a picture, of a table or file of series, and of a text; labels and methods of one job."""
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


DATA = "data"
"""The id of the data that is named on the command line."""
MOST_COLUMNS = 1_000
MOST_TABLES, MOST_ITEMS = 8, 256
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
    """Data whose items visitors can choose: the data named on the command line, or an uploaded file."""

    id: str
    name: str
    data: Dataset
    arguments: tuple[str, ...]
    """The arguments of a command line that name the data."""
    left_out: tuple[str, ...] = ()
    """Columns that the model does not take."""

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
            _digest(f"{self.id} {index} {self.data.digest(index)}"),
            name,
            self.data.read(index),
            (*self.arguments, *which),
            self.truth(index),
        )


class Items:
    """The photos, rows, series and texts of a server, and the files they come from. ``data`` is the dataset named on the command line."""

    def __init__(self, data: Dataset | None = None, arguments: Sequence[str] = ()) -> None:
        self.own = None if data is None else Listing(DATA, data.title, data, tuple(arguments))
        self._tables: Kept[str, Listing] = Kept(
            lambda kept: len(kept) > MOST_TABLES, "the file is no longer on the server; upload it again"
        )
        self._items: Kept[str, Item] = Kept(
            _too_many, "this is no longer on the server; choose it, or upload it again"
        )

    def __getitem__(self, item: str) -> Item:
        return self._items[item]

    def listing(self, key: str) -> Listing:
        if key != DATA:
            return self._tables[key]
        if self.own is None:
            raise NotFound("this server has no data: start it with proofmap serve --model MODEL --data FILE")
        return self.own

    def choose(self, key: str, index: int) -> Item:
        """Keep and return item ``index`` of the data with the id ``key``."""
        found = self.listing(key).item(index)
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

    def add_file(self, content: bytes, name: str, inputs: Inputs) -> Listing:
        """Keep an uploaded table or file of series. Raises if it does not fit the model's inputs."""
        if not isinstance(inputs, Rows | Series):
            raise InputError(f"a file has rows or series, and this model takes {inputs.noun}")
        name = clean_name(name or "table.csv")
        if len(content) > LIMITS["table_bytes"]:
            raise InputError(f"{name} is too large: a file may have {LIMITS['table_bytes'] / 1e6:g} MB")
        if isinstance(inputs, Series):
            return self._add_series(content, name, inputs)
        return self._add_table(content, name, inputs)

    def _add_series(self, content: bytes, name: str, inputs: Series) -> Listing:
        """Keep a file of series. Raises unless the series have the model's length and number of channels."""
        own = None if self.own is None else self.own.data
        target = str(own.settings()["target"]) if own is not None and own.kind == Series.kind else ""
        data = series_content(content, name, target=target)
        if len(data) > LIMITS["rows"]:
            raise InputError(f"{name} has {len(data):,} series; a file may have {LIMITS['rows']:,}")
        channels, length = data.read(0).shape
        if (channels, length) != inputs.shape:
            raise InputError(
                f"{name} has series of {counted(channels, 'channel')} and {counted(length, 'time step')}, but the model takes "
                f"{counted(inputs.channels, 'channel')} and {counted(inputs.length, 'time step')}; cut or pad them"
            )
        key = hashlib.blake2b(name.encode() + content, digest_size=16).hexdigest()
        return self._tables.add(key, Listing(key, name, data, (f"series:{name}",)))

    def _add_table(self, content: bytes, name: str, inputs: Rows) -> Listing:
        """Keep a table that has the columns of the model. Other columns are left out."""
        suffix = ".tsv" if Path(name).suffix.lower() == ".tsv" else ".csv"
        _check_width(content, suffix, name)
        frame = read_frame(BytesIO(content), name, suffix)
        frame, left_out = _fitting(frame, inputs, name)
        try:
            data = TableData(frame, title=name, columns=inputs.table)
            inputs.encode(frame)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        key = hashlib.blake2b(content + repr(inputs.position_names).encode(), digest_size=16).hexdigest()
        return self._tables.add(key, Listing(key, name, data, (name,), left_out))


def _too_many(items: Collection[Item]) -> bool:
    photos = [len(item.value) for item in items if item.size is not None]
    return len(items) > MOST_ITEMS or len(photos) > MOST_PHOTOS or sum(photos) > MOST_BYTES


def _check_width(content: bytes, suffix: str, name: str) -> None:
    """Raise if the first line of a table has too many columns. Pandas would need minutes for a line of 5 MB."""
    text = io.StringIO(content.decode("utf-8-sig", "replace"), newline="")
    try:
        columns = len(next(csv.reader(text, delimiter="\t" if suffix == ".tsv" else ","), []))
    except csv.Error as error:
        raise InputError(f"{name} cannot be read as a table: {error}") from None
    if columns > MOST_COLUMNS:
        raise InputError(f"{name} has {columns:,} columns; a table may have {MOST_COLUMNS:,}")


def _fitting(frame: Any, inputs: Rows, name: str) -> tuple[Any, tuple[str, ...]]:
    """The columns of ``frame`` that the model takes, in the model's order, and the names of the other columns. Raises if one is missing."""
    have = [str(column) for column in frame.columns]
    wanted = inputs.names
    if not wanted:
        raise InputError("the columns of this model have no names, so a table cannot be matched with them")
    if not 1 <= len(frame) <= LIMITS["rows"]:
        raise InputError(f"{name} has {counted(len(frame), 'row')}; a table may have 1 to {LIMITS['rows']:,}")
    lacking = [column for column in wanted if column not in have]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise InputError(
            f"{name} lacks the column {lacking[0]!r}{more}.{did_you_mean(lacking[0], have)} The model takes "
            f"{', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''}"
        )
    frame.columns = have
    return frame[list(wanted)], tuple(one_line(column) for column in have if column not in wanted)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
