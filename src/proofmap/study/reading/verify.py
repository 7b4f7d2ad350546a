"""Checks every byte of a run directory. If asked to, removes what is damaged, so that the next run computes it again."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path

from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import Manifest
from proofmap.study.store.checks import Problem, damage_to_curves, damage_to_values
from proofmap.study.store.database import FILE, SEALED, Store
from proofmap.study.store.errors import Damaged, StoreError
from proofmap.study.store.lock import locked
from proofmap.study.store.maps import FOLDER, problem_with, remove_file, unused_files
from proofmap.study.store.schema import create_tables


def verify_run(folder: str | Path, *, repair: bool = False) -> list[Problem]:
    """List what is damaged in a run directory.

    With ``repair``, damaged units and files that belong to no unit are removed, the manifest is restored from its copy in the database,
    and a database that cannot be read is renamed. Nothing is computed: the next run computes what is missing.
    """
    folder = Path(folder)
    if not (folder / FILE).exists():
        Manifest.read(folder)  # raises if it is missing too
    # a read-only folder cannot change: it is checked without the lock
    with nullcontext() if _is_read_only(folder) and not repair else locked(folder):
        return [*_manifest(folder, repair), *_scores(folder, repair)]


def _is_read_only(folder: Path) -> bool:
    return folder.is_dir() and not os.access(folder, os.W_OK)


def _manifest(folder: Path, repair: bool) -> list[Problem]:
    """List damage to the manifest. Raises if it is damaged and there is no copy to restore it from."""
    copy: Manifest | None = None
    with suppress(StoreError), Store(folder) as store:
        copy = Manifest.stored_in(store)
    try:
        Manifest.read(folder)
        return []
    except Damaged as error:
        if copy is None:
            raise
        what = error.what
    if repair:
        copy.write(folder)
    return [Problem(folder / MANIFEST, f"{what}; --repair restores it from the copy in the database")]


def _scores(folder: Path, repair: bool) -> list[Problem]:
    """List damage to the database and the files of maps."""
    if not (folder / FILE).exists():
        return [Problem(folder / FILE, "it is missing; the next run computes it again")]
    try:
        # create: one that was stopped before it had tables is not damaged
        with Store(folder, create=not _is_read_only(folder)) as store:
            _check_database(store)
            problems = [*_units(store, folder), *_unused_files(store, folder)]
            if repair:
                store.delete_units([p.unit for p in problems if p.unit is not None])
                store.delete_orphans()
                for problem in problems:
                    if problem.path.parent.name == FOLDER:
                        remove_file(problem.path)
            return problems
    except (Damaged, sqlite3.Error) as error:  # but not for a newer version or a database in use
        problem = Problem(folder / FILE, error.what if isinstance(error, Damaged) else str(error))
        if repair:
            _set_aside(folder)
        return [problem]


def _check_database(store: Store) -> None:
    """Raise if the database as a whole is damaged: its pages, its tables, or rows that all units share."""
    answers = [text for (text,) in store.rows("PRAGMA integrity_check(5)")]
    if answers != ["ok"]:
        raise Damaged("; ".join(answers))
    if store.rows(_DEFINITIONS) != _definitions():
        raise Damaged("its tables have other definitions than those that were made")
    for table in SEALED:
        store.sealed(table)
    store.label_names()
    store.images()


_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"


def _definitions() -> list[tuple[str, ...]]:
    """The SQL definitions of the tables and views of a new database."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        create_tables(database)
        return database.execute(_DEFINITIONS).fetchall()


def _units(store: Store, folder: Path) -> Iterator[Problem]:
    yield from damage_to_values(store)
    yield from damage_to_curves(store)
    for unit, maps, size, digest in store.rows("SELECT id, maps, maps_bytes, maps_digest FROM units"):
        try:
            problem = maps and problem_with(folder, maps, size, digest, thorough=True)
        except Damaged as error:  # its name leads out of the run
            yield Problem(folder / FILE, error.what, unit)
            continue
        if problem:
            yield Problem(folder / maps, problem, unit)


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
