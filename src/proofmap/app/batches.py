"""Batches: many photos judged as one run, in the folder given by ``--runs``, by the thread that works on nets.

A batch is a folder with the photos as they were sent, and the run that judges them. The run can be watched, reported and compared like
any other run, and ``proofmap evaluate`` can continue it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from proofmap.app.answers import State
from proofmap.app.items import NotFound, Photo
from proofmap.app.job_answers import BatchAnswer, BatchAsked
from proofmap.app.jobs import MOST_KEPT, OVER, outcome
from proofmap.app.nets import Nets
from proofmap.app.run_folders import run_id
from proofmap.app.worker import Busy, Cancelled, NetWorker
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.data import photographs
from proofmap.fills import Fill
from proofmap.methods import Method
from proofmap.study import Study, run_study
from proofmap.study.watchers.status import Status

LABELS = "top3+wrong"
"""The label rule of a batch: the three most probable labels, and two wrong ones, which test soundness."""
LABEL_COUNT = 5
MOST_WAITING = 4
_SUFFIXES = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp", b"GI": ".gif", b"BM": ".bmp"}
"""File suffixes by the first two bytes of a file. Any other file is TIFF or PPM and is named ``.tiff``; Pillow reads the format from the
content, not from the suffix."""


@dataclass(eq=False)
class Batch:
    """A batch: its request with the photos, methods and fill, and its state. ``run`` is the id of its run in addresses."""

    run: str
    folder: Path
    asked: BatchAsked
    photos: Sequence[Photo]
    methods: Sequence[Method]
    fill: Fill
    state: State = "waiting"
    message: str = ""
    stop: bool = False

    def answer(self) -> BatchAnswer:
        return BatchAnswer(
            run=self.run,
            name=f"{self.folder.name}/run",
            state=self.state,
            message=self.message,
            photos=len(self.photos),
            begun=(self.folder / "run" / "manifest.json").is_file(),
        )


class Batches:
    """The batches of a server whose runs are below ``root``."""

    def __init__(self, root: Path, nets: Nets, worker: NetWorker) -> None:
        self.root, self.nets, self.worker = root, nets, worker
        self._all: OrderedDict[str, Batch] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, run: str) -> Batch:
        with self._lock:
            if run not in self._all:
                raise NotFound("there is no such batch; if it was begun, its run is in the list of runs")
            return self._all[run]

    def add(self, asked: BatchAsked, photos: Sequence[Photo], methods: Sequence[Method], fill: Fill) -> Batch:
        """Write the photos to a new folder, and put the batch in the queue."""
        with self._lock:
            if sum(batch.state not in OVER for batch in self._all.values()) >= MOST_WAITING:
                raise Busy(f"{MOST_WAITING} batches are already waiting; try again later, or stop one")
            folder = self._new_folder()
            batch = Batch(run_id(f"{folder.name}/run"), folder, asked, photos, methods, fill)
            self._all[batch.run] = batch
            over = [run for run, other in self._all.items() if other.state in OVER]
            for run in over[: max(0, len(over) - MOST_KEPT)]:
                del self._all[run]
        names = distinct_names([photo.stem for photo in photos])
        for photo, name in zip(photos, names, strict=True):
            suffix = _SUFFIXES.get(photo.content[:2], ".tiff")
            (folder / "photos" / f"{_file_name(name)}{suffix}").write_bytes(photo.content)
        self.worker.add(lambda: self._work(batch))
        return batch

    def cancel(self, batch: Batch) -> None:
        """Stop a batch: at once if it is waiting, otherwise soon. Results computed so far are kept in its run."""
        with self._lock:
            batch.stop = True
            if batch.state == "waiting":
                batch.state = "cancelled"

    def _new_folder(self) -> Path:
        """Create a new folder that is named after the current time."""
        bare = f"photos-{datetime.now():%Y%m%d-%H%M%S}"
        for k in range(1, 100):
            folder = self.root / (bare if k == 1 else f"{bare}-{k}")
            try:
                (folder / "photos").mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise InputError(f"the folder of --runs cannot be written: {error.strerror}") from None
            return folder
        raise Busy("too many batches were begun in this second; try again")

    def _work(self, batch: Batch) -> None:
        """Run the batch in the worker's thread. Errors are stored in the batch, because this must not raise."""
        if batch.state != "waiting":
            return
        batch.state = "running"
        batch.state, batch.message = outcome(lambda: self._run(batch))

    def _run(self, batch: Batch) -> None:
        place = batch.folder / "photos"
        offer = self.nets.offer(batch.asked.net)
        model = (
            offer.options[offer.options.index("--model") + 1] if "--model" in offer.options else offer.name
        )
        study = Study(
            model=model,
            data=[place],
            labels=LABELS,
            methods=batch.methods,
            fills=[batch.fill],
            seed=batch.asked.seed,
        )
        run_study(
            study,
            batch.folder / "run",
            classifier=self.nets.classifier(batch.asked.net),
            dataset=photographs([place]),
            watchers=[_Between(batch, self.worker)],
        )


class _Between:
    """A watcher that, between two steps of a batch, answers waiting questions and stops the batch if it was cancelled."""

    name = "the server"

    def __init__(self, batch: Batch, worker: NetWorker) -> None:
        self.batch, self.worker = batch, worker

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self.update(status)

    def update(self, status: Status) -> None:
        try:
            self.worker.between()
        except Cancelled:
            self.batch.stop = True
        if self.batch.stop:
            raise KeyboardInterrupt  # the run can be continued, as after Ctrl-C

    def end(self, status: Status) -> None:
        pass


def _file_name(name: str) -> str:
    """A file name that is valid on any system: letters, digits and a few marks.

    >>> _file_name("a/b c?.d")
    'a_b c_.d'
    """
    return (
        "".join(letter if letter.isalnum() or letter in " ._-" else "_" for letter in name).strip(" .")
        or "photo"
    )
