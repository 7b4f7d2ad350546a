"""The scores of a run, in SQLite: what was surveyed, what is done, every value, and what failed.

A unit's values go in within one transaction, so after a crash a unit is stored completely or not at all.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proofmap.results.statistics import RunScore
from proofmap.study.store.connection import Connection
from proofmap.study.store.errors import damaged
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

FILE = "scores.sqlite"
LIMITS = "limits of metrics"
"""The note of what values metrics can have."""
SEALED = {
    "labels": ("label", "name"),
    "notes": ("key", "value"),
    "run_scores": ("metric", "subject", "value", "n", "higher_is_better", "settings", "kind"),
    "methods": ("name", "label_free", "settings", "kind"),
    "metrics": ("name", "higher_is_better", "settings", "kind"),
}
"""Tables whose rows have a seal, and the columns in its order."""


class Store(Connection):
    """The database of one run directory."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        super().__init__(folder / FILE, create=create)

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
        """Add methods or metrics that are not there yet: name, flag, settings and kind."""
        columns = SEALED[table]
        rows = [
            (name, int(flag), json.dumps(settings, sort_keys=True, default=str), kind)
            for name, flag, settings, kind in things
        ]
        with self._transaction():
            self.database.executemany(
                f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}, seal) "
                f"VALUES (?{', ?' * len(columns)})",
                [(*row, seal_of(row)) for row in rows],
            )

    def limits(self) -> dict[str, tuple[float, float]]:
        """The least and the greatest value of each metric, by name; runs of older versions do not know them."""
        stored: Any = self.note(LIMITS) or {}
        return {
            name: (-math.inf if low is None else low, math.inf if high is None else high)
            for name, (low, high) in stored.items()
        }

    def add_limits(self, limits: Mapping[str, tuple[float, float]]) -> None:
        """Add what is known of metrics to it."""
        known = self.limits()
        if any(known.get(name) != ends for name, ends in limits.items()):
            finite = {
                n: [None if math.isinf(end) else end for end in ends]
                for n, ends in {**known, **limits}.items()
            }
            self.set_note(LIMITS, finite)

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
            "SELECT id, name, digest, stamp, truth, true_labels, eligible, block, failure, seal FROM images ORDER BY id"
        )
        images = []
        for id_, name, digest, stamp, truth, several, eligible, block, failure, seal in found:
            image = ImageRow(
                name=name,
                digest=digest,
                stamp=stamp,
                true_labels=self._true_labels(truth, several, name),
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

    def _true_labels(self, truth: int | None, several: str | None, name: str) -> tuple[int, ...]:
        if several is None:
            return () if truth is None else (truth,)
        try:
            return tuple(json.loads(several))
        except (TypeError, ValueError):
            raise damaged(self.path, f"the true labels of the picture {name} cannot be read") from None

    def add_images(self, images: Iterable[ImageRow]) -> None:
        with self._transaction():
            for image in images:
                self.database.execute(
                    "DELETE FROM images WHERE name = ? AND failure IS NOT NULL", (image.name,)
                )
                cursor = self.database.execute(
                    "INSERT INTO images (name, digest, stamp, truth, true_labels, eligible, failure, seal) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(image.name, image.digest, image.stamp, image.truth),
                        json.dumps(image.true_labels) if len(image.true_labels) > 1 else None,
                        *(image.eligible, image.failure),
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
