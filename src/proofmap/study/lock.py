"""The folder of a run while a process writes to it. A lock, which the operating system releases when its holder dies, keeps others out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from proofmap.core.errors import ProofmapError
from proofmap.core.files import output_folder
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.store import IMAGES, SCORES, Store, StoreError, writing

_LOCK = "lock"


class RunBusy(ProofmapError):
    """Another process writes to this run directory."""


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a run directory. If another process holds it, raise :class:`RunBusy`, or ``wait`` for it."""
    while True:
        # unbuffered: closing it writes nothing
        with open(_opened(folder / _LOCK), "r+b", buffering=0) as file:
            while not _try_lock(file):
                if not wait:
                    file.seek(0)
                    holder = file.read(100).decode(errors="replace").strip()
                    by = f" (process {holder})" if holder else ""
                    raise RunBusy(
                        f"another process{by} is working on {folder}. Wait for it with --wait, or choose another --out"
                    )
                time.sleep(0.5)
            if not _is_there(file, folder / _LOCK):  # the holder was refused, and took its lock away
                continue
            with suppress(OSError):  # on a full disk the holder stays unnamed
                file.seek(0)
                file.truncate()
                file.write(f"{os.getpid()}\n".encode())
            yield  # closing the file releases the lock
            return


def _opened(path: Path) -> int:
    path.parent.mkdir(
        parents=True, exist_ok=True
    )  # the holder may have been refused, and taken its folder away
    with writing(
        path
    ):  # a link is not followed: the lock is emptied, and the file it leads to is not of this run
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _is_there(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the file at this path."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            file.seek(1_000_000)  # far beyond the text, which stays readable for the process that is refused
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def run_folder(out: str | Path, *, wait: bool = False) -> Iterator[Path]:
    """Create the folder of a run if it is missing, lock it, and yield it. With ``wait``, wait for the lock instead of raising.

    If the study is refused before a new run has any result, everything that was written is removed. If the run was stopped by a full
    disk or another process, it is kept and can be continued.
    """
    missing = [folder for folder in (Path(out), *Path(out).parents) if not os.path.exists(folder)]
    folder = output_folder(out)
    with locked(folder, wait=wait):
        new = not any((folder / name).exists() for name in (MANIFEST, SCORES))
        try:
            yield folder
        except ProofmapError as error:
            if new and not isinstance(error, StoreError) and not _has_units(folder):
                with suppress(OSError):  # the refusal is what counts; Windows keeps a file that is open
                    remove_run(folder)
                    for name in ("progress.json", _LOCK):
                        (folder / name).unlink(missing_ok=True)
                    for path in missing:
                        path.rmdir()
            raise


def remove_run(folder: Path) -> None:
    """Remove the files of a run that has stored no results."""
    for path in (folder / MANIFEST, folder / IMAGES, *folder.glob(f"{SCORES}*")):
        path.unlink(missing_ok=True)


def _has_units(folder: Path) -> bool:
    if not (folder / SCORES).exists():
        return False
    with Store(folder, write=True) as store:
        return store.has_units
