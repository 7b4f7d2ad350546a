"""The database of a run, in SQLite: surveyed pictures, finished units, every value, and failures.

A unit (one method on one block of images) is written in one transaction, so after a crash it is stored completely or not at all.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proofmap.core.files import parse_json
from proofmap.results.statistics import RunScore
from proofmap.study.store.connection import Connection
from proofmap.study.store.errors import damaged
from proofmap.study.store.records import ImageRow, Registered, UnitRow
from proofmap.study.store.schema import is_sealed, seal_of

FILE = "scores.sqlite"
SEALED = {
    "labels": ("label", "name"),
    "notes": ("key", "value"),
    "run_scores": ("metric", "subject", "value", "n", "higher_is_better", "settings", "kind"),
    "methods": ("name", "label_free", "settings", "kind"),
    "metrics": ("name", "higher_is_better", "settings", "kind", "least", "greatest"),
}
"""The tables whose rows have a seal (a digest of the row), and the columns that the seal covers."""

_SURVEYED = ("name", "digest", "truth", "true_labels", "eligible", "failure")
"""The columns that the seal of a picture covers, in addition to its labels. The other columns, stamp and block, may change later."""


class Store(Connection):
    """The database of one run directory."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        super().__init__(folder / FILE, create=create)

    def sealed(self, table: str, rest: str = "", *arguments: object, also: str = "") -> list[tuple[Any, ...]]:
        """The rows of a table in ``SEALED``, each checked against its seal.

        ``rest`` is SQL after the table's name, such as a WHERE clause. ``also`` names one more column, which is put first.
        """
        columns = SEALED[table]
        selected = [*([also] if also else []), *columns, "seal"]
        found = []
        for *row, seal in self.rows(f"SELECT {', '.join(selected)} FROM {table} {rest}", *arguments):
            if not is_sealed(seal, row[-len(columns) :]):
                raise damaged(self.path, f"a row of {table} is not what was written")
            found.append(tuple(row))
        return found

    def _insert(self, table: str, rows: Iterable[Sequence[object]], conflict: str = "") -> None:
        """Insert rows into a table in ``SEALED``, with their seals. ``conflict`` is SQL such as ``OR IGNORE``."""
        columns = (*SEALED[table], "seal")
        self.database.executemany(
            f"INSERT {conflict} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            [(*row, seal_of(row)) for row in rows],
        )

    # ---- notes, methods, metrics, labels ------------------------------------------------------------------------

    def note(self, key: str) -> object | None:
        found = self.sealed("notes", "WHERE key = ?", key)
        return self._parsed(found[0][1]) if found else None

    def set_note(self, key: str, value: object) -> None:
        with self._transaction():
            self._insert("notes", [(key, json.dumps(value))], "OR REPLACE")

    def _parsed(self, text: str) -> Any:
        try:
            return parse_json(text)
        except ValueError as error:
            raise damaged(self.path, str(error)) from error

    def registered(self, table: str) -> dict[str, Registered]:
        """The run's ``methods`` or ``metrics`` by name, in the order they were added."""
        return {
            name: Registered(id_, name, bool(flag), self._parsed(settings), *more)
            for id_, name, flag, settings, *more in self.sealed(table, "ORDER BY id", also="id")
        }

    def register(self, table: str, things: Iterable[Registered]) -> None:
        """Add those ``methods`` or ``metrics`` whose names are not in the table yet. They get new ids."""
        limits = table == "metrics"
        rows = [
            (
                *(
                    thing.name,
                    int(thing.flag),
                    json.dumps(thing.settings, sort_keys=True, default=str),
                    thing.kind,
                ),
                *((thing.least, thing.greatest) if limits else ()),
            )
            for thing in things
        ]
        with self._transaction():
            self._insert(table, rows, "OR IGNORE")

    def run_scores(self) -> list[RunScore]:
        """The scores of the run as a whole, computed when the run ended."""
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
        """Replace all scores of the run as a whole."""
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
            self._insert("run_scores", rows)

    def label_names(self) -> tuple[str, ...]:
        """The names of the net's outputs, in order."""
        found = self.sealed("labels", "ORDER BY label")
        if [label for label, _ in found] != list(range(len(found))):
            raise damaged(self.path, "a row of labels is missing")
        return tuple(name for _, name in found)

    def set_label_names(self, names: Sequence[str]) -> None:
        with self._transaction():
            self._insert("labels", enumerate(names), "OR IGNORE")

    # ---- images and blocks --------------------------------------------------------------------------------------

    def images(self) -> list[ImageRow]:
        """The rows of all surveyed pictures, in the order of the survey."""
        labels: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for image, label, f in self.rows("SELECT image, label, f FROM image_labels ORDER BY image, place"):
            labels[image].append((label, f))
        found = self.rows(f"SELECT id, stamp, block, seal, {', '.join(_SURVEYED)} FROM images ORDER BY id")
        images = []
        for id_, stamp, block, seal, *surveyed in found:
            name, digest, _, true_labels, eligible, failure = surveyed
            if not is_sealed(seal, [*surveyed, labels[id_]]):
                raise damaged(self.path, f"what is stored of the picture {name} is not what was written")
            image = ImageRow(
                name=name,
                digest=digest,
                stamp=stamp,
                true_labels=tuple(json.loads(true_labels)),
                eligible=bool(eligible),
                labels=tuple(label for label, _ in labels[id_]),
                f=tuple(f for _, f in labels[id_]),
                failure=failure,
                block=block,
                id=id_,
            )
            images.append(image)
        return images

    def add_images(self, images: Iterable[ImageRow]) -> None:
        with self._transaction():
            for image in images:
                self.database.execute(
                    "DELETE FROM images WHERE name = ? AND failure IS NOT NULL", (image.name,)
                )
                labels = [(label, f + 0.0) for label, f in zip(image.labels, image.f, strict=True)]
                true_labels = json.dumps(image.true_labels)
                surveyed = (
                    image.name,
                    image.digest,
                    image.truth,
                    true_labels,
                    int(image.eligible),
                    image.failure,
                )
                cursor = self.database.execute(
                    f"INSERT INTO images ({', '.join(_SURVEYED)}, stamp, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (*surveyed, image.stamp, seal_of([*surveyed, labels])),
                )
                self.database.executemany(
                    "INSERT INTO image_labels VALUES (?, ?, ?, ?)",
                    [(cursor.lastrowid, place, *pair) for place, pair in enumerate(labels)],
                )

    def set_stamps(self, stamps: Mapping[str, str]) -> None:
        with self._transaction():
            pairs = [(stamp, name) for name, stamp in stamps.items()]
            self.database.executemany("UPDATE images SET stamp = ? WHERE name = ?", pairs)

    def add_blocks(self, blocks: Sequence[Sequence[int]]) -> None:
        """Create new blocks, each given as the ids of its images."""
        with self._transaction():
            (last,) = self.database.execute("SELECT coalesce(max(block), -1) FROM images").fetchone()
            self.database.executemany(
                "UPDATE images SET block = ? WHERE id = ?",
                [(last + 1 + k, image) for k, members in enumerate(blocks) for image in members],
            )

    # ---- units --------------------------------------------------------------------------------------------------

    def done(self, method: int, block: int) -> dict[int, str]:
        """The metrics with which a method has finished a block, each with its unit's key: a digest of everything that affects the maps.

        Methods, blocks and metrics are given by id. All at once would be gigabytes of memory in a run of millions of units.
        """
        query = "SELECT metric, key FROM done JOIN units ON units.id = unit WHERE done.method = ? AND done.block = ?"
        return dict(self.rows(query, method, block))

    def blocks_done(self, method: int, metric: int) -> set[int]:
        """The blocks that a method has finished with a metric."""
        rows = self.rows("SELECT block FROM done WHERE method = ? AND metric = ?", method, metric)
        return {block for (block,) in rows}

    def delete_orphans(self) -> None:
        """Delete rows that belong to no finished unit."""
        owned = "SELECT 1 FROM done JOIN images ON images.block = done.block WHERE images.id = {0}.image AND "
        with self._transaction():
            for table in ("done", "failures"):
                self.database.execute(f"DELETE FROM {table} WHERE unit NOT IN (SELECT id FROM units)")
            for table in ("image_scores", "label_scores"):
                same = f"done.method = {table}.method AND done.metric = {table}.metric"
                self.database.execute(f"DELETE FROM {table} WHERE NOT EXISTS ({owned.format(table)}{same})")

    def add_unit(self, unit: UnitRow) -> None:
        """Store a finished unit in one transaction."""
        image_scores = sorted((metric, image, _stored(value)) for metric, image, value in unit.image_scores)
        label_scores = sorted((*place, _stored(value)) for *place, value in unit.label_scores)
        about = (unit.method, unit.block, unit.key, unit.environment, json.dumps(unit.batches), unit.seconds)
        maps = (unit.maps, unit.maps_bytes, unit.maps_digest)
        with self._transaction():
            many, method = self.database.executemany, unit.method
            cursor = self.database.execute(
                "INSERT INTO units (method, block, key, environment, batches, seconds, passes, maps, maps_bytes, "
                "maps_digest, finished, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*about, unit.passes, *maps, unit.finished, seal_of([image_scores, label_scores])),
            )
            number = cursor.lastrowid
            many(
                "INSERT INTO done VALUES (?, ?, ?, ?)",
                [(method, unit.block, metric, number) for metric in unit.metrics],
            )
            many("INSERT INTO image_scores VALUES (?, ?, ?, ?)", [(method, *row) for row in image_scores])
            many("INSERT INTO label_scores VALUES (?, ?, ?, ?, ?)", [(method, *row) for row in label_scores])
            curves = [(method, image, *curve) for image, curve in unit.curves.items()]
            many(
                "INSERT OR IGNORE INTO curves VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*row, seal_of(row)) for row in curves],
            )
            many(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)",
                [(method, image, number, reason) for image, reason in unit.failures.items()],
            )

    def delete_units(self, units: Sequence[int]) -> None:
        """Delete these finished units and all other units of the same method and block. The next run computes them again."""
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
        """Delete a method and all its results from the database. Its files of maps are left, unused."""
        with self._transaction():
            (id_,) = self.database.execute("SELECT id FROM methods WHERE name = ?", (name,)).fetchone()
            for table in ("image_scores", "label_scores", "curves", "failures", "done", "units"):
                self.database.execute(f"DELETE FROM {table} WHERE method = ?", (id_,))
            self.database.execute("DELETE FROM methods WHERE id = ?", (id_,))
            self.database.execute("DELETE FROM run_scores")  # they were about all methods


def _stored(value: float) -> float | None:
    """A value as SQLite returns it: NaN is NULL, and -0.0 is 0.0."""
    return None if math.isnan(value) else value + 0.0
