"""A study that is refused leaves nothing behind: no folder, no lock, no manifest of a run that never was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from proofmap.core.errors import ProofmapError
from proofmap.core.files import output_folder
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.resume import remove_empty_run
from proofmap.study.store.database import FILE as SCORES
from proofmap.study.store.database import Store
from proofmap.study.store.errors import StoreError
from proofmap.study.store.lock import FILE as LOCK
from proofmap.study.store.lock import locked

_PROGRESS = "progress.json"


@contextmanager
def run_folder(out: str | Path, *, wait: bool = False) -> Iterator[Path]:
    """The folder of a run, made where it is missing, and locked.

    Where the study is refused before a new run has any result, all that was written is removed. What a full disk or
    another process stopped is kept: it can go on.
    """
    missing = [folder for folder in (Path(out), *Path(out).parents) if not os.path.exists(folder)]
    folder = output_folder(out)
    with locked(folder, wait=wait):
        new = not any((folder / name).exists() for name in (MANIFEST, SCORES))
        try:
            yield folder
        except ProofmapError as error:
            if new and not isinstance(error, StoreError) and not _has_results(folder):
                _remove(folder, missing)
            raise


def _has_results(folder: Path) -> bool:
    if not (folder / SCORES).exists():
        return False
    with Store(folder, create=True) as store:
        return bool(store.rows("SELECT 1 FROM units LIMIT 1"))


def _remove(folder: Path, made: list[Path]) -> None:
    """Remove what a run writes at its beginning, and folders that were made, unless something else is in them."""
    with suppress(OSError):  # the refusal is what counts; Windows keeps a file that is open
        remove_empty_run(folder)
        for name in (_PROGRESS, LOCK):
            (folder / name).unlink(missing_ok=True)
        for path in made:
            path.rmdir()
