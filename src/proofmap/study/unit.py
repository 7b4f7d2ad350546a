"""The worker that computes units, each one method on one block of images, in this process or another.

A unit's result depends only on the unit and on the worker's open study, so it is identical to the bit on every machine of the same kind. A
failure is recorded for the image that causes it; the other images of the block are judged without it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import ProofmapError
from proofmap.core.labels import LabelRule, label_array
from proofmap.core.version import environment
from proofmap.data.given import Subjects
from proofmap.data.loader import load_listed
from proofmap.loop import Row, judge_blocks
from proofmap.study.opened import OpenStudy, open_study
from proofmap.study.planning import Unit
from proofmap.study.store import ImageRow, StoreError, read_maps
from proofmap.study.study import Study
from proofmap.study.watchers import Tally


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


class Worker:
    """Computes units of a study that was opened with data.

    Args:
        opened: the study, opened with data.
        batches: the run's batch sizes (forward only, with gradient). The last bits of a result depend on them.
        folder: the run directory, from which stored maps are read.
        progress: counts the passes.
    """

    def __init__(
        self, opened: OpenStudy, batches: tuple[int, int], folder: Path, progress: Tally | None = None
    ) -> None:
        self.opened, self.folder, self.progress = opened, folder, progress or Tally()
        self.net, self.data = opened.classifier, opened.data
        self.net.fix_batches(*batches)
        self._environment = environment(self.net.device)
        self._rule = LabelRule.parse(opened.study.labels, self.net.names)
        self._index = {name: i for i, name in enumerate(self.data.names)}
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="proofmap-block")
        self._blocks: dict[tuple[ImageRow, ...], Future[tuple[Subjects, list[int], dict[int, str]]]] = {}

    @classmethod
    def open(cls, study: Study, batches: tuple[int, int], folder: Path, **opened: Any) -> Worker:
        """A worker that opens the study by itself, in another process. ``opened`` has the arguments of
        :func:`~proofmap.study.opened.open_study`.
        """
        return cls(open_study(study, **opened), batches, folder)

    def prefetch(self, unit: Unit) -> Future[tuple[Subjects, list[int], dict[int, str]]]:
        """Begin to load the images of a unit in the background. They are kept until those of two others have been asked for."""
        if unit.subjects not in self._blocks:
            loading = self._loader.submit(self._load, unit.subjects)
            self._blocks = {**dict(list(self._blocks.items())[-2:]), unit.subjects: loading}
        return self._blocks[unit.subjects]

    def __call__(self, unit: Unit) -> UnitResult:
        began, before = time.monotonic(), self.progress.passes_done
        subjects, places, unread = self.prefetch(unit).result()
        failures, parts, method = dict(unread), list[Row](), self.opened.methods[unit.method]
        if places:
            maps = self._stored(unit, [unit.subjects[place].name for place in places])
            if maps is not None:
                made = maps[:, : 1 if method.label_free else subjects.labels.shape[1]]
                subjects = replace(subjects, maps={**subjects.maps, method: made})
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
        forward, gradient = self.net.frozen().batches
        return UnitResult(
            tuple(parts),
            failures,
            time.monotonic() - began,
            self.progress.passes_done - before,
            (forward.size, gradient.size),
            self._environment,
            self.opened.session.batch_difference or 0.0,
        )

    def _stored(self, unit: Unit, images: Sequence[str]) -> Tensor | None:
        """The stored maps of these images, or None if some are missing. Maps that are computed again are equal to the bit."""
        try:
            found = read_maps(self.folder, unit.maps, images) if unit.maps else {}
        except StoreError:  # damaged, or on another machine than this worker
            return None
        return torch.stack([found[name] for name in images]) if len(found) == len(images) else None

    def _load(self, rows: tuple[ImageRow, ...]) -> tuple[Subjects, list[int], dict[int, str]]:
        """The images of a unit that can be read and have not changed, their places in the unit, and the reason for each other image."""
        failures, place_of = dict[int, str](), dict[int, int]()
        for place, row in enumerate(rows):
            try:
                index = self._index[row.name]
                same = self.data.digest(index) == row.digest
            except KeyError:
                failures[place] = "it is no longer in the dataset"
            except ProofmapError as error:
                failures[place] = str(error)
            else:
                if same:
                    place_of[index] = place
                else:
                    failures[place] = "it is not the one that was surveyed"
        (block,) = load_listed(
            self.data,
            self.net.inputs,
            [list(place_of)],
            outputs=self.net.names,
            device=self.net.device,
            ahead=0,
        )
        failures |= {place_of[self._index[name]]: reason for name, reason in block.failures.items()}
        places = [place_of[index] for index in block.indices]
        labels = torch.from_numpy(label_array([rows[place].labels for place in places] or [()]))
        given = self.opened.given.items() if places else ()
        subjects = Subjects(
            block.images,
            labels.to(self.net.device),
            Subjects.truth_of([rows[place].true_labels for place in places]),
            objects=block.objects,
            rule=self._rule,
            maps={method: maps.read(block.indices, labels) for method, maps in given},
        )
        return subjects, places, failures
