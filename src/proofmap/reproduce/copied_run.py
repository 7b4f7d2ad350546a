"""Begin with the maps of another recipe's run: ``proofmap reproduce cifar10-curves --from reproduced/cifar10-tv``.

The run is copied, and this recipe continues it: rows with the same name and settings keep their maps, and only what is missing is computed. A run of other images, another net or another seed is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import atomic_write
from proofmap.results.evaluation import Evaluation
from proofmap.study import Run, Study
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.store.database import FILE as SCORES
from proofmap.study.store.maps import FOLDER as MAPS
from proofmap.study.store.snapshot import log_of


@contextmanager
def copied_from(start: Path | None, folder: Path) -> Iterator[None]:
    """Context for a study that runs in this folder and starts with a copy of the run ``start``. If the study is refused, the copy is removed."""
    if start is None or (folder / MANIFEST).exists():
        yield
        return
    with Run(start) as run:
        run.check()
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    copied = _copy(start, folder)
    try:
        yield
    except ProofmapError as error:
        for path in [folder] if folder in made else copied:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for path in made[1:]:
            path.rmdir()
        raise InputError(f"the recipe cannot begin with {start}: {error}. Leave out --from") from error


def _copy(start: Path, folder: Path) -> list[Path]:
    """Copy a run, and replace what a killed process has copied already. The manifest is copied last, because a folder with a manifest
    counts as a run and must be complete.
    """
    there = [path for path in (start / MAPS, log_of(start / SCORES), start / SCORES) if path.exists()]
    for path in there:
        if path.is_dir():
            shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, folder / path.name)
    with atomic_write(folder / MANIFEST) as part:
        shutil.copyfile(start / MANIFEST, part)
    return [folder / path.name for path in (*there, start / MANIFEST)]


def select_rows(evaluation: Evaluation, study: Study) -> Evaluation:
    """Keep only the rows and scores of this study. A run that started as a copy of another run also has the rows of that run."""
    rows, scores = study.named_methods(evaluation.inputs), list(study.named_metrics())
    there = {result.name: result for result in evaluation.results}
    results = tuple(
        replace(
            there[row],
            scores=tuple(
                sorted((s for s in there[row].scores if s.name in scores), key=lambda s: scores.index(s.name))
            ),
        )
        for row in rows
        if row in there
    )
    return replace(evaluation, results=results)
