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

FILE = "scores.sqlite"
_COLUMNS = {
    "labels": ("label", "name"),
    "notes": ("key", "value"),
    "run_scores": ("metric", "subject", "value", "n", "higher_is_better", "settings", "kind"),
    "methods": ("name", "label_free", "settings", "kind"),
    "metrics": ("name", "higher_is_better", "settings", "kind", "least", "greatest"),
}
"""The columns of these tables that are read and written, apart from ids."""

_SURVEYED = ("name", "digest", "stamp", "truth", "true_labels", "eligible", "failure")
"""The columns that the survey of a picture fills."""


class Store(Connection):
    """The database of one run directory."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        super().__init__(folder / FILE, create=create)

    def _insert(self, table: str, rows: Iterable[Sequence[object]], conflict: str = "") -> None:
        """Insert rows into a table in ``_COLUMNS``. ``conflict`` is SQL such as ``OR IGNORE``."""
        columns = _COLUMNS[table]
        self.database.executemany(
            f"INSERT {conflict} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            rows,
        )

    def _select(self, table: str, order: str, also: str = "") -> list[tuple[Any, ...]]:
        """The rows of a table in ``_COLUMNS``, in this order. ``also`` names one more column, which is put first."""
        return self.rows(f"SELECT {also}{', '.join(_COLUMNS[table])} FROM {table} ORDER BY {order}")

    # ---- notes, methods, metrics, labels ------------------------------------------------------------------------

    def note(self, key: str) -> object | None:
        found = self.rows("SELECT value FROM notes WHERE key = ?", key)
        return self._parsed(found[0][0]) if found else None

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
            for id_, name, flag, settings, *more in self._select(table, "id", also="id, ")
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
            for name, subject, value, n, higher, settings, kind in self._select(
                "run_scores", "metric, subject"
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
        found = self._select("labels", "label")
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
        found = self.rows(f"SELECT id, block, {', '.join(_SURVEYED)} FROM images ORDER BY id")
        images = []
        for id_, block, name, digest, stamp, _, true_labels, eligible, failure in found:
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
                    image.stamp,
                    image.truth,
                    true_labels,
                    int(image.eligible),
                    image.failure,
                )
                cursor = self.database.execute(
                    f"INSERT INTO images ({', '.join(_SURVEYED)}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    surveyed,
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

    def add_unit(self, unit: UnitRow) -> None:
        """Store a finished unit in one transaction."""
        about = (unit.method, unit.block, unit.key, unit.environment, json.dumps(unit.batches), unit.seconds)
        maps = (unit.maps, unit.maps_bytes)
        with self._transaction():
            many, method = self.database.executemany, unit.method
            cursor = self.database.execute(
                "INSERT INTO units (method, block, key, environment, batches, seconds, passes, maps, maps_bytes, finished) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*about, unit.passes, *maps, unit.finished),
            )
            number = cursor.lastrowid
            many(
                "INSERT INTO done VALUES (?, ?, ?, ?)",
                [(method, unit.block, metric, number) for metric in unit.metrics],
            )
            many(
                "INSERT INTO image_scores VALUES (?, ?, ?, ?)",
                [(method, *place, _stored(value)) for *place, value in unit.image_scores],
            )
            many(
                "INSERT INTO label_scores VALUES (?, ?, ?, ?, ?)",
                [(method, *place, _stored(value)) for *place, value in unit.label_scores],
            )
            curves = [(method, image, *curve) for image, curve in unit.curves.items()]
            many(
                "INSERT OR IGNORE INTO curves VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                curves,
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
