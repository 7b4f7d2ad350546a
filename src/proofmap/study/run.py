"""Runs a study: plans it, computes the missing units and stores them. A run that was stopped continues where it left off.

A unit is one method on one block of images.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import check_output, digest_of, remove_parts
from proofmap.core.labels import LabelRule
from proofmap.core.text import counted, size_text
from proofmap.core.version import environment
from proofmap.data.dataset import Dataset, true_outputs
from proofmap.methods.controls import map_sources
from proofmap.methods.method import Method
from proofmap.results.evaluation import Evaluation, batch_record
from proofmap.results.records import run_scores
from proofmap.study.executor import Executor, LocalExecutor, Lost
from proofmap.study.lock import remove_run, run_folder
from proofmap.study.manifest import Manifest
from proofmap.study.opened import OpenStudy, dataset_settings, open_study
from proofmap.study.planning import Plan, make_plan, measure_speed, units_left
from proofmap.study.resume import (
    failed_units,
    register,
    resolve_manifest,
)
from proofmap.study.sanity import measure_sanity
from proofmap.study.store import MAPS, ImageRow, Store, StoreError, write_maps
from proofmap.study.stored_run import Run, images_of
from proofmap.study.study import Study
from proofmap.study.survey import Survey, changed_images
from proofmap.study.unit import Unit, UnitResult, Worker
from proofmap.study.watchers import Tally, Watcher

GIVE_UP_AFTER = 3
"""A method is given up after it failed on every image of this many units in a row; see :data:`GIVE_UP_IMAGES`."""
GIVE_UP_IMAGES = 8
"""A method is given up only if the units it failed on have at least this many images in total: a unit may have only one."""


@dataclass(frozen=True)
class Outcome:
    """The result of :func:`~proofmap.study.run.run_study`: the folder of the run, the plan, and the number of images that failed."""

    folder: Path
    plan: Plan
    units: int
    """Number of units that this call computed."""
    unreadable: int
    failed: int
    """Number of (method, image) pairs without a result."""
    given_up: Mapping[str, int] = field(default_factory=dict)
    """Methods that kept failing, each with the number of images on which it was not tried. These images count as failed."""
    files: tuple[Path, ...] = ()
    """The files that the callback ``on_end`` wrote."""
    units_before: int = 0
    """Number of units that were finished when this call began."""
    passes: int = 0
    """Number of images passed through the net in this call."""

    @property
    def complete(self) -> bool:
        return self.unreadable == 0 and self.failed == 0

    def evaluation(self) -> Evaluation:
        """Read the results from the folder. Comparisons, audits and reports also accept the outcome itself."""
        with Run(self.folder) as run:
            return run.evaluation()

    def __str__(self) -> str:
        done = f"{self.units} of {counted(self.plan.units, 'unit')} computed now"
        failed = f"{counted(self.failed, f'(method, {self.plan.item}) pair')} failed, {self.unreadable:,} not readable"
        return (
            f"{done}; {failed}; read it with pm.Run({str(self.folder)!r}), or: proofmap report {self.folder}"
        )


def run_study(
    study: Study,
    out: str | Path,
    *,
    classifier: Classifier | None = None,
    dataset: Dataset | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    worker_device: str | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    planned_methods: Sequence[Method] = (),
    watchers: Sequence[Watcher] = (),
    on_sanity: Callable[[dict[str, Any]], None] | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_end: Callable[[Outcome], Sequence[Path]] | None = None,
    wait: bool = False,
    retry: bool = False,
    command: str = "",
) -> Outcome:
    """Compute everything of a study that is not finished yet, and store it in the run directory ``out``.

    Args:
        study: the settings of the study.
        out: the run directory, created if it is missing.
        classifier, dataset: a net and a dataset of this process, used instead of the study's model and data.
        executor: computes the units; by default in this process.
        device: the torch device of the net in this process.
        worker_device: the torch device of the net in other processes; by default ``device``.
        batch_size, threads: both affect the last bits of a result; a run keeps the values it began with.
        planned_methods: methods that will be added to the run later; the size of its units takes them into account.
        watchers: receive the progress.
        on_sanity: callback that receives the numbers of :func:`~proofmap.study.sanity.measure_sanity` before the work starts.
        on_plan: callback that receives the plan before the work starts.
        on_end: callback that receives the outcome when everything is stored, before the watchers' last call. It returns the files it wrote.
        wait: wait for another process that works on this directory, instead of raising.
        retry: compute again what failed before.
        command: the command line, to be recorded in the manifest.
    """
    out = check_output(out)
    before = torch.get_num_threads()
    batches_before = None if classifier is None else (classifier._fixed_batches, classifier._batches)
    try:
        arguments: dict[str, Any] = {
            "classifier": classifier,
            "dataset": dataset,
            "device": device,
            "threads": threads,
        }
        existing = Manifest.find(Path(out))
        if existing is not None:
            _warn_of_kept_settings(existing, study, batch_size, threads)
            arguments |= {"threads": existing.threads, "distractors": existing.distractors}
        opened = open_study(study, **arguments)
        if existing is None and batch_size is not None:
            opened.classifier.fix_batches(batch_size, batch_size)
        # refused before there is a folder: rules that cannot be read, and labels that the net does not have
        strict = LabelRule.parse(study.labels, opened.classifier.names).kind == "true"
        true_outputs(opened.data, opened.classifier.names, None if strict else [], strict=strict)
        with run_folder(out, wait=wait) as folder:
            run = _Run(
                folder,
                opened,
                arguments,
                executor or LocalExecutor(),
                watchers,
                worker_device,
                planned_methods,
                on_sanity,
                on_plan,
                on_end,
                retry,
                command,
            )
            return run.execute()
    finally:
        torch.set_num_threads(before)
        if classifier is not None and batches_before is not None:
            classifier._set_batches(*batches_before)


@dataclass(eq=False)
class _Run:
    """One call of :func:`run_study`, with its arguments. ``arguments`` has the arguments of :func:`open_study`, with which another process
    can open the study again."""

    folder: Path
    opened: OpenStudy
    arguments: dict[str, Any]
    executor: Executor
    watchers: Sequence[Watcher]
    worker_device: str | None
    planned_methods: Sequence[Method]
    on_sanity: Callable[[dict[str, Any]], None] | None
    on_plan: Callable[[Plan], None] | None
    on_end: Callable[[Outcome], Sequence[Path]] | None
    retry: bool
    command: str

    def __post_init__(self) -> None:
        self.tally = Tally(str(self.opened.classifier.device), self.watchers)

    # ---- the stages ---------------------------------------------------------------------------------------------

    def execute(self) -> Outcome:
        self.manifest = self._begin()
        outcome: Outcome | None = None
        self.tally.tell()
        state = "failed"
        try:
            with Store(self.folder, write=True) as self.store:
                outcome = self._execute()
                self._judge_run()
                self.store.finish()
            if self.on_end is not None:
                outcome = replace(outcome, files=tuple(self.on_end(outcome)))
            state = "finished"
            return outcome
        except Exception:
            raise
        except BaseException:
            state = "interrupted"
            raise
        finally:
            files = () if outcome is None else outcome.files
            self.tally.tell(state=state, files=files)

    def _save(self, manifest: Manifest) -> None:
        """Write ``run.json`` if it has changed."""
        if manifest != self.manifest:
            manifest.write(self.folder)
            self.manifest = manifest

    def _execute(self) -> Outcome:
        if self.retry:
            self.store.delete(failed_units(self.manifest, self.store, self.opened))
        remove_parts(self.folder / MAPS)
        lost = _lost_units(self.folder, self.store)
        if lost:
            many = counted(len(lost), "file")
            warnings.warn(
                f"{many} of maps in {self.folder} {'is' if len(lost) == 1 else 'are'} missing, and computed again",
                stacklevel=2,
            )
            self.store.delete(lost)
        images = self._images()
        known = self.manifest.sanity
        if known is None or known["of"] != len(images):  # computed again after images were added
            found = measure_sanity(self.opened, images, chosen=self.manifest.selection.correct)
            self._save(replace(self.manifest, sanity=found))
        if self.on_sanity is not None:
            self.on_sanity(dict(self.manifest.sanity or {}))
        self._save(register(self.manifest, self.store, self.opened))
        methods, metrics = list(self.opened.methods), list(self.opened.metrics)
        taken = map_sources(self.opened.methods)
        waiting = units_left(self.store, images, self.manifest.blocks, methods, metrics, taken)
        plan = self._plan(images, waiting)
        _check_disk_space(self.folder, plan)
        if self.on_plan is not None:
            if waiting and isinstance(self.executor, LocalExecutor):
                speed = measure_speed(self.opened.classifier, plan.expected.known, plan.at_once)
                plan = replace(plan, speed=speed)
            self.on_plan(plan)
        passes = None if plan.cost is None else plan.cost.passes
        self.tally.start(self.store, plan.units, len(waiting), passes)
        if waiting:
            self._save(replace(self.manifest, run_scores=()))  # they would no longer be about all of the run
        finished: set[tuple[str, int]] = set()
        try:
            given_up = self._work(waiting, finished) if waiting else {}
        except BaseException as stop:
            if self.store.is_in_place():
                stop.add_note(_describe_kept(plan, waiting, finished))
            raise
        query = "SELECT method, failures FROM units WHERE failures IS NOT NULL"
        pairs = {(name, image) for name, why in self.store.rows(query) for image in json.loads(why)}
        failed = sum(name in methods for name, _ in pairs) + sum(given_up.values())
        status = self.tally.status
        return Outcome(
            self.folder,
            plan,
            status.units_done - status.units_before,
            self.unreadable,
            failed,
            given_up,
            units_before=status.units_before,
            passes=status.passes_done,
        )

    def _judge_run(self) -> None:
        """Compute and store the metrics that judge the run as a whole, from all stored values."""
        if not self.opened.run_metrics:
            return
        with Run(self.folder) as run:
            results = run.evaluation().results if run.has_results else ()
        self._save(
            replace(self.manifest, run_scores=run_scores(self.opened.run_metrics, results) if results else ())
        )

    def _begin(self) -> Manifest:
        """Raise if the study cannot be added to the run. Otherwise write and return the manifest."""
        live = self.arguments["classifier"] is not None
        manifest, new = resolve_manifest(
            self.folder, self.opened, live=live, retry=self.retry, planned_methods=self.planned_methods
        )
        self.survey = Survey(self.opened, manifest.selection)
        if new:
            remove_run(self.folder)
        # again, since another process may have started the run while we waited for the lock
        torch.set_num_threads(manifest.threads)
        self.opened.classifier.fix_batches(*manifest.batches)
        self.arguments |= {"threads": manifest.threads, "distractors": manifest.distractors}
        self.environment = environment(self.opened.classifier.device)
        manifest = manifest.continued(self.environment, self.command)
        manifest.write(self.folder)
        return manifest

    # ---- before the work ----------------------------------------------------------------------------------------

    def _images(self) -> list[ImageRow]:
        """Survey the study's images, assign them to blocks, and return their rows."""
        selection, inputs = self.manifest.selection, self.opened.classifier.inputs
        images_of(self.manifest, self.store)  # raises if some are lost
        known = self.store.images()
        problems, touched = changed_images(known, self.opened.data)
        problems += self.survey.changed_truths(known)
        if problems:
            more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
            raise InputError(
                f"the {inputs.noun} are not those of {self.folder}: {'; '.join(problems[:5])}{more}. "
                "Restore them, or choose another --out"
            )
        if touched:
            self.store.add_images(touched)

        def report_survey(looked_at: int) -> None:
            self.tally.tell(last=f"{counted(looked_at, inputs.singular)} looked at")

        self.survey.complete(self.store, retry=self.retry, on_progress=report_survey)
        rows = self.store.images()
        self.unreadable = len(selection.passed_over(rows)[0])
        chosen = selection.chosen(rows)
        if not chosen:
            unreadable = [row for row in rows if row.failure is not None]
            first = f", the first because: {unreadable[0].failure}" if unreadable else ""
            raise InputError(
                f"no {inputs.singular} is left to study: {len(rows)} were looked at, {len(unreadable)} cannot be read{first}"
            )
        before = max(self.manifest.chosen, default=0)
        if len(chosen) > before:
            self._save(replace(self.manifest, chosen=(*self.manifest.chosen, len(chosen))))
        return chosen

    def _plan(self, images: Sequence[ImageRow], waiting: Sequence[Unit]) -> Plan:
        labels = sum(len(image.labels) for image in images) / len(images)
        left = Counter(unit.method for unit in waiting)
        return make_plan(self.opened, len(images), labels, len(self.manifest.blocks), left)

    # ---- the work -----------------------------------------------------------------------------------------------

    def _work(self, waiting: Sequence[Unit], finished: set[tuple[str, int]]) -> dict[str, int]:
        """Compute and store the units, and add method and block of each to ``finished``. Returns the methods that kept failing, each with the number of images on which it was not tried."""
        failing: dict[str, list[Unit]] = defaultdict(list)  # the units in a row that a method failed on
        given_up: Counter[str] = Counter()

        def units() -> Iterator[Unit]:
            for unit in waiting:
                failed = failing[unit.method]
                images = sum(len(one.subjects) for one in failed)
                if len(failed) >= GIVE_UP_AFTER and images >= GIVE_UP_IMAGES:
                    given_up[unit.method] += len(unit.subjects)
                else:
                    yield unit

        stored: Future[None] | None = None  # a unit is written while the next one is computed
        with (
            ThreadPoolExecutor(1, thread_name_prefix="proofmap-writer") as writer,
            closing(self.executor.run(self._make_worker(), units())) as results,
        ):
            for unit, result in results:
                if isinstance(result, Lost):
                    reasons = dict.fromkeys(range(len(unit.subjects)), result.reason)
                    result = UnitResult((), reasons, 0.0, 0, self.manifest.batches, self.environment)
                if stored is not None:
                    stored.result()
                stored = writer.submit(self._store, unit, result, finished)
                failing[unit.method] = [] if result.parts else [*failing[unit.method], unit]
                self.tally.unit(unit, result, remote=not isinstance(self.executor, LocalExecutor))
            if stored is not None:
                stored.result()
        return dict(given_up)

    def _store(self, unit: Unit, result: UnitResult, finished: set[tuple[str, int]]) -> None:
        """Store a unit: what it adds to ``run.json``, the file of its maps, and then its row in the database, which names the file."""
        forward, gradient = map(min, result.batches, self.manifest.batches)
        manifest = replace(self.manifest.continued(result.environment), batches=(forward, gradient))
        if batch_record(result.batch_difference) and result.batch_difference > (
            manifest.batch_difference or 0
        ):
            manifest = replace(manifest, batch_difference=result.batch_difference)
        curves = [part.insertion for part in result.parts if part.insertion is not None]
        game = None
        if curves:
            about = {
                "counts": curves[0].counts.tolist(),
                "positions": curves[0].positions,
                "settings": curves[0].settings,
            }
            game = f"insertion {digest_of(json.dumps(about, sort_keys=True, default=str))}"
            manifest = (
                replace(manifest, games={game: about, **manifest.games})
                if game not in manifest.games
                else manifest
            )
        self._save(manifest)
        kept = [part for part in result.parts if len(part.maps)]
        names = [unit.subjects[place].name for part in kept for place in part.places]
        dtype = torch.float32 if self.opened.study.maps == "float32" else torch.float16
        results = _arrays(len(unit.subjects), result)
        row = {
            "block": unit.block,
            "method": unit.method,
            "metrics": json.dumps(unit.metrics),
            "maps": write_maps(self.folder, torch.cat([part.maps for part in kept]), names, dtype)
            if kept
            else None,
            "failures": json.dumps({unit.subjects[place].name: why for place, why in result.failures.items()})
            if result.failures
            else None,
            "judged": sum(len(part.places) for part in result.parts),
            "game": game,
            "scores": json.dumps({name: _sum(results.get(f"value {name}")) for name in unit.metrics}),
            "environment": self.manifest.environments.index(result.environment),
            "batches": json.dumps(result.batches),
            "seconds": result.seconds,
            "passes": result.passes,
            "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "results": save(results),
        }
        self.store.add_unit(row)
        finished.add((unit.method, unit.block))

    def _make_worker(self) -> Callable[[], Worker]:
        batches = self.manifest.batches
        if isinstance(self.executor, LocalExecutor):
            return lambda: Worker(self.opened, batches, self.folder, self.tally)
        # another process opens the data by its settings, if it can be opened so
        settings = dataset_settings(self.opened.data)
        arguments = {**self.arguments, "dataset": settings if settings.get("dataset") else self.opened.data}
        arguments["device"] = self.worker_device or arguments["device"]
        return partial(Worker.open, self.opened.study, batches, self.folder, **arguments)


def _sum(values: np.ndarray | None) -> tuple[float, int]:
    known = [] if values is None else [value for value in values.tolist() if not math.isnan(value)]
    return math.fsum(known), len(known)


def _arrays(images: int, result: UnitResult) -> dict[str, np.ndarray]:
    """The values and curves of a unit by name, with a row for each of its images; NaN for those that failed."""
    found: dict[str, np.ndarray] = {}
    for part in result.parts:
        curves = part.insertion
        tensors = {f"value {name}": values + 0.0 for name, values in part.values.items()}
        tensors |= {f"pair {name}": table + 0.0 for name, table in part.pairs.items()}
        for name in ("probabilities", "f", "auc", "error", "matrix") if curves is not None else ():
            tensor = getattr(curves, name)
            tensors |= {} if tensor is None else {name: tensor}
        for name, tensor in tensors.items():
            array = tensor.numpy()
            if name not in found:
                found[name] = np.full((images, *array.shape[1:]), np.nan, dtype=np.float32)
            found[name][list(part.places)] = array
    return found


def _warn_of_kept_settings(run: Manifest, study: Study, batch_size: int | None, threads: int | None) -> None:
    """Warn if the study asks for a block size, batch size or number of threads that differs from the run's."""
    requested = {
        "images per unit": (study.images_per_unit, [run.images_per_unit]),
        "threads": (threads, [run.threads]),
        "batch size": (batch_size, sorted(set(run.batches))),
    }
    for name, (wanted, kept) in requested.items():
        if wanted is not None and [wanted] != kept:
            shown = " and ".join(map(str, kept))
            warnings.warn(f"the run keeps the {name} it began with, {shown}, not {wanted}", stacklevel=3)


def _lost_units(folder: Path, store: Store) -> list[tuple[str, int]]:
    """Method and block of the units whose file of maps is missing. They are computed again."""
    path = folder / MAPS
    if not path.is_dir() and (path.is_symlink() or path.exists()):
        raise StoreError(
            f"{path} is not a folder, or a link to one that is missing. Put the folder of maps back, or remove it"
        )
    there = set(os.listdir(path)) if path.is_dir() else set()
    return [
        (method, block)
        for method, block, maps in store.rows("SELECT method, block, maps FROM units WHERE maps IS NOT NULL")
        if os.path.basename(maps) not in there
    ]


def _check_disk_space(folder: Path, plan: Plan) -> None:
    """Raise if the planned maps do not fit on the disk."""
    maps = folder / MAPS
    free = shutil.disk_usage(maps if maps.is_dir() else folder).free  # it may be a link to another disk
    if plan.map_bytes > free:
        raise StoreError(
            f"the maps will take {size_text(plan.map_bytes)}, but only {size_text(free)} are free in {folder}. Use --maps none, choose another --out, or make room"
        )


def _describe_kept(plan: Plan, waiting: Sequence[Unit], finished: Collection[tuple[str, int]]) -> str:
    """A phrase that says how many results a stopped run has kept. ``finished`` has the (method, block) pairs finished in this call."""
    every = plan.images * len(plan.methods)
    kept = every - sum(len(unit.subjects) for unit in waiting if (unit.method, unit.block) not in finished)
    return (
        f"kept {kept:,} of {counted(every, 'result')} ({counted(plan.images, plan.item)} x {counted(len(plan.methods), 'method')}); "
        "run the same command to continue"
    )
