"""Checks a run directory: ``run.json``, the images, the database, and the content of every file of maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.study.lock import locked
from proofmap.study.manifest import Manifest
from proofmap.study.store import Store, StoreError, read_maps


def verify_run(folder: str | Path) -> list[str]:
    """A line for each damaged file of a run directory; empty if there is none. Nothing is changed."""
    folder = Path(folder)
    Manifest.read(folder)
    problems = []
    with Store(folder) as store:
        answers = [text for (text,) in store.rows("PRAGMA integrity_check(5)") if text != "ok"]
        problems += [f"{store.path} is damaged: {text}" for text in answers]
        for (name,) in store.rows("SELECT DISTINCT maps FROM units WHERE maps IS NOT NULL ORDER BY maps"):
            try:
                read_maps(folder, name, ())
            except StoreError as error:
                problems.append(str(error))
    return problems


def forget_methods(folder: str | Path, methods: Sequence[str]) -> None:
    """Remove methods and all their results from a run."""
    folder = Path(folder)
    Manifest.read(folder)  # a folder that is no run is refused before a lock is made in it
    with locked(folder), Store(folder, write=True) as store:
        manifest = Manifest.read(folder)
        for method in methods:
            if method not in manifest.methods:
                raise InputError(f"{folder} has no method {method!r}; it has {', '.join(manifest.methods)}")
        for method in methods:
            store.delete(method=method)
        left = {name: own for name, own in manifest.methods.items() if name not in methods}
        replace(manifest, methods=left, run_scores=()).write(
            folder
        )  # the scores of the run were about all methods
