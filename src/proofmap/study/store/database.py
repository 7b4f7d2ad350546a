"""The scores of a run, in SQLite: what was surveyed, what is done, every value, and what failed.

One process writes (it holds the run's lock); any number may read at the same time. A unit's values go in within one
transaction, so after a crash a unit is stored completely or not at all.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proofmap.results.statistics import RunScore
from proofmap.study.store import schema
from proofmap.study.store.errors import Damaged, StoreError, damaged, disk_full
from proofmap.study.store.records import (
    ImageRow,
    Registered,
    UnitRow,
    blobs_digest,
    curve_blobs,
    image_seal,
    is_digest,
    values_digest,
)
from proofmap.study.store.schema import seal_of
from proofmap.study.store.snapshot import copied, log_of

FILE = "scores.sqlite"
SEALED = {
    "labels": ("label", "name"),
    "notes": ("key", "value"),
    "run_scores": ("metric", "subject", "value", "n", "higher_is_better", "settings", "kind"),
    "methods": ("name", "label_free", "settings"),
    "metrics": ("name", "higher_is_better", "settings", "kind"),
}
"""Tables whose rows have a seal, and the columns in its order."""


class Store:
    """The database of one run directory."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.path = folder / FILE
        if not (create or self.path.is_file()):
            raise StoreError(f"{folder} is not a run directory of proofmap: it has no {FILE}")
        self.read_only = not (create or (os.access(folder, os.W_OK) and os.access(self.path, os.W_OK)))
        self._copy: TemporaryDirectory[str] | None = None
        try:
            with self._store_errors():
                self.database = self._opened(create)
                self._prepare(create)
        except BaseException:
            self.close()
            raise

    def _opened(self, create: bool) -> sqlite3.Connection:
        if not self.read_only:
            return self._connect(self.path, "rwc" if create else "rw")
        if not log_of(self.path).exists():
            # the file alone has everything, and SQLite needs no files of its own beside it
            database = self._connect(self.path, "ro&immutable=1")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version >= len(schema.MIGRATIONS):
                return database
            database.close()
        self._copy = copied(self.path)
        return self._connect(Path(self._copy.name, FILE), "rw")

    @staticmethod
    def _connect(path: Path, mode: str) -> sqlite3.Connection:
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        return sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False
        )  # one thread at a time, but not always the same one

    def _prepare(self, create: bool) -> None:
        (application,) = self.database.execute("PRAGMA application_id").fetchone()
        (tables,) = self.database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != schema.APPLICATION:
            raise Damaged(f"{self.path} is a database, but not one of proofmap")
        if not tables and not create:
            raise StoreError(f"{self.path} is empty: the run was stopped before it stored anything")
        if not self.read_only:
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = FULL")  # a power cut takes back no finished unit
        if not self.read_only or self._copy is not None:
            schema.migrate(self.database)
        if self.read_only:
            self.database.execute("PRAGMA query_only = ON")

    def close(self) -> None:
        if hasattr(self, "database"):  # it may not have been opened
            self.database.close()
        if self._copy is not None:
            self._copy.cleanup()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of SQLite and the disk into ones that name the file and the fix."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise damaged(self.path, str(error)) from error
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "full" in text or "disk I/O" in text:
                raise disk_full(self.path, text) from error
            if "locked" in text:
                raise StoreError(f"{self.path} is in use by another program: {text}") from error
            if "readonly" in text or "unable to open" in text:
                raise StoreError(f"{self.path} cannot be opened for writing: {text}") from error
            if isinstance(error, sqlite3.ProgrammingError):
                raise
            raise damaged(self.path, text) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._store_errors():
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read within is of one moment, while another process may go on writing."""
        with self._store_errors():
            self.database.execute("BEGIN")
        try:
            yield
        finally:
            self.database.execute("ROLLBACK")

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._store_errors():
            return self.database.execute(query, arguments).fetchall()

    def sealed(self, table: str, rest: str = "", *arguments: object, also: str = "") -> list[tuple[Any, ...]]:
        """Rows of a table of ``SEALED``, each checked against its seal; ``also`` names columns to put in front."""
        columns = SEALED[table]
        selected = [*([also] if also else []), *columns, "seal"]
        found = []
        for *row, seal in self.rows(f"SELECT {', '.join(selected)} FROM {table} {rest}", *arguments):
            if not is_digest(seal, seal_of, row[-len(columns) :]):
                raise damaged(self.path, f"a row of {table} is not what was written")
            found.append(tuple(row))
        return found

    # ---- notes, methods, metrics, labels ------------------------------------------------------------------------

    def note(self, key: str) -> object | None:
        found = self.sealed("notes", "WHERE key = ?", key)
        return self._parsed(found[0][1]) if found else None

    def set_note(self, key: str, value: object) -> None:
        with self._transaction():
            row = (key, json.dumps(value))
            self.database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (*row, seal_of(row)))

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise damaged(self.path, str(error)) from error

    def registered(self, table: str) -> dict[str, Registered]:
        """The run's ``methods`` or ``metrics`` by name, in the order they were added."""
        return {
            name: Registered(id_, name, bool(flag), self._parsed(settings), *kind)
            for id_, name, flag, settings, *kind in self.sealed(table, "ORDER BY id", also="id")
        }

    def register(self, table: str, things: Iterable[tuple[str, bool, Mapping[str, object], str]]) -> None:
        """Add methods or metrics that are not there yet: name, flag, settings and kind (which methods do not have)."""
        columns = SEALED[table]
        rows = [
            (name, int(flag), json.dumps(settings, sort_keys=True, default=str), kind)[: len(columns)]
            for name, flag, settings, kind in things
        ]
        with self._transaction():
            self.database.executemany(
                f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}, seal) "
                f"VALUES (?{', ?' * len(columns)})",
                [(*row, seal_of(row)) for row in rows],
            )

    def run_scores(self) -> list[RunScore]:
        """Numbers about the run as a whole, as its end left them."""
        return [
            RunScore(
                name,
                subject,
                math.nan if value is None else value,
                n,
                bool(higher),
                self._parsed(settings),
                kind,
            )
            for name, subject, value, n, higher, settings, kind in self.sealed(
                "run_scores", "ORDER BY metric, subject"
            )
        ]

    def set_run_scores(self, scores: Sequence[RunScore]) -> None:
        """Put these in place of all that were there."""
        rows = [
            (
                *(score.name, score.subject, None if math.isnan(score.value) else score.value, score.n),
                *(int(score.higher_is_better), json.dumps(dict(score.settings), sort_keys=True, default=str)),
                score.kind,
            )
            for score in scores
        ]
        with self._transaction():
            self.database.execute("DELETE FROM run_scores")
            self.database.executemany(
                f"INSERT INTO run_scores ({', '.join(SEALED['run_scores'])}, seal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(*row, seal_of(row)) for row in rows],
            )

    def label_names(self) -> tuple[str, ...]:
        """The names of the net's outputs, in order."""
        found = self.sealed("labels", "ORDER BY label")
        if [label for label, _ in found] != list(range(len(found))):
            raise damaged(self.path, "a row of labels is missing")
        return tuple(name for _, name in found)

    def set_label_names(self, names: Sequence[str]) -> None:
        with self._transaction():
            self.database.executemany(
                "INSERT OR IGNORE INTO labels VALUES (?, ?, ?)",
                [(*row, seal_of(row)) for row in enumerate(names)],
            )

    # ---- images and blocks --------------------------------------------------------------------------------------

    def images(self) -> list[ImageRow]:
        """Every picture surveyed, in order."""
        labels: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for image, label, f in self.rows("SELECT image, label, f FROM image_labels ORDER BY image, place"):
            labels[image].append((label, f))
        found = self.rows(
            "SELECT id, name, digest, stamp, truth, eligible, block, failure, seal FROM images ORDER BY id"
        )
        images = []
        for id_, name, digest, stamp, truth, eligible, block, failure, seal in found:
            image = ImageRow(
                name=name,
                digest=digest,
                stamp=stamp,
                truth=truth,
                eligible=bool(eligible),
                labels=tuple(label for label, _ in labels[id_]),
                f=tuple(f for _, f in labels[id_]),
                failure=failure,
                block=block,
                id=id_,
            )
            if not is_digest(seal, image_seal, image):
                raise damaged(self.path, f"what is stored of the picture {name} is not what was written")
            images.append(image)
        return images

    def add_images(self, images: Iterable[ImageRow]) -> None:
        with self._transaction():
            for image in images:
                self.database.execute(
                    "DELETE FROM images WHERE name = ? AND failure IS NOT NULL", (image.name,)
                )
                cursor = self.database.execute(
                    "INSERT INTO images (name, digest, stamp, truth, eligible, failure, seal) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(image.name, image.digest, image.stamp),
                        *(image.truth, image.eligible, image.failure),
                        image_seal(image),
                    ),
                )
                self.database.executemany(
                    "INSERT INTO image_labels VALUES (?, ?, ?, ?)",
                    [
                        (cursor.lastrowid, place, label, f)
                        for place, (label, f) in enumerate(zip(image.labels, image.f, strict=True))
                    ],
                )

    def set_stamps(self, stamps: Mapping[str, str]) -> None:
        with self._transaction():
            pairs = [(stamp, name) for name, stamp in stamps.items()]
            self.database.executemany("UPDATE images SET stamp = ? WHERE name = ?", pairs)

    def add_blocks(self, blocks: Sequence[Sequence[int]]) -> None:
        """Put images, by id, into new blocks."""
        with self._transaction():
            (last,) = self.database.execute("SELECT coalesce(max(block), -1) FROM images").fetchone()
            self.database.executemany(
                "UPDATE images SET block = ? WHERE id = ?",
                [(last + 1 + k, image) for k, members in enumerate(blocks) for image in members],
            )

    # ---- units --------------------------------------------------------------------------------------------------

    def done(self) -> dict[tuple[int, int, int], str]:
        """(method, block, metric) of everything finished, and the key of what it was made from."""
        query = "SELECT d.method, d.block, d.metric, units.key FROM done d JOIN units ON units.id = d.unit"
        return {(method, block, metric): key for method, block, metric, key in self.rows(query)}

    def delete_orphans(self) -> None:
        """Delete what belongs to no finished unit."""
        owned = "SELECT 1 FROM done JOIN images ON images.block = done.block WHERE images.id = {0}.image AND "
        with self._transaction():
            for table in ("done", "failures"):
                self.database.execute(f"DELETE FROM {table} WHERE unit NOT IN (SELECT id FROM units)")
            for table in ("image_scores", "label_scores"):
                same = f"done.method = {table}.method AND done.metric = {table}.metric"
                self.database.execute(f"DELETE FROM {table} WHERE NOT EXISTS ({owned.format(table)}{same})")

    def add_unit(self, unit: UnitRow) -> None:
        """Store a finished unit in one transaction."""
        digest = values_digest(unit.image_scores, unit.label_scores)
        about = (unit.method, unit.block, unit.key, unit.environment, json.dumps(unit.batches), unit.seconds)
        maps = (unit.maps, unit.maps_bytes, unit.maps_digest)
        with self._transaction():
            run = self.database.execute
            many = self.database.executemany
            cursor = run(
                "INSERT INTO units (method, block, key, environment, batches, seconds, passes, maps, maps_bytes, "
                "maps_digest, digest, finished) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*about, unit.passes, *maps, digest, unit.finished),
            )
            number, method = cursor.lastrowid, unit.method
            many(
                "INSERT INTO done VALUES (?, ?, ?, ?)",
                [(method, unit.block, k, number) for k in unit.metrics],
            )
            many(
                "INSERT INTO image_scores VALUES (?, ?, ?, ?)",
                [(method, metric, image, value) for metric, image, value in unit.image_scores],
            )
            many(
                "INSERT INTO label_scores VALUES (?, ?, ?, ?, ?)",
                [(method, metric, image, place, value) for metric, image, place, value in unit.label_scores],
            )
            many(
                "INSERT OR IGNORE INTO curves VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (method, image, curve.game, *blobs, blobs_digest(curve.game, blobs))
                    for image, curve, blobs in (
                        (i, curve, curve_blobs(curve)) for i, curve in unit.curves.items()
                    )
                ],
            )
            many(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)",
                [(method, image, number, reason) for image, reason in unit.failures.items()],
            )

    def delete_units(self, units: Sequence[int]) -> None:
        """Delete finished units, with every unit of the same method and block: all of it will be computed again."""
        with self._transaction():
            for unit in units:
                found = self.database.execute(
                    "SELECT method, block FROM units WHERE id = ?", (unit,)
                ).fetchone()
                if found is None:
                    continue
                method, block = found
                members = "SELECT id FROM images WHERE block = ?"
                for table in ("image_scores", "label_scores", "curves", "failures"):
                    self.database.execute(
                        f"DELETE FROM {table} WHERE method = ? AND image IN ({members})", (method, block)
                    )
                for table in ("done", "units"):
                    self.database.execute(
                        f"DELETE FROM {table} WHERE method = ? AND block = ?", (method, block)
                    )

    def delete_method(self, name: str) -> None:
        """Delete a method with everything that was computed by it; its files of maps are then unused."""
        with self._transaction():
            (id_,) = self.database.execute("SELECT id FROM methods WHERE name = ?", (name,)).fetchone()
            for table in ("image_scores", "label_scores", "curves", "failures", "done", "units"):
                self.database.execute(f"DELETE FROM {table} WHERE method = ?", (id_,))
            self.database.execute("DELETE FROM methods WHERE id = ?", (id_,))
            self.database.execute("DELETE FROM run_scores")  # they were about all methods

    def checkpoint(self) -> None:
        """Write everything into the one file, so that it can be copied alone."""
        with self._store_errors():
            self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
