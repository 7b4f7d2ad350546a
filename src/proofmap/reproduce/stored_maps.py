"""The images and maps of a finished run, for measurements of a recipe beyond the run's own metrics.

No map is made again, so masks that took an hour to learn are measured in seconds. A recipe may also begin with the maps of another recipe's
run: ``proofmap reproduce cifar10-curves --from reproduced/cifar10-tv``. That run is copied, and the recipe continues the copy: rows with the
same name and settings keep their maps, and only what is missing is computed. A run with other images, another net or another seed is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import atomic_write, written_together
from proofmap.metrics.judged import Judged
from proofmap.report.figures.drawing import evaluation_settings
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared
from proofmap.session import Session
from proofmap.study import Run, Study
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.opened import open_net
from proofmap.study.store import IMAGES, MAPS, SCORES


@contextmanager
def copied_from(start: Path | None, folder: Path) -> Iterator[None]:
    """Copy the run ``start`` to ``folder``, where a study then continues it. If the study is refused, the copy is removed.

    The manifest is copied last, because a folder with a manifest counts as a run and must be complete.
    """
    if start is None or (folder / MANIFEST).exists():
        yield
        return
    with Run(start) as run:
        _ = run.images  # raises if it cannot be read
    is_new = not folder.exists()
    names = [MAPS, IMAGES, *(path.name for path in start.glob(f"{SCORES}-wal")), SCORES]
    with written_together(folder) as part:
        shutil.rmtree(folder / MAPS, ignore_errors=True)  # left by a process that was killed
        for path in (start / name for name in names):
            if path.is_dir():
                shutil.copytree(path, part / path.name)
            elif path.exists():
                shutil.copyfile(path, part / path.name)
    with atomic_write(folder / MANIFEST) as part:
        shutil.copyfile(start / MANIFEST, part)
    try:
        yield
    except ProofmapError as error:
        for path in [folder] if is_new else [folder / name for name in (*names, MANIFEST)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise InputError(f"the recipe cannot begin with {start}: {error}. Leave out --from") from error


def select_rows(evaluation: Evaluation, study: Study) -> Evaluation:
    """The evaluation with only the rows and scores of this study. A run that began as a copy also has the rows of the copied run."""
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


@dataclass(frozen=True)
class StoredMaps:
    """An evaluation with the pixels and maps of all its images, and the net that judged them."""

    classifier: Classifier
    evaluation: Evaluation

    @classmethod
    def open(cls, folder: Path, study: Study, device: str | None) -> StoredMaps:
        """Open the run of this study in this folder. The run must have stored its maps (``maps = "float32"``)."""
        with Run(folder) as run:  # one that was begun with another's has rows that nobody asks for
            rows = [name for name in study.named_methods() if name in run.methods]
            evaluation = run.evaluation(pictured=len(run.images), methods=rows)
        if len(evaluation.pictured) < len(evaluation):
            raise InputError(
                f"{folder} lacks the maps of {len(evaluation) - len(evaluation.pictured)} of {len(evaluation)} images: a method "
                f"failed on them, or the pictures were moved. See {folder / 'report.html'}, then use another --out"
            )
        return cls(open_net(study, device=device), select_rows(evaluation, study))

    @property
    def images(self) -> Tensor:
        return self.evaluation.images.to(self.classifier.device)

    @property
    def labels(self) -> Tensor:
        return self.evaluation.labels.to(self.classifier.device)

    def maps(self, row: str) -> Tensor:
        """Maps ``(N, L, *positions)`` of one row for all images and labels."""
        return self.evaluation.maps_of(self.evaluation[row]).to(self.classifier.device, torch.float32)

    def judged(self, row: str, *, images: slice = slice(None), labels: int | None = None) -> Judged:
        """The input of a metric: one row's maps of the images in the slice ``images``, for the first ``labels`` labels of each image."""
        return Judged(
            Session(self.classifier, seed=self.seed, role="judge"),
            self.images[images],
            self.labels[images, :labels],
            self.maps(row)[images, :labels],
        )

    @property
    def seed(self) -> int:
        return int(str(self.evaluation.settings["seed"]))

    @property
    def points(self) -> Any:
        """The setting ``points`` of the insertion curves from which the run's scores are computed."""
        return self.evaluation.results[0].insertion.settings["points"]

    def about(self) -> str:
        """The settings that figures of the maps depend on, as a sentence for captions."""
        return evaluation_settings(shared(self.evaluation), thresholds=False)
