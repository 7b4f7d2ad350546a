"""Runs a study: plans it, computes the missing units and stores them. A run that was stopped continues where it left off.

A unit is one method on one block of images.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from proofmap.classifier import Classifier
from proofmap.core.environment import environment
from proofmap.core.errors import InputError
from proofmap.core.files import check_output
from proofmap.core.labels import LabelRule
from proofmap.core.text import counted
from proofmap.data.dataset import Dataset, true_outputs
from proofmap.methods.controls import map_sources
from proofmap.methods.method import Method
from proofmap.plugins.failures import exit_as_error
from proofmap.results.records import run_scores
from proofmap.study.executors.executor import Executor, LocalExecutor, Lost
from proofmap.study.manifest import Manifest
from proofmap.study.opened import OpenStudy, dataset_settings, open_study
from proofmap.study.outcome import Outcome, describe_kept
from proofmap.study.planning.cost import speed_if_slow
from proofmap.study.planning.plan import Plan, Work, digest, make_plan, new_blocks, work_of
from proofmap.study.reading.stored_run import Run
from proofmap.study.resume import (
    check_disk_space,
    check_stored,
    existing_manifest,
    failed_units,
    registrations,
    remove_empty_run,
    replace_corrected,
    resolve_manifest,
    run_folder,
    warn_of_kept_settings,
)
from proofmap.study.sanity import Sanity, check_sanity
from proofmap.study.selection import chosen_images, unreadable_images
from proofmap.study.sink import RunSink
from proofmap.study.store.database import Store
from proofmap.study.store.records import ImageRow, Registered
from proofmap.study.study import Study
from proofmap.study.survey import Survey, changed_images
from proofmap.study.tally import Tally
from proofmap.study.unit import Unit, UnitResult, Worker, open_worker
from proofmap.study.watchers.status import State, Watcher, Watchers

GIVE_UP_AFTER = 3
"""A method is given up after it failed on every image of this many units in a row; see :data:`GIVE_UP_IMAGES`."""
GIVE_UP_IMAGES = 8
"""A method is given up only if the units it failed on have at least this many images in total: a unit may have only one."""


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
    on_sanity: Callable[[Sanity], None] | None = None,
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
        on_sanity: callback that receives the numbers of :mod:`proofmap.study.sanity` before the work starts.
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
        existing = existing_manifest(Path(out))
        if existing is not None:
            warn_of_kept_settings(existing, study, batch_size, threads)
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
                Watchers(*watchers),
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
    watchers: Watchers
    worker_device: str | None
    planned_methods: Sequence[Method]
    on_sanity: Callable[[Sanity], None] | None
    on_plan: Callable[[Plan], None] | None
    on_end: Callable[[Outcome], Sequence[Path]] | None
    retry: bool
    command: str

    def __post_init__(self) -> None:
        self.tally = Tally(str(self.opened.classifier.device))
        self.tally.progress.tick = lambda: self._notify("running")

    # ---- the stages ---------------------------------------------------------------------------------------------

    def execute(self) -> Outcome:
        self.manifest = self._begin()
        outcome: Outcome | None = None
        self.watchers.begin(self.manifest.study, self.tally.status("surveying"))
        state: State = "failed"
        try:
            with Store(self.folder, create=True) as self.store:
                outcome = self._execute()
                self._judge_run()
                self.store.checkpoint()
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
            self.watchers.end(replace(self.tally.status(state), files=files))

    def _execute(self) -> Outcome:
        if self.retry:
            self.store.delete_units(failed_units(self.store, self.opened))
        check_stored(self.folder, self.store)
        images = self._images()
        sanity = check_sanity(self.store, self.opened, images, chosen=self.manifest.selection.correct)
        if self.on_sanity is not None:
            self.on_sanity(sanity)
        methods, metrics = self._register()
        context = digest(self.manifest.identity)  # what every unit's result depends on
        work = work_of(self.store, images, methods, metrics, context, map_sources(self.opened.methods))
        plan = self._plan(images, work)
        check_disk_space(self.folder, plan)
        speed = None
        if self.on_plan is not None:
            here = work.waiting and isinstance(self.executor, LocalExecutor)
            speed = speed_if_slow(self.opened.classifier, plan.expected, plan.at_once) if here else None
            self.on_plan(replace(plan, speed=speed))
        passes = None if plan.cost is None else plan.cost.passes
        seconds = None if speed is None else speed.seconds(plan.expected.known)
        self.tally.start(self.store, work.units, len(work.waiting), passes, seconds)
        self._notify("running")
        if work.waiting:
            self.store.set_run_scores(())  # they would no longer be about all of the run
        sink = RunSink(self.folder, self.store, self.manifest, methods, metrics, self.opened.study.maps)
        try:
            given_up = self._work(work, sink) if work.waiting else {}
        except BaseException as stop:
            if self.store.is_in_place():
                stop.add_note(describe_kept(work, sink.finished, self.opened.classifier.inputs.singular))
            raise
        query = (
            "SELECT methods.name, count(*) FROM failures JOIN methods ON methods.id = method GROUP BY method"
        )
        failed = sum(n for name, n in self.store.rows(query) if name in methods) + sum(given_up.values())
        status = self.tally.status("running")
        return Outcome(
            self.folder,
            plan,
            self.tally.computed,
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
        self.store.set_run_scores(run_scores(self.opened.run_metrics, results) if results else ())

    def _begin(self) -> Manifest:
        """Raise if the study cannot be added to the run. Otherwise write and return the manifest."""
        live = self.arguments["classifier"] is not None
        manifest, new = resolve_manifest(
            self.folder, self.opened, live=live, retry=self.retry, planned_methods=self.planned_methods
        )
        self.survey = Survey(self.opened, manifest.selection)
        if new:
            remove_empty_run(self.folder)
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
        known = self.store.images()
        problems, stamps = changed_images(known, self.opened.data)
        problems += self.survey.changed_truths(known)
        if problems:
            more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
            raise InputError(
                f"the {inputs.noun} are not those of {self.folder}: {'; '.join(problems[:5])}{more}. "
                "Restore them, or choose another --out"
            )
        if stamps:
            self.store.set_stamps(stamps)
        self.store.set_label_names(self.opened.classifier.names)

        def report_survey(looked_at: int) -> None:
            self.tally.last = f"{counted(looked_at, inputs.singular)} looked at"
            self._notify("surveying")

        self.survey.complete(self.store, retry=self.retry, on_progress=report_survey)
        rows = self.store.images()
        self.unreadable = len(unreadable_images(rows, selection))
        chosen = chosen_images(rows, selection)
        if not chosen:
            unreadable = [row for row in rows if row.failure is not None]
            first = f", the first because: {unreadable[0].failure}" if unreadable else ""
            raise InputError(
                f"no {inputs.singular} is left to study: {len(rows)} were looked at, {len(unreadable)} cannot be read{first}"
            )
        free = new_blocks(chosen, self.manifest.images_per_unit)
        if not free:
            return chosen
        self.store.add_blocks(free)
        return chosen_images(self.store.images(), selection)

    def _register(self) -> tuple[dict[str, Registered], dict[str, Registered]]:
        """Add the study's methods and metrics to the run. Results of earlier studies are kept."""
        replace_corrected(self.store, self.opened)
        for kind, things in registrations(self.opened).items():
            self.store.register(kind, things)
        methods, metrics = (self.store.registered(kind) for kind in ("methods", "metrics"))
        return (
            {name: methods[name] for name in self.opened.methods},
            {name: metrics[name] for name in self.opened.metrics},
        )

    @exit_as_error()
    def _plan(self, images: Sequence[ImageRow], work: Work) -> Plan:
        labels = sum(len(image.labels) for image in images) / len(images)
        waiting = Counter(unit.method for unit in work.waiting)
        return make_plan(self.opened, len(images), labels, len(work.images), waiting)

    # ---- the work -----------------------------------------------------------------------------------------------

    def _work(self, work: Work, sink: RunSink) -> dict[str, int]:
        """Compute and store the units. Returns the methods that kept failing, each with the number of images on which it was not tried."""
        failing: dict[str, list[Unit]] = defaultdict(list)  # the units in a row that a method failed on
        given_up: Counter[str] = Counter()

        def units() -> Iterator[Unit]:
            for unit in work.waiting:
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
                stored = writer.submit(sink.add, unit, result)
                failing[unit.method] = [] if result.parts else [*failing[unit.method], unit]
                self.tally.unit(unit, result, remote=not isinstance(self.executor, LocalExecutor))
                self._notify("running")
            if stored is not None:
                stored.result()
        return dict(given_up)

    def _make_worker(self) -> Callable[[], Worker]:
        batches = self.manifest.batches
        if isinstance(self.executor, LocalExecutor):
            return lambda: Worker(self.opened, batches, self.folder, self.tally.progress)
        # another process opens the data by its settings, if it can be opened so
        settings = dataset_settings(self.opened.data)
        arguments = {**self.arguments, "dataset": settings if settings.get("dataset") else self.opened.data}
        arguments["device"] = self.worker_device or arguments["device"]
        return partial(open_worker, self.opened.study, batches, self.folder, **arguments)

    def _notify(self, state: State) -> None:
        self.watchers.update(self.tally.status(state))
