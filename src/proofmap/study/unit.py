"""The unit of work, which is one method on one block of images, and the worker that computes it, in this process or another.

A unit's result depends only on the unit and on the worker's open study, so it is identical to the bit on every machine of the same kind. A
failure is recorded for the image that causes it; the other images of the block are judged without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import ProofmapError
from proofmap.core.inputs import Box
from proofmap.core.labels import LabelRule, label_array, truth_table
from proofmap.core.progress import CallbackTask, Progress, ProgressTask
from proofmap.core.version import environment
from proofmap.data.loader import load_listed
from proofmap.data.subjects import Subjects
from proofmap.loop import Row, judge_blocks
from proofmap.study.opened import OpenStudy, open_study
from proofmap.study.store import ImageRow, StoreError, read_maps
from proofmap.study.study import Study


@dataclass(frozen=True)
class Unit:
    """One method, one block of images, and the metrics that are still to be computed.

    ``subjects`` are the images.
    ``curves`` says whether to keep the insertion curves. They are not kept again if only a metric is added.
    ``maps`` names a stored file with this unit's exact maps, which are then not made again; it is empty if there is no such file.
    ``together`` says that this unit uses maps of the previous unit, so that the same worker should compute both.
    """

    method: str
    block: int
    subjects: tuple[ImageRow, ...]
    metrics: tuple[str, ...]
    maps: str = ""
    curves: bool = True
    together: bool = False

    def __str__(self) -> str:
        first, last = self.subjects[0].name, self.subjects[-1].name
        return f"{self.method} on {first}" + (f" to {last}" if len(self.subjects) > 1 else "")


@dataclass(frozen=True)
class UnitResult:
    """The result of a unit: its parts (one, unless an image failed; their ``places`` are those in the unit), the reasons of failures by image index, and the cost.

    ``batches`` are the batch sizes at the end (forward only, with gradient); they are smaller than the run's if memory was short."""

    parts: tuple[Row, ...]
    failures: Mapping[int, str]
    seconds: float
    passes: int
    batches: tuple[int, int]
    environment: Mapping[str, object]
    """The machine and package versions with which the unit was computed."""
    batch_difference: float = 0.0
    """How much f of a masked image differs between batches on this machine."""


class PassCounter(Progress):
    """Counts the passes of units, from any thread."""

    def __init__(self) -> None:
        self.passes_done, self.lock = 0, threading.RLock()

    def task(self, what: str, passes: int) -> ProgressTask:
        return CallbackTask(self.advance)

    def advance(self, passes: int) -> None:
        with self.lock:
            self.passes_done += passes


@dataclass
class Worker:
    """Computes units of a study that was opened with data.

    Args:
        opened: the study, opened with data.
        batches: the run's batch sizes (forward only, with gradient). The last bits of a result depend on them.
        folder: the run directory, from which stored maps are read.
        progress: counts the passes.
    """

    opened: OpenStudy
    batches: tuple[int, int]
    folder: Path | None = None
    progress: PassCounter = field(default_factory=PassCounter)

    def __post_init__(self) -> None:
        self.classifier, self.dataset = self.opened.classifier, self.opened.data
        self.classifier.fix_batches(*self.batches)
        self._environment = environment(self.classifier.device)
        self._rule = LabelRule.parse(self.opened.study.labels, self.classifier.names)
        self._index = {name: i for i, name in enumerate(self.dataset.names)}
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="proofmap-block")
        self._blocks: dict[tuple[ImageRow, ...], Future[_Loaded]] = {}

    @classmethod
    def open(
        cls, study: Study, batches: tuple[int, int], folder: Path | None = None, **opened: Any
    ) -> Worker:
        """A worker that opens the study by itself, in another process. ``opened`` has the arguments of
        :func:`~proofmap.study.opened.open_study`.
        """
        return cls(open_study(study, **opened), batches, folder)

    def prefetch(self, unit: Unit) -> None:
        """Begin to load the images of the next unit in the background."""
        self._block(unit.subjects)

    def _block(self, subjects: tuple[ImageRow, ...]) -> Future[_Loaded]:
        """The images of a block, which are kept until three others have been asked for."""
        if subjects not in self._blocks:
            loading = self._loader.submit(self._load, subjects)
            self._blocks = {**dict(list(self._blocks.items())[-2:]), subjects: loading}
        return self._blocks[subjects]

    def __call__(self, unit: Unit) -> UnitResult:
        began, before = time.monotonic(), self.progress.passes_done
        loaded = self._block(unit.subjects).result()
        failures = dict(loaded.failures)
        places = [place for place in range(len(unit.subjects)) if place not in failures]
        parts: list[Row] = []
        if places:
            judged = [unit.subjects[place] for place in places]
            subjects = Subjects(
                loaded.images,
                torch.from_numpy(label_array([subject.labels for subject in judged])).to(
                    self.classifier.device
                ),
                truth_table([subject.true_labels for subject in judged]),
                objects=loaded.objects,
                rule=self._rule,
            )
            method, maps = self.opened.methods[unit.method], self._stored(unit, [s.name for s in judged])
            if maps is not None:
                made = maps[:, : 1 if method.label_free else subjects.labels.shape[1]]
                subjects = replace(subjects, maps={method: made})
            for row in judge_blocks(
                self.opened.session,
                {unit.method: method},
                {name: self.opened.metrics[name] for name in unit.metrics},
                [subjects],
                keep_maps=len(subjects) if self.opened.study.maps != "none" and maps is None else 0,
                curves=unit.curves,
                skip_failures=True,
                progress=self.progress,
            ):
                own = tuple(places[k] for k in row.places)
                if row.failure:
                    failures |= dict.fromkeys(own, row.failure)
                else:
                    parts.append(replace(row, places=own))
        fast = self.classifier.frozen()
        batches = (fast.batches[0].size, fast.batches[1].size)
        seconds = time.monotonic() - began
        passes = self.progress.passes_done - before
        difference = self.opened.session.batch_difference or 0.0
        return UnitResult(tuple(parts), failures, seconds, passes, batches, self._environment, difference)

    def _stored(self, unit: Unit, images: Sequence[str]) -> Tensor | None:
        """The stored maps of these images, or None if some are missing. Maps that are computed again are equal to the bit."""
        if not unit.maps or self.folder is None:
            return None
        try:
            found = read_maps(self.folder, unit.maps, images)
        except StoreError:  # damaged, or on another machine than this worker
            return None
        return torch.stack([found[name] for name in images]) if len(found) == len(images) else None

    def _load(self, subjects: tuple[ImageRow, ...]) -> _Loaded:
        failures: dict[int, str] = {}
        indices: dict[int, int] = {}
        for place, subject in enumerate(subjects):
            index = self._index.get(subject.name)
            if index is None:
                failures[place] = "it is no longer in the dataset"
                continue
            try:
                now = self.dataset.digest(index)
            except ProofmapError as error:
                failures[place] = str(error)
                continue
            if now != subject.digest:
                failures[place] = "it is not the one that was surveyed"
            else:
                indices[place] = index
        chosen = list(indices.items())
        (block,) = load_listed(
            self.dataset,
            self.classifier.inputs,
            [[index for _, index in chosen]],
            outputs=self.classifier.names,
            device=self.classifier.device,
            ahead=0,
        )
        place_of = {index: place for place, index in chosen}
        failures |= {place_of[failure.index]: failure.reason for failure in block.failures}
        return _Loaded(block.images, block.objects, failures)


@dataclass(frozen=True)
class _Loaded:
    """The images of a unit that could be read, in order, with their annotated objects. ``failures`` has the reason for each other image."""

    images: Tensor
    objects: Sequence[Mapping[int, Sequence[Box]]]
    failures: Mapping[int, str]
