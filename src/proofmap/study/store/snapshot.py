"""A copy of a database in a read-only folder, with everything that was committed.

SQLite keeps the last commits in a second file, the write-ahead log, and must write to the folder to read them. Without write
permission, both files are copied to a temporary folder and read there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from proofmap.study.store.errors import StoreError

_TRIES = 5


def log_of(path: Path) -> Path:
    """The write-ahead log of a database."""
    return path.with_name(f"{path.name}-wal")


def copied(path: Path) -> TemporaryDirectory[str]:
    """A temporary folder with the database and its log from one moment."""
    folder = TemporaryDirectory(prefix="proofmap-")
    files = (path, log_of(path))
    try:
        for _ in range(_TRIES):
            before = [_stamp(file) for file in files]
            for file, stamp in zip(files, before, strict=True):
                target = Path(folder.name, file.name)
                target.unlink(missing_ok=True)
                if stamp is not None:
                    shutil.copyfile(file, target)
            if [_stamp(file) for file in files] == before:  # nothing was written meanwhile
                return folder
    except OSError as error:
        folder.cleanup()
        raise StoreError(
            f"{path} cannot be read completely: this folder cannot be written to, so the database and its log "
            f"({log_of(path).name}) must be copied to {folder.name}, which failed: {error.strerror}. "
            "Read the run as a user who may write to it, or set TMPDIR to a folder with room"
        ) from None
    folder.cleanup()
    raise StoreError(f"{path} is being written by another process; try again when it has ended")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """A stamp that changes when the file changes; None if there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
