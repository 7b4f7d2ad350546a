"""Experiment trackers as watchers of a study: TensorBoard, MLflow, Weights & Biases.

Each tracker gets the settings once, the running scores as ``METHOD/METRIC`` with the number of finished units as the step, and at the
end the files. A resumed study continues in the same run of the tracker, whose id is kept in ``trackers.json`` in the study's folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from proofmap.core.errors import InputError, require
from proofmap.core.files import write_text
from proofmap.core.registry import Registry
from proofmap.study.watchers.status import Status, Watcher, finite

T = TypeVar("T")

TRACKERS: Registry[Watcher] = Registry("tracker", "proofmap.trackers")
"""Tracker classes by their ``name``. They are created as ``tracker(where, folder)``."""

RUN_IDS = "trackers.json"


def make_tracker(text: str, folder: Path | None = None) -> Watcher:
    """Create a tracker from ``NAME`` or ``NAME:WHERE``. ``folder`` is the folder of the study.

    Built in are ``tensorboard[:LOGDIR]``, ``mlflow[:EXPERIMENT]`` and ``wandb[:PROJECT]``. Servers and keys are
    configured by the environment variables of these packages.
    """
    name, colon, where = text.partition(":")
    if colon and not where:
        raise InputError(f"the tracker {text!r} ends in a colon; write {name!r} or {name + ':WHERE'!r}")
    make: Any = TRACKERS[name]  # a protocol says nothing about how its classes are made
    tracker: Watcher = make(where, folder)
    return tracker


class Tracker(ABC):
    """Base class of trackers. It records the scores after each finished unit, under safe names, and remembers the id of the tracker's run.

    The number of units done by earlier runs is known only after the survey of the images, so the tracker's run is opened after the survey.
    """

    name: ClassVar[str]

    def __init__(self, where: str = "", folder: Path | None = None) -> None:
        self.where, self.folder = where, folder
        self._recorded: tuple[int, dict[str, float]] = (0, {})
        self._waiting: Mapping[str, str] | None = None  # the settings, until the run is opened

    @abstractmethod
    def open(self, settings: Mapping[str, str], status: Status) -> None:
        """Start a run, or continue the one that :meth:`remembered` names."""

    @abstractmethod
    def write(self, values: Mapping[str, float], step: int) -> None:
        """Record values at this step. Their names contain only characters that every tracker allows."""

    @abstractmethod
    def close(self, status: Status) -> None:
        """Store the files of the study, and end the tracker's run with the state of the study."""

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self._waiting = flatten_settings(study)
        self._open_if_surveyed(status)

    def update(self, status: Status) -> None:
        if self._open_if_surveyed(status) and status.units_done != self._recorded[0]:
            self._record(status)

    def end(self, status: Status) -> None:
        if self._open_if_surveyed(status):
            self._record(status)
            self.close(status)

    def _open_if_surveyed(self, status: Status) -> bool:
        """Open the tracker's run if it is not open yet and the survey is over. Returns whether the run is open."""
        if self._waiting is None:
            return True
        if status.state == "surveying":
            return False
        settings, self._waiting = self._waiting, None  # also if it fails, so that it is not tried again
        self._recorded = status.units_done, {}
        self.open(settings, status)
        return True

    def _record(self, status: Status) -> None:
        record = status.units_done, scalars(status)
        if record[1] and record != self._recorded:
            self.write(record[1], record[0])
        self._recorded = record

    def remembered(self) -> str | None:
        """The id of the tracker's run in which this study was recorded before; None if there is none."""
        return self._runs().get(f"{self.name}:{self.where}")

    def remember(self, run: str) -> None:
        if self.folder:
            runs = {**self._runs(), f"{self.name}:{self.where}": run}
            write_text(self.folder / RUN_IDS, json.dumps(runs, indent=1) + "\n")

    def _runs(self) -> dict[str, str]:
        if self.folder is None or not (self.folder / RUN_IDS).exists():
            return {}
        runs: dict[str, str] = json.loads((self.folder / RUN_IDS).read_text(encoding="utf-8"))
        return runs


@TRACKERS.register
class TensorBoard(Tracker):
    """Event files in LOGDIR, or in ``tensorboard/`` of the study's folder. Of the study's files, only the names are logged."""

    name = "tensorboard"

    def __init__(self, where: str = "", folder: Path | None = None) -> None:
        super().__init__(where, folder)
        require("tensorboard", extra="tensorboard", purpose="the tracker tensorboard")
        self._package = require(
            "torch.utils.tensorboard", extra="tensorboard", purpose="the tracker tensorboard"
        )

    def open(self, settings: Mapping[str, str], status: Status) -> None:
        place = self.where or str((self.folder or Path()) / "tensorboard")
        # A new event file in the same folder continues the last one; later steps are purged.
        # A study that failed before its units were counted does not know the step, so nothing is purged.
        counted = status.state == "running" or status.units_done > 0
        purge = status.units_done + 1 if counted else None
        self._writer = self._package.SummaryWriter(place, purge_step=purge)
        rows = "".join(f"| {_cell(name)} | {_cell(value)} |\n" for name, value in settings.items())
        self._writer.add_text("settings", "| setting | value |\n|---|---|\n" + rows, status.units_done)

    def write(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, status: Status) -> None:
        ending = "".join(f"- {file}\n" for file in status.files)
        self._writer.add_text("end", f"{status.state}\n\n{ending}", status.units_done)
        self._writer.close()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


@TRACKERS.register
class MLflow(Tracker):
    """A run of EXPERIMENT, at the server or store that MLFLOW_TRACKING_URI names."""

    name = "mlflow"
    endings: ClassVar[Mapping[str, str]] = {"finished": "FINISHED", "interrupted": "KILLED"}

    def __init__(self, where: str = "", folder: Path | None = None) -> None:
        super().__init__(where, folder)
        self._package = require("mlflow", extra="mlflow", purpose="the tracker mlflow")

    def open(self, settings: Mapping[str, str], status: Status) -> None:
        self._client = self._package.MlflowClient()
        self._run = self._reopened() or self._new()
        self.remember(self._run)
        known = self._client.get_run(self._run).data.params  # MLflow refuses to change a parameter
        values = {safe_name(name): value[:6000] for name, value in settings.items()}
        kind = self._package.entities.Param
        for some in _pieces([kind(name, value) for name, value in values.items() if name not in known]):
            self._client.log_batch(self._run, params=some)

    def _reopened(self) -> str | None:
        run = self.remembered()
        if run is None:
            return None
        try:
            self._client.update_run(run, status="RUNNING")
        except Exception as error:  # deleted, or on another server
            warnings.warn(
                f"MLflow's run {run} cannot be continued, a new one is started: {error}", stacklevel=2
            )
            return None
        return run

    def _new(self) -> str:
        name = self.where or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "proofmap"
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        return str(self._client.create_run(experiment).info.run_id)

    def write(self, values: Mapping[str, float], step: int) -> None:
        now, kind = int(1000 * time.time()), self._package.entities.Metric
        for some in _pieces([kind(name, value, now, step) for name, value in values.items()]):
            self._client.log_batch(self._run, metrics=some)

    def close(self, status: Status) -> None:
        for file in status.files:
            self._client.log_artifact(self._run, str(file))
        self._client.set_terminated(self._run, self.endings.get(status.state, "FAILED"))


def _pieces(things: Sequence[T], size: int = 100) -> Iterator[Sequence[T]]:
    """Split a sequence into pieces of at most ``size``: MLflow accepts no more than 100 parameters at once."""
    return (things[start : start + size] for start in range(0, len(things), size))


@TRACKERS.register
class WeightsAndBiases(Tracker):
    """A run in the project PROJECT. With WANDB_MODE=offline it stays on disk, and a resumed study adds a second part to it."""

    name = "wandb"

    def __init__(self, where: str = "", folder: Path | None = None) -> None:
        super().__init__(where, folder)
        self._package = require("wandb", extra="wandb", purpose="the tracker wandb")

    def open(self, settings: Mapping[str, str], status: Status) -> None:
        self._run = self._package.init(
            project=self.where or os.environ.get("WANDB_PROJECT") or "proofmap",
            id=self.remembered(),
            resume="allow",
            config=dict(settings),
            dir=os.environ.get("WANDB_DIR") or self.folder,
        )
        self.remember(self._run.id)

    def write(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self, status: Status) -> None:
        if status.files:
            base = os.path.commonpath([file.absolute().parent for file in status.files])
            for file in status.files:
                self._run.save(str(file.absolute()), base_path=base, policy="now")
        self._run.finish(exit_code=0 if status.state == "finished" else 1)


def scalars(status: Status) -> dict[str, float]:
    """The running scores by the names under which trackers record them.

    >>> scalars(Status(state="running", scores={"grad-cam": {"soundness": 0.5}}))
    {'grad-cam/soundness': 0.5}
    """
    return {
        f"{safe_name(method)}/{safe_name(metric)}": value
        for method, scores in status.scores.items()
        for metric, value in finite(scores).items()
    }


def safe_name(name: str) -> str:
    """The name with only characters that every tracker allows. A changed name ends in a hash, so that two names stay different.

    >>> safe_name("grad-cam"), safe_name("learned-mask:tv=0.1")
    ('grad-cam', 'learned-mask_tv_0.1-71aec282')
    """
    allowed = re.sub(r"[^A-Za-z0-9_. -]+", "_", name)[:100].strip(". ")
    if allowed == name and allowed:
        return name
    return f"{allowed or '_'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def flatten_settings(settings: Mapping[str, object], before: str = "") -> dict[str, str]:
    """Nested settings as a flat mapping of texts. Keys of nested tables are joined by dots and follow the prefix ``before``.

    >>> flatten_settings({"model": {"name": "tiny"}, "methods": ["rise", "random"], "seed": 0})
    {'model.name': 'tiny', 'methods': 'rise, random', 'seed': '0'}
    """
    texts: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            texts |= flatten_settings(value, f"{before}{name}.")
        elif isinstance(value, list | tuple):
            texts[f"{before}{name}"] = ", ".join(map(str, value))
        else:
            texts[f"{before}{name}"] = str(value)
    return texts
