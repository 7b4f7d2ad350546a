"""Rows, series and texts of visitors: chosen from the data of the command line, from an uploaded file, or typed.

An item has what a :class:`~proofmap.app.photos.Photo` has: an id, a name, and what :meth:`Inputs.prepare` reads. Files and items are kept in
memory; the least recently used is dropped first.
"""

from __future__ import annotations

import csv
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, TypeVar

from proofmap.app.photos import NotFound, clean_name
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, did_you_mean, one_line, shortened
from proofmap.data.dataset import Dataset
from proofmap.data.series_files import SeriesFile, series_content
from proofmap.data.table_rows import TableData, read_frame
from proofmap.data.texts import TextData

DATA = "data"
"""The address of the data of the command line."""
TABLE_BYTES = 5_000_000
MOST_ROWS = 20_000
"""Of a table, and series of a file."""
MOST_COLUMNS = 1_000
LONGEST_TEXT = 20_000
"""Characters of a text."""
MOST_TABLES, MOST_ITEMS = 8, 256
SHOWN_COLUMNS = 8
"""Columns in a list of rows."""
_PREVIEW, _TITLE = 160, 48
"""Characters of a text in a list, and in its name."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Item:
    """A row, a text or a series."""

    id: str
    name: str
    value: Any
    """As :meth:`Inputs.prepare` takes it."""
    arguments: tuple[str, ...]
    """How the command line names it."""
    truth: str = ""
    """The name of its true label, if it is known."""

    @contextmanager
    def opened(self) -> Iterator[Any]:
        yield self.value

    @property
    def stem(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Listing:
    """Data whose items can be chosen: that of the command line, or an uploaded file."""

    id: str
    name: str
    data: Dataset
    arguments: tuple[str, ...]
    """How the command line names the data."""
    left_out: tuple[str, ...] = ()
    """Columns that the model does not take."""

    def search(self, text: str) -> Sequence[int]:
        """The items whose name contains a text."""
        wanted = text.casefold().strip()
        return [i for i, name in enumerate(self.data.names) if wanted in str(name).casefold()]

    def columns(self) -> list[str]:
        """What a list of items shows: the first columns of a table, or the text."""
        if isinstance(self.data, TableData):
            return [one_line(str(name)) for name in list(self.data.frame.columns)[:SHOWN_COLUMNS]]
        return ["text"] if isinstance(self.data, TextData) else []

    def cells(self, index: int) -> list[str]:
        if isinstance(self.data, TableData):
            rows = self.data.read(index).rows
            row = rows.encoded(rows.columns)[index]
            return [one_line(rows.columns.text(row, k)) for k in range(min(len(row), SHOWN_COLUMNS))]
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
            what = "series" if isinstance(self.data, SeriesFile) else "rows"
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


class Kept(Generic[T]):
    """Things by their id; beyond ``most`` the least recently used is dropped. Any thread may use it."""

    def __init__(self, most: int, gone: str) -> None:
        self._most, self._gone = most, gone
        self._all: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, key: str) -> T:
        with self._lock:
            if key not in self._all:
                raise NotFound(self._gone)
            self._all.move_to_end(key)
            return self._all[key]

    def add(self, key: str, value: T) -> T:
        with self._lock:
            self._all[key] = value
            self._all.move_to_end(key)
            while len(self._all) > self._most:
                self._all.popitem(last=False)
        return value


class Items:
    """The rows, series and texts of a server, and the files that they come from. ``data`` is what the command line names."""

    def __init__(self, data: Dataset | None = None, arguments: Sequence[str] = ()) -> None:
        self.own = None if data is None else Listing(DATA, data.title, data, tuple(arguments))
        self._tables: Kept[Listing] = Kept(
            MOST_TABLES, "the file is no longer on the server; upload it again"
        )
        self._items: Kept[Item] = Kept(MOST_ITEMS, "this is no longer on the server; choose it again")

    def __getitem__(self, item: str) -> Item:
        return self._items[item]

    def listing(self, key: str) -> Listing:
        if key != DATA:
            return self._tables[key]
        if self.own is None:
            raise NotFound("this server has no data: start it with proofmap serve --model MODEL --data FILE")
        return self.own

    def choose(self, key: str, index: int) -> Item:
        """Keep an item of some data."""
        found = self.listing(key).item(index)
        return self._items.add(found.id, found)

    def add_text(self, text: str) -> Item:
        """Keep a typed text."""
        if not text.strip():
            raise InputError("the text is empty; type or paste some words")
        if len(text) > LONGEST_TEXT:
            raise InputError(
                f"the text has {len(text):,} characters, and at most {LONGEST_TEXT:,} are taken; explain a part of it"
            )
        name = shortened(one_line(text).strip(), _TITLE)
        found = Item(_digest(text), name, text, ("--text", text))
        return self._items.add(found.id, found)

    def add_file(self, content: bytes, name: str, inputs: Inputs) -> Listing:
        """Keep an uploaded table, or a file of series, that fits what a model takes."""
        if not isinstance(inputs, Rows | Series):
            raise InputError(f"a file has rows or series, and this model takes {inputs.noun}")
        name = clean_name(name or "table.csv")
        if len(content) > TABLE_BYTES:
            raise InputError(f"{name} is too large: a file may have {TABLE_BYTES / 1e6:g} MB")
        if isinstance(inputs, Series):
            return self._add_series(content, name, inputs)
        return self._add_table(content, name, inputs)

    def _add_series(self, content: bytes, name: str, inputs: Series) -> Listing:
        """Series of the length and number of channels that a model takes."""
        own = None if self.own is None else self.own.data
        target = str(own.settings()["target"]) if isinstance(own, SeriesFile) else ""
        data = series_content(content, name, target=target)
        if len(data) > MOST_ROWS:
            raise InputError(f"{name} has {len(data):,} series; a file may have {MOST_ROWS:,}")
        channels, length = data.read(0).shape
        if (channels, length) != inputs.shape:
            raise InputError(
                f"{name} has series of {counted(channels, 'channel')} and {counted(length, 'time step')}, but the model takes "
                f"{counted(inputs.channels, 'channel')} and {counted(inputs.length, 'time step')}; cut or pad them"
            )
        key = hashlib.blake2b(name.encode() + content, digest_size=16).hexdigest()
        return self._tables.add(key, Listing(key, name, data, (f"series:{name}",)))

    def _add_table(self, content: bytes, name: str, inputs: Rows) -> Listing:
        """A table whose columns are those that a model takes. Other columns are left out."""
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


def _check_width(content: bytes, suffix: str, name: str) -> None:
    """Refuse a table by its first line if it has too many columns: a line of 5 MB takes pandas minutes."""
    text = io.StringIO(content.decode("utf-8-sig", "replace"), newline="")
    try:
        columns = len(next(csv.reader(text, delimiter="\t" if suffix == ".tsv" else ","), []))
    except csv.Error as error:
        raise InputError(f"{name} cannot be read as a table: {error}") from None
    if columns > MOST_COLUMNS:
        raise InputError(f"{name} has {columns:,} columns; a table may have {MOST_COLUMNS:,}")


def _fitting(frame: Any, inputs: Rows, name: str) -> tuple[Any, tuple[str, ...]]:
    """The columns of a table that a model takes, in its order, and the names of the others."""
    have = [str(column) for column in frame.columns]
    wanted = inputs.names
    if not wanted:
        raise InputError("the columns of this model have no names, so a table cannot be matched with them")
    if not 1 <= len(frame) <= MOST_ROWS:
        raise InputError(f"{name} has {counted(len(frame), 'row')}; a table may have 1 to {MOST_ROWS:,}")
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
