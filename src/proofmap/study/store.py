"""A run directory: ``run.json``, ``images.jsonl``, ``scores.sqlite`` with one table of finished units, and ``maps``.

A unit is one method on one block of images. What is in the table is finished. A unit is written in one transaction, after the file of its
maps is on the disk, so a process that is killed at any moment leaves it complete or not at all. One process writes and holds the lock of
the directory. Any number of processes may read at the same time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import ProofmapError
from proofmap.core.files import atomic_write, digest_of, is_disk_full, sync_folder

SCORES = "scores.sqlite"
IMAGES = "images.jsonl"
MAPS = "maps"
_EXACT = ".float32"  # in the name of a file whose maps are equal to the last bit to what the method made

_APPLICATION = 0x50726F66  # "Prof": tells this database from others
_VERSION = 8
_CHECKED_BYTES = 256_000_000  # a database of at most this size is checked when it is opened
_TABLE = f"""
BEGIN IMMEDIATE;
CREATE TABLE units (
    id INTEGER PRIMARY KEY,
    block INTEGER NOT NULL,         -- the images; run.json says how many are in a block
    method TEXT NOT NULL,
    metrics TEXT NOT NULL,          -- JSON list of names
    maps TEXT,                      -- the file of the maps
    failures TEXT,                  -- JSON object: image -> reason
    judged INTEGER NOT NULL,        -- number of images with values
    game TEXT,                      -- key in run.json of the settings of the curves
    scores TEXT NOT NULL,           -- JSON object: metric -> [sum of the values, number of images that count]
    environment INTEGER NOT NULL,   -- index in run.json
    batches TEXT NOT NULL,          -- batch sizes used
    seconds REAL NOT NULL,
    passes INTEGER NOT NULL,
    finished TEXT NOT NULL,
    results BLOB NOT NULL           -- safetensors: all values and curves, with a row for each image of the block
);
CREATE INDEX work ON units (block, method, metrics, maps);
CREATE INDEX failed ON units (method, block) WHERE failures IS NOT NULL;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""


# what the units sum to, so that nobody reads all of them to continue a run; images: the ones that a method judged, under an empty metric
_SUMS = (
    "CREATE TABLE sums (method TEXT, metric TEXT, total REAL, count INTEGER, PRIMARY KEY (method, metric))"
)


class StoreError(ProofmapError):
    """A run directory cannot be read or written."""


def damaged(path: Path, text: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {text}. Put the file back if you have a copy; or remove it, and the command that made the run computes what "
        "it held again"
    )


def earlier_run(folder: Path) -> StoreError:
    """The error for a run whose files have an older format."""
    return StoreError(
        f"{folder} was made by an earlier Proofmap. Read it with that version, or run the study again with another --out"
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the disk while ``path`` is written into errors that say what to do."""
    try:
        yield
    except OSError as error:
        kept = ". What is finished is safe: make room and run the same command again"
        raise StoreError(
            f"{path} cannot be written: {error.strerror}{kept if is_disk_full(error) else ''}"
        ) from None


# ---- the records ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageRow:
    """One image of a run, as the survey found it before methods are judged.

    ``labels`` are the labels to judge and ``f`` their probabilities, most probable first unless the labels were listed by the user.
    ``stamp`` changes when the file changes, ``eligible`` says whether the image passes the study's selection, and ``failure`` says why it
    cannot be read."""

    name: str
    digest: str
    stamp: str
    true_labels: tuple[int, ...] = ()
    eligible: bool = False
    labels: tuple[int, ...] = ()
    f: tuple[float, ...] = ()
    failure: str | None = None

    @property
    def truth(self) -> int | None:
        """The one true label; None if it is not known, or if there are several."""
        return self.true_labels[0] if len(self.true_labels) == 1 else None


# ---- the directory --------------------------------------------------------------------------------------------


class Store:
    """The images and the finished units of a run directory. With ``write``, the caller holds the lock, and missing files are created."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder, self.path, self._write = folder, folder / SCORES, write
        if not (write or self.path.exists()):
            raise StoreError(
                f"{folder} has no {SCORES}: nothing was judged before it was stopped, or the file was lost. The command that made the run "
                "computes it again"
            )
        if self.path.exists() and not self.path.is_file():
            raise StoreError(f"{self.path} is not a regular file. Remove it, and run the same command again")
        try:
            with self._errors():
                writable = os.access(folder, os.W_OK) and os.access(self.path, os.W_OK)
                mode = "rwc" if write else "rw" if writable else "ro"
                uri = f"{self.path.resolve().as_uri()}?mode={mode}"
                # one thread at a time, but not always the same one
                self.database = sqlite3.connect(
                    uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False
                )
                self._prepare()
            self._file = os.stat(self.path)
            if write and not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'sums'"):
                self.recount()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        execute = self.database.execute
        (application,), (version,) = (
            execute(f"PRAGMA {of}").fetchone() for of in ("application_id", "user_version")
        )
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise StoreError(
                f"{self.path} is a database, but not one of proofmap; choose another --out, or the folder of a run"
            )
        if tables and version > _VERSION:
            raise StoreError(
                f"{self.path} was made by a newer Proofmap (version {version}); install that version"
            )
        if tables and version < _VERSION:
            raise earlier_run(self.folder)
        if not tables and not self._write:
            raise StoreError(f"{self.path} is empty: the run was stopped before it stored anything")
        if tables and self.path.stat().st_size <= _CHECKED_BYTES:
            (answer,) = execute("PRAGMA quick_check(1)").fetchone()
            if answer != "ok":
                raise damaged(self.path, answer)
        if self._write:
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")  # a power cut takes back no finished unit
            if not tables:
                self.database.executescript(_TABLE)

    def close(self) -> None:
        if hasattr(self, "database"):  # it may not have been opened
            self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite into errors that name the file and the fix."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "locked" in text:
                raise StoreError(f"{self.path} is in use by another program: {text}") from error
            if not any(word in text for word in ("full", "disk I/O", "readonly", "unable to open")):
                raise damaged(self.path, text) from error
            if self._write:
                raise StoreError(
                    f"{self.path} cannot be written: {text}. What is finished is safe: make room and run the same command again"
                ) from error
            raise StoreError(
                f"{self.path} cannot be read: {text}. SQLite needs some room for that, in a folder that is not read-only: make room, or read a "
                "copy of the run"
            ) from error

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._errors():
            return self.database.execute(query, arguments).fetchall()

    def is_in_place(self) -> bool:
        """Whether the open database is still the file at its path. What is written to a removed file is lost."""
        try:
            return os.path.samestat(os.stat(self.path), self._file)
        except OSError:
            return False

    @property
    def has_units(self) -> bool:
        return bool(self.rows("SELECT 1 FROM units LIMIT 1"))

    def finish(self) -> None:
        """Make the database one file that can be copied, and read where nothing can be written."""
        with suppress(sqlite3.OperationalError):  # another process reads it: it stays as it is
            self.database.execute("PRAGMA journal_mode = DELETE")
            sync_folder(self.folder)  # or a power cut would bring the removed journal back

    # ---- images -------------------------------------------------------------------------------------------------

    def images(self) -> list[ImageRow]:
        """All surveyed images, in the order of the survey."""
        return list(self._images.values())

    def add_images(self, images: Iterable[ImageRow]) -> None:
        """Add images to the file, all or none of them. One that is there gets the new row; if it could not be read, it moves to the end."""
        rows, path, known = list(images), self.folder / IMAGES, self._images
        lines = "".join(f"{json.dumps(asdict(row))}\n" for row in rows)
        with writing(path), open(path, "ab") as file:
            file.write(f"{lines}\n".encode())  # rows before an empty line are complete
            file.flush()
            os.fsync(file.fileno())
        _add(known, rows)

    @cached_property
    def _images(self) -> dict[str, ImageRow]:
        path, found = self.folder / IMAGES, dict[str, ImageRow]()
        if not path.exists():
            return found
        if not path.is_file():
            raise StoreError(f"{path} is not a regular file. Remove it, and run the same command again")
        content = path.read_bytes()
        complete = content.rfind(b"\n\n") + 2 if b"\n\n" in content else 0
        if self._write and complete < len(content):  # left by a process that was killed
            with writing(path):
                os.truncate(path, complete)
        try:
            lines = content[:complete].replace(b"\n\n", b"\n").splitlines()
            for row in json.loads(b"[%s]" % b",".join(lines)):  # at once: there may be a million
                for key in ("true_labels", "labels", "f"):
                    row[key] = tuple(row[key])
                _add(found, [ImageRow(**row)])
        except (ValueError, TypeError, KeyError) as error:
            raise damaged(path, str(error)) from None
        return found

    # ---- units --------------------------------------------------------------------------------------------------

    def add_unit(self, unit: Mapping[str, object]) -> None:
        """Store a finished unit, by the columns of the table, in one transaction."""
        values = ", ".join(f":{column}" for column in unit)
        sums = {**json.loads(str(unit["scores"])), **({"": (0.0, unit["judged"])} if unit["game"] else {})}
        with self._transaction():
            self.database.execute(f"INSERT INTO units ({', '.join(unit)}) VALUES ({values})", unit)
            self.database.executemany(
                "INSERT INTO sums VALUES (?, ?, ?, ?) ON CONFLICT (method, metric) "
                "DO UPDATE SET total = total + excluded.total, count = count + excluded.count",
                [(unit["method"], metric, *pair) for metric, pair in sums.items()],
            )

    def unfinished(
        self, methods: Sequence[str], metrics: Sequence[str], blocks: int
    ) -> Iterator[tuple[int, list[tuple[str, str, str]]]]:
        """Those of the first ``blocks`` blocks that may lack a unit: some of these methods with these metrics.

        Each comes with the units that it has: the method, its metrics as JSON, and the file of its maps if they are exact. Blocks are read one
        by one, as there may be millions.
        """
        query = """SELECT block FROM units WHERE metrics = ? AND method IN (SELECT value FROM json_each(?))
            GROUP BY block HAVING count(DISTINCT method) = ?"""  # usually all but the last ones
        wanted = json.dumps(list(metrics)), json.dumps(list(methods)), len(methods)
        finished = {block for (block,) in self.rows(query, *wanted)}
        left = [block for block in range(blocks) if block not in finished]
        query = "SELECT block, method, metrics, maps FROM units WHERE block >= ? ORDER BY block"
        with self._errors():
            rows = self.database.execute(query, left[:1] or [blocks])
            row = next(rows, None)
            for block in left:
                own = []
                while row is not None and row[0] <= block:
                    if row[0] == block:
                        own.append((row[1], row[2], row[3] if _EXACT in (row[3] or "") else ""))
                    row = next(rows, None)
                yield block, own

    def results(
        self, methods: Iterable[str]
    ) -> Iterator[tuple[str, int, str | None, float, dict[str, np.ndarray]]]:
        """Method, block, game, seconds and arrays of every unit of these methods, in the order in which they were stored."""
        from safetensors.numpy import load

        query = "SELECT method, block, game, seconds, results FROM units ORDER BY id"
        wanted = {*methods}
        with self._errors():
            for method, block, game, seconds, blob in self.database.execute(query):
                if method not in wanted:
                    continue
                try:
                    yield method, block, game, seconds, load(blob)
                except Exception as error:
                    raise damaged(self.path, f"a unit of {method} cannot be read ({error})") from error

    def gave_values(self, method: str) -> bool:
        """Whether the method has a value of some image."""
        return bool(self.rows("SELECT 1 FROM units WHERE method = ? AND judged > 0 LIMIT 1", method))

    def means(self) -> tuple[dict[str, dict[str, tuple[float, int]]], Counter[str]]:
        """The sums of the values so far with the numbers of images that count, by method and metric; and the images of each method."""
        sums: dict[str, dict[str, tuple[float, int]]] = {}
        for method, metric, total, count in self.rows("SELECT * FROM sums WHERE metric <> ''"):
            sums.setdefault(method, {})[metric] = (total, count)
        return sums, Counter(dict(self.rows("SELECT method, count FROM sums WHERE metric = ''")))

    def delete(self, units: Iterable[tuple[str, int]] = (), *, method: str = "") -> None:
        """Delete units by method and block, or all units of a method. The next run computes them again."""
        with self._transaction():
            self.database.executemany("DELETE FROM units WHERE method = ? AND block = ?", list(units))
            self.database.execute("DELETE FROM units WHERE method = ?", (method,))
        self.recount()

    def recount(self) -> None:
        """Compute the sums again from all units."""
        of = "total(json_extract(value, '$[0]')), sum(json_extract(value, '$[1]'))"
        with self._transaction():
            self.database.execute("DROP TABLE IF EXISTS sums")
            self.database.execute(_SUMS)
            self.database.execute(
                f"INSERT INTO sums SELECT method, key, {of} FROM units, json_each(scores) GROUP BY method, key"
            )
            # a unit that only adds metrics has no curves
            self.database.execute(
                "INSERT INTO sums SELECT method, '', 0, sum(judged) FROM units WHERE game IS NOT NULL GROUP BY method"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise
        if not self.is_in_place():
            raise StoreError(
                f"{self.path} was removed or replaced while this process wrote to it, so its results are lost. Leave the folder "
                "alone while a run works in it. Put the file back if you have it, and run the same command again"
            )


def _add(images: dict[str, ImageRow], rows: Iterable[ImageRow]) -> None:
    for row in rows:
        if row.name in images and images[row.name].failure is not None:
            del images[row.name]  # it could not be read before: its new row comes last
        images[row.name] = row


# ---- maps -----------------------------------------------------------------------------------------------------


def write_maps(folder: Path, maps: Tensor, images: Sequence[str], dtype: torch.dtype) -> str:
    """Store the maps ``(n, L, *positions)`` of these images in one file, atomically. L is 1 for a label-free method.

    In float16, each map is divided by a power of two, which is stored with it, so that neither large nor tiny values are lost. Returns the
    file's path in the run directory. It is named by a digest of its content, so no file is overwritten by another one.
    """
    from safetensors.torch import save

    positions = tuple(range(2, maps.ndim))
    scale = torch.ones(*maps.shape[:2], *[1] * len(positions))
    if dtype == torch.float16 and maps.numel():
        exponent = maps.abs().amax(dim=positions, keepdim=True).float().frexp().exponent
        scale = torch.exp2(exponent.float() - 15).clamp_min(2.0**-100)
    content = save(
        {"maps": (maps / scale).to(dtype).contiguous(), "scale": scale},
        metadata={"images": json.dumps(list(images))},
    )
    name = f"{MAPS}/{digest_of(content)}{_EXACT if dtype == torch.float32 else ''}.safetensors"
    with writing(folder / name):
        if not (folder / MAPS).is_dir():
            (folder / MAPS).mkdir()
            sync_folder(folder)
        with atomic_write(folder / name) as part:
            part.write_bytes(content)
    return name


def read_maps(folder: Path, name: str, images: Sequence[str]) -> dict[str, Tensor]:
    """The stored maps ``(L, *positions)``, float32, of those images that are in the file. Raises if its content is not what was written."""
    from safetensors.torch import load

    path = folder / MAPS / Path(name).name
    try:
        if path.exists() and not path.is_file():  # a pipe may never end
            raise damaged(path, "it is not a regular file")
        content = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    if digest_of(content) != path.name.partition(".")[0]:
        raise damaged(path, "its content is not what was written")
    # the JSON header comes after 8 bytes with its length
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    place = {image: k for k, image in enumerate(json.loads(header["__metadata__"]["images"]))}
    stored, found = load(content), [image for image in images if image in place]
    return {one: stored["maps"][place[one]].float() * stored["scale"][place[one]] for one in found}
