"""The runs below one folder, each with an id and a record for the list. A record is read again when its run changes.

The id is a digest of the run's path below the folder, so that clients neither send nor receive paths. Folders are searched
two levels deep. Links that lead out of the folder are not followed, neither to folders nor to files of a run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from proofmap.app.items import Kept, NotFound
from proofmap.app.run_records import Mean, MetricRecord, RunList, RunProgress, RunRecord, State
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import process_runs
from proofmap.core.inputs import kind_of
from proofmap.results.sharing import shared_names, without_folders
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.reading.stored_run import Run
from proofmap.study.store.connection import log_of
from proofmap.study.store.database import FILE as SCORES

LEVELS = 2
MOST_RUNS = 500
MOST_LOOKED_AT = 20_000
"""Largest number of files and folders that a search for runs visits."""
SILENT_SECONDS = 30
"""A run counts as stopped if its process is not on this machine and its last report is older than this."""
_PROGRESS = "progress.json"
_MOST_PROGRESS = 1_000_000  # bytes


@dataclass(frozen=True)
class RunFolder:
    """A run directory: its id in addresses (``run``), its path below the folder of runs (``name``), and its full path."""

    run: str
    name: str
    path: Path


class RunFolders:
    """The runs below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise InputError(f"there is no folder {root} to look for runs in; --runs names a folder")
        self._records: Kept[tuple[str, str], RunRecord] = Kept(lambda kept: len(kept) > 2 * MOST_RUNS)

    def records(self) -> RunList:
        """The current state of every run: first the runs that are being written, then the others by name."""
        found = list(self.found())
        records = [self.record(folder) for folder in found[:MOST_RUNS]]
        records.sort(key=lambda r: (r.state not in ("surveying", "running"), r.name))
        return RunList(runs=records, left_out=len(found) - len(records))

    def found(self) -> Iterator[RunFolder]:
        """Yield the run directories, in the order of their names. A directory that is reached by several links is yielded once."""
        seen: set[Path] = set()
        for path in self._walk(self.root, LEVELS, [MOST_LOOKED_AT]):
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                name = "." if path == self.root else path.relative_to(self.root).as_posix()
                yield RunFolder(run_id(name), name, path)

    def find(self, run: str) -> RunFolder:
        """The run directory with the id ``run``."""
        for folder in self.found():
            if folder.run == run:
                return folder
        raise NotFound("there is no such run; look for it in the list of runs")

    def version(self, folder: RunFolder) -> str:
        """A text that changes when the run's numbers, maps or settings change."""
        files = [folder.path / MANIFEST, folder.path / SCORES, log_of(folder.path / SCORES)]
        return _digest(repr([_stamp(file) for file in files]))[:16]

    def record(self, folder: RunFolder) -> RunRecord:
        """The entry of a run in the list of runs."""
        version = self.version(folder)
        record = self._records.get_or_make((folder.run, version), lambda: _read(folder))
        progress, alive = self._progress(folder)
        return record.model_copy(
            update={"progress": progress, "state": _state(record.state, progress, alive), "version": version}
        )

    def _walk(self, folder: Path, levels: int, budget: list[int]) -> Iterator[Path]:
        if self._is_run(folder):
            yield folder
            return
        if levels == 0:
            return
        try:
            names = sorted(os.listdir(folder))
        except OSError:  # it may not be read, or is gone
            return
        for name in names:
            budget[0] -= 1
            if budget[0] < 0:
                return
            if not name.startswith(".") and (folder / name).is_dir() and self._inside(folder / name):
                yield from self._walk(folder / name, levels - 1, budget)

    def _is_run(self, folder: Path) -> bool:
        return all((folder / name).is_file() and self._inside(folder / name) for name in (MANIFEST, SCORES))

    def _inside(self, path: Path) -> bool:
        try:
            return path.resolve(strict=True).is_relative_to(self.root)
        except (OSError, RuntimeError):  # gone, or a link to itself
            return False

    def _progress(self, folder: RunFolder) -> tuple[RunProgress | None, bool]:
        """The last progress report of the process that writes the run, and whether this process still runs."""
        path = folder.path / _PROGRESS
        try:
            if not self._inside(path) or not path.is_file() or path.stat().st_size > _MOST_PROGRESS:
                return None, False
            content = json.loads(path.read_bytes())
            progress = RunProgress.model_validate(content)
            process = int(content.get("pid", 0))
            age = (datetime.now(UTC) - datetime.fromisoformat(progress.updated)).total_seconds()
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return None, False
        alive = process_runs(process) or abs(age) < SILENT_SECONDS  # abs: a clock may have been set back
        return progress.model_copy(update={"last": public_text(progress.last)}), alive


def run_id(name: str) -> str:
    """The id of a run in addresses, from its path below the folder of runs."""
    return _digest(name)[:32]


def public_text(text: str) -> str:
    """A text as visitors may see it: without folders, and with lone surrogates (invalid in UTF-8) escaped."""
    return without_folders(text).encode("utf-8", "backslashreplace").decode("utf-8")


def method_names(run: Run) -> list[str]:
    """The names of a run's methods as visitors see them: without folders."""
    return shared_names([public_text(name) for name in run.methods])


def _read(folder: RunFolder) -> RunRecord:
    """The record of a run, read from its manifest and database. If the run cannot be read, the record has the reason."""
    bare = RunRecord(run=folder.run, name=public_text(folder.name), state="unreadable")
    try:
        with Run(folder.path) as run, run.store.snapshot():
            identity, names = run.manifest.identity, dict(zip(run.methods, method_names(run), strict=True))
            return bare.model_copy(
                update={
                    "state": run.state,
                    "model": public_text(str(identity.get("model", ""))),
                    "data": public_text(str(identity.get("data", ""))),
                    "labels": str(identity.get("labels", "")),
                    "images": len(run.images),
                    "item": kind_of(identity).singular,
                    "items": kind_of(identity).noun,
                    "methods": list(names.values()),
                    "metrics": [
                        MetricRecord(name=m.name, higher_is_better=m.flag) for m in run.metrics.values()
                    ],
                    "scores": {
                        names[method]: {
                            metric: Mean(mean=mean if math.isfinite(mean) else None, n=n)
                            for metric, (mean, n) in means.items()
                        }
                        for method, means in run.means().items()
                        if method in names
                    },
                    "maps": str(run.manifest.study.get("maps", "")),
                    "notes": [public_text(note) for note in run.notes()],
                }
            )
    except ProofmapError as error:
        return bare.model_copy(update={"reason": public_text(str(error))})


def _state(stored: State, progress: RunProgress | None, alive: bool) -> State:
    """The state of a run, from its database and from the process that writes it."""
    if progress is None or stored == "unreadable":
        return stored
    if progress.state in ("surveying", "running"):
        return progress.state if alive else ("finished" if stored == "finished" else "stopped")
    return stored if stored == "finished" or progress.state == "finished" else progress.state


def _stamp(path: Path) -> tuple[int, int] | None:
    """Modification time and size of a file. None if there is no file, or if it is empty, as is the log that a reader leaves."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found.st_size else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
