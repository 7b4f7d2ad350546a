"""The connection to an SQLite database, opened for writing or reading, with errors that name the file and the fix.

SQLite keeps the last commits in a second file, the write-ahead log. A run in a read-only folder, or on a full disk, is read with the log that is
there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from proofmap.study.store import schema
from proofmap.study.store.errors import StoreError, damaged, disk_full

_CHECKED_BYTES = 256_000_000
"""A file of at most this size is checked when it is opened. Damage to a larger one is found when the damaged page is read."""


def log_of(path: Path) -> Path:
    """The path of the write-ahead log of a database."""
    return path.with_name(f"{path.name}-wal")


def _is_full(text: str) -> bool:
    """Whether a message of SQLite is about a disk that is full, or does not work."""
    return "full" in text or "disk I/O" in text


class Connection:
    """An open connection to the database file of a run directory.

    One process writes and holds the run's lock. Any number of processes may read at the same time, also without write permission.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path, self._creates = path, create
        if not (create or path.exists()):
            raise StoreError(
                f"{path.parent} has no {path.name}: nothing was judged before it was stopped, or the file was lost. The command that "
                "made the run computes it again"
            )
        if path.exists() and not path.is_file():
            raise StoreError(
                f"{path} is a folder, a pipe or a device, not a regular file. Remove it, and run the same command again"
            )
        self.read_only = not (create or (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)))
        try:
            with self._store_errors():
                self._open(create)
                self._file = os.stat(path)
        except BaseException:
            self.close()
            raise

    def _open(self, create: bool) -> None:
        try:
            self.database = self._opened(create)
            self._prepare(create)
        except sqlite3.OperationalError as error:
            if create or self.read_only or not _is_full(str(error)):
                raise
            self.close()  # a full disk has no room for SQLite's own files, and none is needed to read
            self.read_only = True
            self.database = self._opened(create)
            self._prepare(create)

    def _opened(self, create: bool) -> sqlite3.Connection:
        if not self.read_only:
            return self._connect(self.path, "rwc" if create else "rw")
        log = log_of(self.path)
        # without a log the file alone has everything, and SQLite needs no further files
        alone = not log.exists() or log.stat().st_size == 0
        return self._connect(self.path, "ro&immutable=1" if alone else "ro")

    @staticmethod
    def _connect(path: Path, mode: str) -> sqlite3.Connection:
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        # one thread at a time, but not always the same one
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False)

    def _prepare(self, create: bool) -> None:
        (application,) = self.database.execute("PRAGMA application_id").fetchone()
        (tables,) = self.database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != schema.APPLICATION:
            raise StoreError(
                f"{self.path} is a database, but not one of proofmap; choose the folder that a run was written to"
            )
        if not tables and not create:
            raise StoreError(f"{self.path} is empty: the run was stopped before it stored anything")
        if tables:
            schema.check_version(self.database)
            self._check()
        if not self.read_only:
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = FULL")  # a power cut takes back no finished unit
        if not tables:
            schema.create_tables(self.database)
        if self.read_only:
            self.database.execute("PRAGMA query_only = ON")

    def _check(self) -> None:
        """Raise if a page or a table of the file is damaged."""
        if self.path.stat().st_size <= _CHECKED_BYTES:
            (answer,) = self.database.execute("PRAGMA quick_check(1)").fetchone()
            if answer != "ok":
                raise damaged(self.path, str(answer))

    def close(self) -> None:
        if hasattr(self, "database"):  # it may not have been opened
            self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_in_place(self) -> bool:
        """Whether the open database is still the file at its path. What is written to a removed file is lost."""
        try:
            return os.path.samestat(os.stat(self.path), self._file)
        except OSError:
            return False

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of SQLite and the disk into errors that name the file and the fix."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{error.object[:200]!r} has a character that is no Unicode text, so {self.path.name} cannot store it; choose another name"
            ) from error
        except UnicodeDecodeError as error:
            raise damaged(self.path, str(error)) from error
        except sqlite3.DatabaseError as error:
            text = str(error)
            if _is_full(text) and not self._creates:
                raise StoreError(
                    f"{self.path} cannot be read: {text}. SQLite needs some room to read: make room, or read a copy of the run"
                ) from error
            if _is_full(text):
                raise disk_full(self.path, text) from error
            if "locked" in text:
                raise StoreError(f"{self.path} is in use by another program: {text}") from error
            if self.read_only and "unable to open" in text:
                raise StoreError(
                    f"{self.path} cannot be read in this folder, which cannot be written to: the index of its log is missing. Copy the run to "
                    "another folder, and read the copy"
                ) from error
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
        if not self.is_in_place():
            raise StoreError(
                f"{self.path} was removed or replaced while this process wrote to it, so its results are lost. Leave the folder "
                "alone while a run works in it. Put the file back if you have it, and run the same command again"
            )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Open a read transaction: everything read inside the ``with`` block is from one moment, even if another process writes."""
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

    def checkpoint(self) -> None:
        """Move everything from the write-ahead log into the database file, so that this one file can be copied."""
        with self._store_errors():
            self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
