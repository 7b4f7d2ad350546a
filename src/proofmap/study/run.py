"""Runs a study: plans it, computes the missing units and stores them. A run that was stopped continues where it left off.

A unit is one method on one block of images.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import check_output, output_folder, remove_parts
from proofmap.core.labels import LabelRule
from proofmap.core.text import counted, size_text
from proofmap.core.version import environment
from proofmap.data.dataset import Dataset, true_outputs
from proofmap.methods.controls import map_sources
from proofmap.results.evaluation import Evaluation, batch_record
from proofmap.results.notes import distractor_words
from proofmap.results.records import run_scores
from proofmap.study.executor import Executor, LocalExecutor, Lost
from proofmap.study.manifest import FILE, Manifest
from proofmap.study.opened import OpenStudy, dataset_settings, open_study
from proofmap.study.planning import Plan, Unit, measure_speed, units_left
from proofmap.study.resume import register, resolve_manifest
from proofmap.study.store import IMAGES, LOCK, MAPS, SCORES, ImageRow, Store, StoreError
from proofmap.study.stored_run import Run
from proofmap.study.study import Study
from proofmap.study.survey import Survey
from proofmap.study.unit import UnitResult, Worker
from proofmap.study.watchers import Tally, Watcher, progress_file

PROGRESS = "progress.json"
GIVE_UP_AFTER = 8
"""A method is given up after it failed on every image of this many units in a row."""
_LOOKED_AT = 16  # pictures read in a dry run, to estimate how many labels an image has


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
    watchers: Sequence[Watcher] = (),
    on_plan: Callable[[Plan], None] | None = None,
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
        watchers: functions that receive the progress, a :class:`~proofmap.study.Status`.
        on_plan: callback that receives the plan before the work starts.
        wait: wait for another process that works on this directory, instead of raising.
        retry: compute again what failed before.
        command: the command line, to be recorded in the manifest.
    """
    out, before = check_output(out), torch.get_num_threads()
    batches_before = None if classifier is None else (classifier._fixed_batches, classifier._batches)
    try:
        arguments: dict[str, Any] = {"classifier": classifier, "device": device, "threads": threads}
        existing = Manifest.find(Path(out))
        if existing is not None:
            _warn_of_kept_settings(existing, study, batch_size, threads)
            arguments |= {"threads": existing.threads, "distractors": existing.distractors}
        opened = open_study(study, dataset=dataset, **arguments)
        if existing is None and batch_size is not None:
            opened.classifier.fix_batches(batch_size, batch_size)
        # refused before there is a folder: rules that cannot be read, and labels that the net does not have
        strict = LabelRule.parse(study.labels, opened.classifier.names).kind == "true"
        true_outputs(opened.data, opened.classifier.names, None if strict else [], strict=strict)
        missing = [folder for folder in (Path(out), *Path(out).parents) if not os.path.exists(folder)]
        folder = output_folder(out)
        run = _Run(
            folder, opened, arguments, executor or LocalExecutor(), watchers, worker_device, on_plan, retry
        )
        with Store.locked(folder, wait=wait):
            is_new = not any((folder / name).exists() for name in (FILE, SCORES))
            try:
                return run.execute(command)
            except InputError:
                if is_new and not run.finished:  # nothing is left of a study that was refused
                    with suppress(OSError):  # the refusal is what counts; Windows keeps a file that is open
                        _remove(folder, *_FILES, PROGRESS, LOCK)
                        for empty in missing:
                            empty.rmdir()
                raise
    finally:
        torch.set_num_threads(before)
        if classifier is not None and batches_before is not None:
            classifier._set_batches(*batches_before)


def _warn_of_kept_settings(run: Manifest, study: Study, batch_size: int | None, threads: int | None) -> None:
    """Warn if the study asks for a block size, batch size or number of threads that differs from the run's."""
    for name, wanted, kept in (
        ("images per unit", study.images_per_unit, {run.images_per_unit}),
        ("threads", threads, {run.threads}),
        ("batch size", batch_size, {*run.batches}),
    ):
        if wanted is not None and {wanted} != kept:
            shown = " and ".join(map(str, sorted(kept)))
            warnings.warn(f"the run keeps the {name} it began with, {shown}, not {wanted}", stacklevel=3)


def _remove(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


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
    on_plan: Callable[[Plan], None] | None
    retry: bool

    def __post_init__(self) -> None:
        self.tally = Tally([*self.watchers, progress_file(self.folder / PROGRESS)])
        self.is_local = isinstance(self.executor, LocalExecutor)
        self.finished: set[tuple[str, int]] = set()
        """Method and block of each unit that this call has stored."""

    # ---- the stages ---------------------------------------------------------------------------------------------

    def execute(self, command: str) -> Outcome:
        self.manifest = self._begin(command)
        state = "failed"
        try:
            self.tally.tell()
            with Store(self.folder, write=True) as self.store:
                outcome = self._execute()
                if self.opened.run_metrics:  # they judge all stored values
                    with Run(self.folder) as run:
                        results = run.evaluation().results if run.has_results else ()
                    found = run_scores(self.opened.run_metrics, results) if results else ()
                    self._save(replace(self.manifest, run_scores=found))
                self.store.finish()
            state = "finished"
            return outcome
        except Exception:
            raise
        except BaseException:
            state = "interrupted"
            raise
        finally:
            self.tally.tell(state=state)

    def _begin(self, command: str) -> Manifest:
        """Raise if the study cannot be added to the run. Otherwise write and return the manifest."""
        live = self.arguments["classifier"] is not None
        manifest, new = resolve_manifest(self.folder, self.opened, live=live, retry=self.retry)
        self.survey = Survey(self.opened, manifest.selection)
        if new:
            _remove(self.folder, *_FILES)
        # again, since another process may have started the run while we waited for the lock
        torch.set_num_threads(manifest.threads)
        self.opened.classifier.fix_batches(*manifest.batches)
        self.arguments |= {"threads": manifest.threads, "distractors": manifest.distractors}
        self.environment = environment(self.opened.classifier.device)
        manifest = manifest.continued(self.environment, command)
        manifest.write(self.folder)
        return manifest

    def _save(self, manifest: Manifest) -> None:
        """Write ``run.json`` if it has changed."""
        if manifest != self.manifest:
            manifest.write(self.folder)
            self.manifest = manifest

    def _execute(self) -> Outcome:
        store, opened = self.store, self.opened
        remove_parts(self.folder / MAPS)
        lost = _lost_units(self.folder, store)
        if lost:
            many = (
                f"{counted(len(lost), 'file')} of maps in {self.folder} {'is' if len(lost) == 1 else 'are'}"
            )
            warnings.warn(f"{many} missing, and computed again", stacklevel=2)
            store.delete(lost)
        images = self._images()
        known = self.manifest.sanity
        if known is None or known["of"] != len(images):  # computed again after images were added
            found = self.survey.sanity(images)
            self._save(replace(self.manifest, sanity=found))
        self._save(register(self.manifest, store, opened, retry=self.retry))
        taken, methods = map_sources(opened.methods), list(opened.methods)
        waiting = units_left(store, images, self.manifest.blocks, methods, list(opened.metrics), taken)
        plan = self._plan(images, waiting)
        _check_disk_space(self.folder, plan)
        if self.on_plan is not None:
            self.on_plan(plan)
        before, passes = plan.units - len(waiting), None if plan.cost is None else plan.cost.passes
        self.tally.tell(
            state="running",
            units_total=plan.units,
            units_before=before,
            units_done=before,
            passes_total=passes,
        )
        if waiting:
            self._save(replace(self.manifest, run_scores=()))  # they would no longer be about all of the run
        try:
            given_up = self._work(waiting) if waiting else {}
        except BaseException as stop:
            if store.is_in_place():
                stop.add_note(_describe_kept(plan, waiting, self.finished))
            raise
        query = "SELECT method, failures FROM units WHERE failures IS NOT NULL"
        pairs = {(name, image) for name, why in store.rows(query) for image in json.loads(why)}
        return Outcome(
            self.folder,
            plan,
            units=self.tally.status.units_done - before,
            unreadable=len(self.manifest.selection.passed_over(store.images())[0]),
            failed=sum(name in methods for name, _ in pairs) + sum(given_up.values()),
            given_up=given_up,
            passes=self.tally.passes_done,
        )

    # ---- before the work ----------------------------------------------------------------------------------------

    def _images(self) -> list[ImageRow]:
        """Survey the study's images, assign them to blocks, and return their rows."""
        selection, inputs = self.manifest.selection, self.opened.classifier.inputs
        self.manifest.images(self.store)  # raises if some are lost
        problems = self.survey.changes(self.store.images())
        if problems:
            more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
            raise InputError(
                f"the {inputs.noun} are not those of {self.folder}: {'; '.join(problems[:5])}{more}. "
                "Restore them, or choose another --out"
            )

        def report_survey(looked_at: int) -> None:
            self.tally.tell(last=f"{counted(looked_at, inputs.singular)} looked at")

        self.survey.complete(self.store, retry=self.retry, on_progress=report_survey)
        rows = self.store.images()
        chosen = selection.chosen(rows)
        if not chosen:
            unreadable = [row for row in rows if row.failure is not None]
            first = f", the first because: {unreadable[0].failure}" if unreadable else ""
            raise InputError(
                f"no {inputs.singular} is left to study: {len(rows)} were looked at, {len(unreadable)} cannot be read{first}"
            )
        if len(chosen) > max(self.manifest.chosen, default=0):
            self._save(replace(self.manifest, chosen=(*self.manifest.chosen, len(chosen))))
        return chosen

    def _plan(self, images: Sequence[ImageRow], waiting: Sequence[Unit]) -> Plan:
        """The plan, with the speed of this machine if someone wants to know it."""
        labels = sum(len(image.labels) for image in images) / len(images)
        left = Counter(unit.method for unit in waiting)
        plan = Plan.of(self.opened, len(images), labels, len(self.manifest.blocks), left)
        plan = replace(plan, sanity=self.manifest.sanity or {})
        if self.on_plan is None or not waiting or not self.is_local:
            return plan
        return replace(plan, speed=measure_speed(self.opened.classifier, plan.expected.known, plan.at_once))

    # ---- the work -----------------------------------------------------------------------------------------------

    def _work(self, waiting: Sequence[Unit]) -> dict[str, int]:
        """Compute and store the units. Returns the methods that kept failing, each with the number of images on which it was not tried."""
        failing, given_up = Counter[str](), Counter[str]()  # failing: in how many units in a row

        def units() -> Iterator[Unit]:
            for unit in waiting:
                if failing[unit.method] >= GIVE_UP_AFTER:
                    given_up[unit.method] += len(unit.subjects)
                else:
                    yield unit

        with closing(self.executor.run(self._make_worker(), units())) as results:
            for unit, result in results:
                if isinstance(result, Lost):
                    reasons = dict.fromkeys(range(len(unit.subjects)), result.reason)
                    result = UnitResult((), reasons, 0.0, 0, self.manifest.batches, self.environment)
                self._store(unit, result)
                failing[unit.method] = 0 if result.parts else failing[unit.method] + 1
                self.tally.unit(
                    str(unit), failed=not result.parts, passes=0 if self.is_local else result.passes
                )
        return dict(given_up)

    def _store(self, unit: Unit, result: UnitResult) -> None:
        """Store a unit: what it adds to ``run.json``, the file of its maps, and then its row in the database, which names the file."""
        forward, gradient = map(min, result.batches, self.manifest.batches)
        manifest = replace(self.manifest.continued(result.environment), batches=(forward, gradient))
        if batch_record(result.batch_difference) and result.batch_difference > (
            manifest.batch_difference or 0
        ):
            manifest = replace(manifest, batch_difference=result.batch_difference)
        shown = next((part.insertion for part in result.parts if part.insertion is not None), None)
        keep_curves = False
        if shown is not None:
            game = {"counts": shown.counts.tolist(), "positions": shown.positions, "settings": shown.settings}
            game = json.loads(json.dumps(game, default=str))
            manifest = replace(manifest, game=manifest.game or game)
            keep_curves = game == manifest.game
        self._save(manifest)
        kept = [part for part in result.parts if len(part.maps)]
        names = [unit.subjects[place].name for part in kept for place in part.places]
        dtype = torch.float32 if self.opened.study.maps == "float32" else torch.float16
        maps = self.store.write_maps(torch.cat([part.maps for part in kept]), names, dtype) if kept else None
        failures = {unit.subjects[place].name: why for place, why in result.failures.items()}
        self.store.add_unit(
            {
                "block": unit.block,
                "method": unit.method,
                "metrics": json.dumps(unit.metrics),
                "maps": maps,
                "failures": json.dumps(failures) if failures else None,
                "judged": sum(len(part.places) for part in result.parts),
                "seconds": result.seconds,
                "passes": result.passes,
                "results": save(_arrays(len(unit.subjects), result, curves=keep_curves)),
            }
        )
        self.finished.add((unit.method, unit.block))

    def _make_worker(self) -> Callable[[], Worker]:
        batches = self.manifest.batches
        if self.is_local:
            return lambda: Worker(self.opened, batches, self.folder, self.tally)
        # another process opens the data by its settings, if it can be opened so
        settings = dataset_settings(self.opened.data)
        arguments = {**self.arguments, "dataset": settings if settings.get("dataset") else self.opened.data}
        arguments["device"] = self.worker_device or arguments["device"]
        return partial(Worker.open, self.opened.study, batches, self.folder, **arguments)


_FILES = (FILE, IMAGES, SCORES, f"{SCORES}-wal", f"{SCORES}-shm")


def _arrays(images: int, result: UnitResult, *, curves: bool) -> dict[str, np.ndarray]:
    """The values, and the curves if they are wanted, of a unit by name, with a row for each of its images; NaN for those that failed."""
    found: dict[str, np.ndarray] = {}
    for part in result.parts:
        tensors = {f"value {name}": values + 0.0 for name, values in part.values.items()}
        tensors |= {f"pair {name}": table + 0.0 for name, table in part.pairs.items()}
        if curves and part.insertion is not None:
            shown = {
                name: getattr(part.insertion, name)
                for name in ("probabilities", "f", "auc", "error", "matrix")
            }
            tensors |= {name: tensor for name, tensor in shown.items() if tensor is not None}
        for name, tensor in tensors.items():
            array = tensor.numpy()
            if name not in found:
                found[name] = np.full((images, *array.shape[1:]), np.nan, dtype=np.float32)
            found[name][list(part.places)] = array
    return found


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
            f"the maps will take {size_text(plan.map_bytes)}, but only {size_text(free)} are free in {folder}. Use --store-maps none, choose another --out, or make room"
        )


def _describe_kept(plan: Plan, waiting: Sequence[Unit], finished: Collection[tuple[str, int]]) -> str:
    """A phrase that says how many results a stopped run has kept. ``finished`` has the (method, block) pairs finished in this call."""
    every = plan.images * len(plan.methods)
    kept = every - sum(len(unit.subjects) for unit in waiting if (unit.method, unit.block) not in finished)
    return (
        f"kept {kept:,} of {counted(every, 'result')} ({counted(plan.images, plan.item)} x {counted(len(plan.methods), 'method')}); "
        "run the same command to continue"
    )


# ---- beside the work --------------------------------------------------------------------------------------------


def preview(study: Study, out: Path, *, device: str | None = None, threads: int | None = None) -> Plan:
    """A dry run: the plan of a study for the run directory ``out``, which may or may not exist, with the speed of this machine."""
    existing = Manifest.find(out)
    threads, distractors = (threads, None) if existing is None else (existing.threads, existing.distractors)
    opened = open_study(study, device=device, threads=threads, distractors=distractors)
    classifier, methods, metrics = opened.classifier, opened.methods, opened.metrics
    manifest, new = resolve_manifest(out, opened, live=False)
    classifier.fix_batches(*manifest.batches)
    rows: list[ImageRow] = []
    left: Mapping[str, int] = dict.fromkeys(methods, len(manifest.blocks))
    if not new and (out / SCORES).exists():
        with Store(out) as store:
            rows, taken = manifest.selection.chosen(store.images()), map_sources(methods)
            units = units_left(store, rows, manifest.blocks, [*methods], [*metrics], taken)
            left = Counter(unit.method for unit in units)
    selection, survey = study.images, Survey(opened, study.images)
    filtered = selection.correct or selection.min_second_probability is not None or survey.rule.kind == "true"
    order = survey.order()
    wanted = len(order) if selection.number is None else min(selection.number, len(order))
    images = max(len(rows), wanted)
    looked_at = rows or [row for row in survey.look(order[:_LOOKED_AT]) if row.labels]
    labels = sum(len(row.labels) for row in looked_at) / max(1, len(looked_at))
    more = -(-(images - max(manifest.chosen, default=0)) // manifest.images_per_unit)
    waiting = {name: left[name] + more for name in methods}
    plan = Plan.of(opened, images, labels, len(manifest.blocks) + more, waiting)
    judging = opened.session.judging()
    return replace(
        plan,
        speed=measure_speed(classifier, plan.expected.known, plan.at_once),
        sure=len(rows) >= wanted or not filtered,
        device=str(classifier.device),
        distractors=distractor_words(
            (method.record(opened.session) for method in methods.values()),
            (metric.full_record(judging) for metric in metrics.values()),
        ),
    )


def forget_methods(folder: str | Path, methods: Sequence[str]) -> None:
    """Remove methods and all their results from a run."""
    folder = Path(folder)
    Manifest.read(folder)  # a folder that is no run is refused before a lock is made in it
    with Store.locked(folder), Store(folder, write=True) as store:
        manifest = Manifest.read(folder)
        for method in methods:
            if method not in manifest.methods:
                raise InputError(f"{folder} has no method {method!r}; it has {', '.join(manifest.methods)}")
        for method in methods:
            store.delete(method=method)
        left = {name: own for name, own in manifest.methods.items() if name not in methods}
        # the scores of the run were about all methods
        replace(manifest, methods=left, run_scores=()).write(folder)
