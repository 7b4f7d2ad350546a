"""Checks a run directory: the database, and the content of every file of maps."""

from __future__ import annotations

from pathlib import Path

from proofmap.study.manifest import Manifest
from proofmap.study.store.database import Store
from proofmap.study.store.errors import StoreError
from proofmap.study.store.maps import check_folder, content_of


def verify_run(folder: str | Path) -> list[str]:
    """A line for each damaged file of a run directory; empty if there is none. Nothing is changed."""
    folder = Path(folder)
    Manifest.read(folder)
    check_folder(folder)
    problems = []
    with Store(folder) as store:
        answers = [text for (text,) in store.rows("PRAGMA integrity_check(5)") if text != "ok"]
        problems += [f"{store.path} is damaged: {text}" for text in answers]
        for (name,) in store.rows("SELECT DISTINCT maps FROM units WHERE maps IS NOT NULL ORDER BY maps"):
            try:
                content_of(folder, name)
            except StoreError as error:
                problems.append(str(error))
    return problems
