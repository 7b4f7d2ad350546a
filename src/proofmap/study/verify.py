"""Check every byte of a run directory, and remove what is damaged, so that the next run computes it again."""

from __future__ import annotations

import sqlite3
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from proofmap.study.manifest import Manifest
from proofmap.study.store.database import FILE, REGISTERED, RUN_SCORES, Store
from proofmap.study.store.errors import Damaged
from proofmap.study.store.lock import locked
from proofmap.study.store.maps import FOLDER, problem_with, unused_files
from proofmap.study.store.records import blobs_digest, image_seal, values_digest
from proofmap.study.store.schema import migrate, seal_of


@dataclass(frozen=True)
class Problem:
    """Damage to a file; ``unit`` is None where it belongs to no unit."""

    path: Path
    what: str
    unit: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def verify_run(folder: str | Path, *, repair: bool = False) -> list[Problem]:
    """What is damaged in a run directory. With ``repair``, damaged units and files without a unit are removed;
    a database that cannot be read is renamed. Nothing is computed: the next run does that.
    """
    folder = Path(folder)
    Manifest.read(folder)
    with locked(folder):
        if not (folder / FILE).exists():
            return [Problem(folder / FILE, "it is missing; the next run computes it again")]
        try:
            with Store(
                folder, create=True
            ) as store:  # create: one that was stopped before its tables were made is not damaged
                _check_database(store)
                problems = [*_units(store, folder), *_unused_files(store, folder)]
                if repair:
                    store.delete_units([p.unit for p in problems if p.unit is not None])
                    store.delete_orphans()
                    for problem in problems:
                        if problem.path.parent.name == FOLDER:
                            problem.path.unlink(missing_ok=True)
                return problems
        except (Damaged, sqlite3.Error) as error:  # but not for a newer version or a database in use
            problem = Problem(folder / FILE, str(error.__cause__ or error))
            if repair:
                _set_aside(folder)
            return [problem]


def _check_database(store: Store) -> None:
    """Raise if the database as a whole is damaged: its pages, its tables, or rows that all units share."""
    answers = [text for (text,) in store.rows("PRAGMA integrity_check(5)")]
    if answers != ["ok"]:
        raise Damaged("; ".join(answers))
    if store.rows(_DEFINITIONS) != _definitions():
        raise Damaged("its tables are not defined as they were")
    sealed = {
        "labels": "label, name",
        "notes": "key, value",
        "run_scores": RUN_SCORES,
        **{table: ", ".join(columns) for table, columns in REGISTERED.items()},
    }
    for table, columns in sealed.items():
        for *row, seal in store.rows(f"SELECT {columns}, seal FROM {table}"):
            if _digest_or_empty(seal_of, row) != seal:
                raise Damaged(f"a row of {table} is not what was written")
    seals = dict(store.rows("SELECT id, seal FROM images"))
    for image in store.images():
        if _digest_or_empty(image_seal, image) != seals[image.id]:
            raise Damaged(f"what is stored of the picture {image.name} is not what was written")


_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"


def _definitions() -> list[tuple[str, ...]]:
    """The tables and views as they are made."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        migrate(database)
        return database.execute(_DEFINITIONS).fetchall()


def _digest_or_empty(digest: Callable[..., str], *values: object) -> str:
    """A digest; empty if damaged values have another type."""
    try:
        return digest(*values)
    except (TypeError, ValueError, AttributeError, struct.error):
        return ""


def _units(store: Store, folder: Path) -> Iterator[Problem]:
    image_scores, label_scores = defaultdict(list), defaultdict(list)
    units = {
        (method, block, metric): unit
        for method, block, metric, unit in store.rows("SELECT method, block, metric, unit FROM done")
    }
    query = "SELECT s.method, block, metric, s.image, value FROM image_scores s JOIN images ON images.id = s.image"
    for method, block, metric, image, value in store.rows(query):
        image_scores[units.get((method, block, metric))].append((metric, image, value))
    query = (
        "SELECT s.method, block, metric, s.image, place, value FROM label_scores s "
        "JOIN images ON images.id = s.image"
    )
    for method, block, metric, image, place, value in store.rows(query):
        label_scores[units.get((method, block, metric))].append((metric, image, place, value))
    if None in image_scores or None in label_scores:
        yield Problem(folder / FILE, "it has values of no finished unit")
    query = "SELECT id, digest, maps, maps_bytes, maps_digest FROM units"
    for unit, digest, maps, size, maps_digest in store.rows(query):
        if _digest_or_empty(values_digest, image_scores[unit], label_scores[unit]) != digest:
            yield Problem(folder / FILE, f"the values of unit {unit} are not those that were written", unit)
        problem = maps and problem_with(folder, maps, size, maps_digest, thorough=True)
        if problem:
            yield Problem(folder / maps, problem, unit)
    query = (
        "SELECT curves.method, curves.image, units.id, curves.digest, game, probabilities, f, auc, error, matrix FROM curves "
        "JOIN images ON images.id = curves.image "
        "JOIN units ON units.method = curves.method AND units.block = images.block"
    )
    for _, image, unit, digest, game, *blobs in store.rows(query):
        if _digest_or_empty(blobs_digest, game, blobs) != digest:
            yield Problem(folder / FILE, f"the curves of image {image} are not those that were written", unit)


def _unused_files(store: Store, folder: Path) -> Iterator[Problem]:
    known = {name for (name,) in store.rows("SELECT maps FROM units WHERE maps IS NOT NULL")}
    for path in unused_files(folder, known):
        yield Problem(path, "it belongs to no finished unit (a run was stopped); the next run removes it")


def _set_aside(folder: Path) -> None:
    number = 1
    while (folder / f"{FILE}.damaged-{number}").exists():
        number += 1
    for ending in ("", "-wal", "-shm"):
        path = folder / f"{FILE}{ending}"
        if path.exists():
            path.rename(folder / f"{FILE}.damaged-{number}{ending}")
