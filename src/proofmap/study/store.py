"""A run directory: ``run.json``, ``images.jsonl``, ``scores.sqlite`` with one table of finished units, and ``maps``.

A unit is one method on one block of images. What is in the table is finished. A unit is written in one transaction, after the file of its
maps is on the disk, so a process that is killed at any moment leaves it complete or not at all. One process writes and holds the lock of
the directory. Any number of processes may read at the same time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
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
LOCK = "lock"
_EXACT = ".float32"  # in the name of a file whose maps are equal to the last bit to what the method made

_CHECKED_BYTES = 256_000_000  # a database of at most this size is checked when it is opened
_TABLE = """
BEGIN IMMEDIATE;
CREATE TABLE units (
    id INTEGER PRIMARY KEY,
    block INTEGER NOT NULL,         -- the images; run.json says how many are in a block
    method TEXT NOT NULL,
    metrics TEXT NOT NULL,          -- JSON list of names
    maps TEXT,                      -- the file of the maps
    failures TEXT,                  -- JSON object: image -> reason
    judged INTEGER NOT NULL,        -- number of images with values
    seconds REAL NOT NULL,
    passes INTEGER NOT NULL,
    results BLOB NOT NULL           -- safetensors: all values and curves, with a row for each image of the block
);
CREATE INDEX work ON units (block, method, metrics, maps);
CREATE INDEX failed ON units (method, block) WHERE failures IS NOT NULL;
COMMIT;
"""


class StoreError(ProofmapError):
    """A run directory cannot be read or written."""


class RunBusy(ProofmapError):
    """Another process writes to this run directory."""


def damaged(path: Path, text: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {text}. Put the file back if you have a copy; or remove it, and the command that made the run computes what "
        "it held again"
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


def _lock(folder: Path) -> sqlite3.Connection | None:
    """The lock of a run directory, or None if another process held it for half a second."""
    path = folder / LOCK
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)  # a holder that was refused may have removed it
        path.touch()
        file = os.stat(path)
    lock = sqlite3.connect(path, timeout=0.5, isolation_level=None)
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        lock.close()
        if "locked" in str(error):
            return None
        raise StoreError(f"{path} cannot be written: {error}") from error
    if _is_at(path, file):
        return lock
    lock.close()  # the holder was refused, and removed the file
    return _lock(folder)


def _is_at(path: Path, file: os.stat_result) -> bool:
    """Whether an open file is still the file at this path."""
    with suppress(OSError):
        return os.path.samestat(os.stat(path), file)
    return False


# ---- the records ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageRow:
    """One image of a run, as the survey found it before methods are judged.

    ``labels`` are the labels to judge and ``f`` their probabilities, most probable first unless the labels were listed by the user.
    ``stamp`` changes when the file changes, ``boxes`` is a digest of its annotated objects, ``eligible`` says whether the image passes the
    study's selection, and ``failure`` says why it cannot be read."""

    name: str
    digest: str
    stamp: str
    boxes: str = ""
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
        writable = os.access(folder, os.W_OK) and os.access(self.path, os.W_OK)
        mode = "rwc" if write else "rw" if writable else "ro"
        with self._errors():
            uri = f"{self.path.resolve().as_uri()}?mode={mode}"
            self.database = sqlite3.connect(
                uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False
            )
        try:
            with self._errors():
                self._prepare()
            self._file = os.stat(self.path)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        tables = {name for (name,) in self.rows("SELECT name FROM sqlite_master")}
        if tables and "units" not in tables:
            raise StoreError(
                f"{self.path} is a database, but not one of proofmap; choose another --out, or the folder of a run"
            )
        if not tables and not self._write:
            raise StoreError(f"{self.path} is empty: the run was stopped before it stored anything")
        if tables and self.path.stat().st_size <= _CHECKED_BYTES:
            ((answer,),) = self.rows("PRAGMA quick_check(1)")
            if answer != "ok":
                raise damaged(self.path, answer)
        if self._write:
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = FULL")  # a power cut takes back no finished unit
            if not tables:
                self.database.executescript(_TABLE)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    @contextmanager
    def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
        """Hold the lock of a run directory. If another process holds it, raise :class:`RunBusy`, or ``wait`` for it.

        The lock is one of SQLite on an empty file: it works on every system, and ends with the process that holds it.
        """
        while (lock := _lock(folder)) is None:
            if not wait:
                raise RunBusy(
                    f"another process is working on {folder} (its number is in progress.json). Wait for it with --wait, or choose another --out"
                )
        with closing(lock):
            yield

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite into errors that name the file and the fix."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text, doing = str(error), "written" if self._write else "read"
            if not any(word in text for word in ("full", "disk I/O", "readonly", "unable to open", "locked")):
                raise damaged(self.path, text) from error
            mend = {
                "written": "What is finished is safe: make room, or end the program that uses the file, and run the same command again",
                "read": "SQLite needs some room for that, in a folder that is not read-only: make room, or read a copy of the run",
            }
            raise StoreError(f"{self.path} cannot be {doing}: {text}. {mend[doing]}") from error

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._errors():
            return self.database.execute(query, arguments).fetchall()

    def is_in_place(self) -> bool:
        """Whether the open database is still the file at its path. What is written to a removed file is lost."""
        return _is_at(self.path, self._file)

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
        """Add images to the file. One that is there gets the new row; if it could not be read, it moves to the end."""
        rows, path, known = list(images), self.folder / IMAGES, self._images
        with writing(path), open(path, "ab") as file:
            file.write("".join(f"{json.dumps(asdict(row))}\n" for row in rows).encode())
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
        complete = content.rfind(b"\n") + 1
        if self._write and complete < len(content):  # left by a process that was killed
            with writing(path):
                os.truncate(path, complete)
        try:
            for row in json.loads(
                b"[%s]" % b",".join(content[:complete].splitlines())
            ):  # at once: there may be a million
                lists = {key: tuple(row[key]) for key in ("true_labels", "labels", "f")}
                _add(found, [ImageRow(**{**row, **lists})])
        except (ValueError, TypeError, KeyError) as error:
            raise damaged(path, str(error)) from None
        return found

    # ---- units --------------------------------------------------------------------------------------------------

    def add_unit(self, unit: Mapping[str, object]) -> None:
        """Store a finished unit, by the columns of the table, in one transaction."""
        values = ", ".join(f":{column}" for column in unit)
        with self._transaction():
            self.database.execute(f"INSERT INTO units ({', '.join(unit)}) VALUES ({values})", unit)

    def delete(self, units: Iterable[tuple[str, int]] = (), *, method: str = "") -> None:
        """Delete units by method and block, or all units of a method. The next run computes them again."""
        with self._transaction():
            self.database.executemany("DELETE FROM units WHERE method = ? AND block = ?", list(units))
            self.database.execute("DELETE FROM units WHERE method = ?", (method,))

    def has_values(self, method: str = "") -> bool:
        """Whether the method, or any method, has a value of some image."""
        query = "SELECT 1 FROM units WHERE judged > 0 AND (method = ? OR ? = '') LIMIT 1"
        return bool(self.rows(query, method, method))

    def unfinished(
        self, methods: Sequence[str], metrics: Sequence[str], blocks: int
    ) -> dict[int, dict[str, tuple[frozenset[str], str]]]:
        """Those of the first ``blocks`` blocks that may lack a unit of these methods with these metrics.

        For each method of such a block: the metrics that it has, and the file of its maps if they are exact.
        """
        query = """SELECT block FROM units WHERE metrics = ? AND method IN (SELECT value FROM json_each(?))
            GROUP BY block HAVING count(DISTINCT method) = ?"""  # usually all but the last ones
        wanted = json.dumps(list(metrics)), json.dumps(list(methods)), len(methods)
        finished = {block for (block,) in self.rows(query, *wanted)}
        left: dict[int, dict[str, tuple[frozenset[str], str]]] = {
            block: {} for block in range(blocks) if block not in finished
        }
        query = "SELECT block, method, metrics, maps FROM units WHERE block >= ? ORDER BY block, method"
        with self._errors():
            for block, method, names, maps in self.database.execute(query, (min(left, default=blocks),)):
                if block in left:
                    done, exact = left[block].get(method, (frozenset(), ""))
                    file = maps if maps and _EXACT in maps else exact
                    left[block][method] = done | frozenset(json.loads(names)), file
        return left

    def results(self, methods: Iterable[str]) -> Iterator[tuple[str, int, float, dict[str, np.ndarray]]]:
        """Method, block, seconds and arrays of every unit of these methods, in the order in which they were stored."""
        from safetensors.numpy import load

        query = "SELECT method, block, seconds, results FROM units WHERE method IN (SELECT value FROM json_each(?)) ORDER BY id"
        with self._errors():
            for method, block, seconds, blob in self.database.execute(query, (json.dumps(list(methods)),)):
                try:
                    yield method, block, seconds, load(blob)
                except Exception as error:
                    raise damaged(self.path, f"a unit of {method} cannot be read ({error})") from error

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

    def write_maps(self, maps: Tensor, images: Sequence[str], dtype: torch.dtype) -> str:
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
        with writing(self.folder / name):
            if not (self.folder / MAPS).is_dir():
                (self.folder / MAPS).mkdir()
                sync_folder(self.folder)
            with atomic_write(self.folder / name) as part:
                part.write_bytes(content)
        return name


def _add(images: dict[str, ImageRow], rows: Iterable[ImageRow]) -> None:
    for row in rows:
        if row.name in images and images[row.name].failure is not None:
            del images[row.name]  # it could not be read before: its new row comes last
        images[row.name] = row


# ---- maps -----------------------------------------------------------------------------------------------------


def read_maps(folder: Path, name: str, images: Sequence[str]) -> dict[str, Tensor]:
    """The stored maps ``(L, *positions)``, float32, of those images that are in the file. Raises if its content is not what was written."""
    from safetensors.torch import load

    path = folder / MAPS / Path(name).name
    try:
        if path.exists() and not path.is_file():  # a pipe may never end
            raise damaged(path, "it is not a regular file")
        content = path.read_bytes()
    except OSError as error:
        raise damaged(
            path, "it is missing" if isinstance(error, FileNotFoundError) else str(error.strerror)
        ) from None
    if digest_of(content) != path.name.partition(".")[0]:
        raise damaged(path, "its content is not what was written")
    # the JSON header comes after 8 bytes with its length
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    place = {image: k for k, image in enumerate(json.loads(header["__metadata__"]["images"]))}
    stored, found = load(content), [image for image in images if image in place]
    return {one: stored["maps"][place[one]].float() * stored["scale"][place[one]] for one in found}
