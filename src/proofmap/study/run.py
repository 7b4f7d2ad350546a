"""Run a study: plan it, do what is still to do, store it. Stopped at any moment, it goes on where it was."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from proofmap._code import foreign_code
from proofmap._files import check_output, output_folder
from proofmap.classifier import Classifier
from proofmap.data.dataset import Dataset
from proofmap.errors import InputError
from proofmap.labels import LabelRule
from proofmap.metrics.curves import Curves
from proofmap.study.environment import environment
from proofmap.study.executor import Executor, LocalExecutor, Lost
from proofmap.study.lock import locked
from proofmap.study.manifest import (
    FILE as MANIFEST,
)
from proofmap.study.manifest import (
    Manifest,
    check_same,
    identity_of,
    new_manifest,
    same_settings,
)
from proofmap.study.maps import MapsFile, left_over, problem_with, write_maps
from proofmap.study.plan import Plan, Work, block_size, cut, digest, make_plan, work_of
from proofmap.study.rows import unit_row
from proofmap.study.schema import StoreError
from proofmap.study.setup import Ready, Setup
from proofmap.study.store import (
    FILE as SCORES,
)
from proofmap.study.store import (
    ImageRow,
    Registered,
    Store,
    damaged,
)
from proofmap.study.study import Study
from proofmap.study.survey import Survey, changed_images, chosen_images
from proofmap.study.tally import Tally
from proofmap.study.unit import Unit, UnitResult
from proofmap.study.watch import State, Watcher, Watchers

GIVE_UP_AFTER = 3
"""A method that fails on every image of so many units in a row is not tried further in this run."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its folder, its plan, and how many images failed."""

    folder: Path
    plan: Plan
    units: int
    """Units computed now."""
    unreadable: int
    failed: int
    """(method, image) pairs without a result."""

    @property
    def complete(self) -> bool:
        return self.unreadable == 0 and self.failed == 0


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
    """Do all of a study that is not done yet, into the run directory ``out``.

    Args:
        classifier, dataset: a net and pictures of this process, in place of the study's model and data.
        executor: where units are computed; this process when left out.
        device, worker_device: where the net runs here, and in other processes if that is somewhere else.
        batch_size, threads: fix what decides the last bits; a run keeps those it began with.
        watchers: who is told how it goes.
        on_plan: called with the plan before the work starts.
        wait: wait for another process that works on this directory, instead of refusing.
        retry: do again what failed before.
        command: the command line, for the manifest.
    """
    check_output(out)
    before = torch.get_num_threads()
    try:
        setup = Setup(study=study, classifier=classifier, dataset=dataset, device=device, threads=threads)
        existing = _existing(Path(out))
        if existing is not None:
            setup = replace(setup, threads=existing.threads)
        ready = setup.open()
        if existing is None and batch_size is not None:
            ready.classifier.fix_batches(batch_size, batch_size)
        folder = output_folder(out)
        with locked(folder, wait=wait):
            run = _Run(folder, setup, ready, executor or LocalExecutor(), watchers, worker_device)
            return run.go(on_plan, retry, command)
    finally:
        torch.set_num_threads(before)


def _existing(folder: Path) -> Manifest | None:
    return Manifest.read(folder) if (folder / MANIFEST).exists() else None


class _Run:
    def __init__(
        self,
        folder: Path,
        setup: Setup,
        ready: Ready,
        executor: Executor,
        watchers: Sequence[Watcher],
        worker_device: str | None,
    ) -> None:
        self.worker_device = worker_device
        self.folder, self.setup, self.ready, self.executor = folder, setup, ready, executor
        self.watchers = Watchers(*watchers)
        self.tally = Tally(str(ready.classifier.device))
        self.tally.progress.tick = lambda: self._tell("running")
        self._games: set[str] = set()

    # ---- the whole ----------------------------------------------------------------------------------------------

    def go(self, on_plan: Callable[[Plan], None] | None, retry: bool, command: str) -> Outcome:
        self.manifest = self._manifest(command)
        self.watchers.begin(self.manifest.study, self.tally.standing("surveying"))
        state: State = "failed"
        try:
            with Store(self.folder, create=True) as self.store:
                outcome = self._go(on_plan, retry)
                self.store.checkpoint()
            state = "finished"
            return outcome
        except Exception:
            raise
        except BaseException:
            state = "interrupted"
            raise
        finally:
            self.watchers.end(self.tally.standing(state))

    def _go(self, on_plan: Callable[[Plan], None] | None, retry: bool) -> Outcome:
        if retry:
            self.store.forget_units([u for (u,) in self.store.rows("SELECT DISTINCT unit FROM failures")])
        self._check_maps()
        images = self._images(retry)
        self.methods, self.metrics = self._register()
        work = work_of(self.store, images, self.methods, self.metrics, self._context())
        plan = self._plan(images, work)
        self._check_room(plan)
        if on_plan is not None:
            on_plan(plan)
        passes = None if plan.cost is None else plan.cost.passes
        self.tally.start(self.store, work.units, len(work.waiting), passes)
        self._tell("running")
        given_up = self._work(work) if work.waiting else 0
        ((unreadable,),) = self.store.rows("SELECT count(*) FROM images WHERE failure IS NOT NULL")
        ((failed,),) = self.store.rows("SELECT count(*) FROM failures")
        return Outcome(self.folder, plan, self.tally.computed, unreadable, failed + given_up)

    def _manifest(self, command: str) -> Manifest:
        existing = _existing(self.folder)
        if existing is None:
            if (self.folder / SCORES).exists():
                raise StoreError(
                    f"{self.folder} has {SCORES} but no {MANIFEST}: nobody knows what its numbers are of, so "
                    "nothing is added to them; choose another --out"
                )
            labels = _labels_of(self.setup.study, self.ready)
            manifest = new_manifest(
                self.setup.study,
                self.ready,
                live=self.setup.classifier is not None,
                threads=torch.get_num_threads(),
                block=block_size(self.setup.study, self.ready.classifier, labels),
            )
        else:
            check_same(self.folder, existing.identity, identity_of(self.setup.study, self.ready))
            manifest = existing.grown(self.setup.study)
        # also here: another process may have begun the run while we waited for the lock
        torch.set_num_threads(manifest.threads)
        self.ready.classifier.fix_batches(*manifest.batches)
        self.setup = replace(
            self.setup, batches=manifest.batches, threads=manifest.threads, folder=self.folder
        )
        self.here = environment(self.ready.classifier.device)
        manifest = manifest.continued(self.here, command)
        manifest.write(self.folder)
        return manifest

    def _context(self) -> str:
        """A digest of what every unit's result depends on, besides its method and images."""
        manifest = self.manifest
        return digest([manifest.identity, manifest.batches, manifest.threads])

    # ---- before the work ----------------------------------------------------------------------------------------

    def _check_maps(self) -> None:
        """A file of maps that is gone or cut short is noticed now, and named; reading it would come too late.

        Files that no unit has, left by a run that was killed, are removed.
        """
        query = "SELECT DISTINCT maps, maps_bytes, maps_digest FROM units WHERE maps IS NOT NULL"
        known = self.store.rows(query)
        for name, size, content in known:
            problem = problem_with(self.folder, name, size, content, thorough=False)
            if problem:
                raise damaged(self.folder / name, problem, self.folder)
        for path in left_over(self.folder, {name for name, _, _ in known}):
            path.unlink(missing_ok=True)

    def _images(self, retry: bool) -> list[ImageRow]:
        """The study's images, all surveyed and in blocks."""
        study, selection = self.setup.study, self.manifest.selection
        problems, stamps = changed_images(self.store.images(), self.ready.dataset)
        if problems:
            more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
            raise InputError(
                f"the pictures are not those of {self.folder}: {'; '.join(problems[:5])}{more}. "
                "Bring them back, or choose another --out"
            )
        if stamps:
            self.store.set_stamps(stamps)
        self.store.set_label_names(self.ready.classifier.names)
        survey = Survey(self.ready.dataset, self.ready.classifier, selection, study.labels)

        def tell(looked_at: int) -> None:
            self.tally.last = f"{looked_at} pictures looked at"
            self._tell("surveying")

        survey.complete(self.store, retry=retry, tell=tell)
        rows = self.store.images()
        chosen = chosen_images(rows, selection)
        if not chosen:
            unreadable = [row for row in rows if row.failure is not None]
            first = f", the first because: {unreadable[0].failure}" if unreadable else ""
            raise InputError(
                f"no picture is left to study: {len(rows)} were looked at, {len(unreadable)} cannot be read{first}"
            )
        free = cut(chosen, self.manifest.block)
        if not free:
            return chosen
        self.store.add_blocks(free)
        return chosen_images(self.store.images(), selection)

    def _register(self) -> tuple[dict[str, Registered], dict[str, Registered]]:
        """The run's methods and metrics, those of this study added; a known name must have its old settings."""
        asked: dict[str, list[tuple[str, bool, Mapping[str, object]]]] = {
            "methods": [
                (n, m.label_free, {**m.settings(), **foreign_code(m, "compute")})
                for n, m in self.ready.methods.items()
            ],
            "metrics": [
                (n, m.higher_is_better, {**m.settings(), **foreign_code(m, "__call__")})
                for n, m in self.ready.metrics.items()
            ],
        }
        for kind, things in asked.items():
            known = self.store.registered(kind)
            for name, _, settings in things:
                if name in known:
                    same_settings(kind[:-1], self.folder, known[name].settings, settings, name)
            self.store.register(kind, things)
        methods, metrics = (self.store.registered(kind) for kind in asked)
        # what earlier runs judged stays; this run does what its own study names
        return (
            {name: methods[name] for name in self.ready.methods},
            {name: metrics[name] for name in self.ready.metrics},
        )

    def _plan(self, images: Sequence[ImageRow], work: Work) -> Plan:
        labels = sum(len(image.labels) for image in images) / len(images)
        waiting = Counter(unit.method for unit in work.waiting)
        size, blocks = self.manifest.block, len(work.images)
        return make_plan(self.ready, self.setup.study, len(images), labels, size, waiting, blocks)

    def _check_room(self, plan: Plan) -> None:
        free = shutil.disk_usage(self.folder).free
        if plan.map_bytes > free:
            raise StoreError(
                f"the maps will take {plan.map_bytes / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free in "
                f"{self.folder}. Use --maps none, choose another --out, or make room"
            )

    # ---- the work -----------------------------------------------------------------------------------------------

    def _work(self, work: Work) -> int:
        """Do the units; returns how many (method, image) pairs were not tried, since their method kept failing."""
        failing: Counter[str] = Counter()
        given_up: list[Unit] = []

        def units() -> Iterator[Unit]:
            for unit in work.waiting:
                if failing[unit.method] < GIVE_UP_AFTER:
                    yield unit
                else:
                    given_up.append(unit)

        stored: Future[None] | None = None  # a unit is written while the next one is computed
        with (
            ThreadPoolExecutor(1, thread_name_prefix="proofmap-writer") as writer,
            closing(self.executor.run(self._make_worker(), units())) as results,
        ):
            for unit, result in results:
                if isinstance(result, Lost):
                    everyone = dict.fromkeys(range(len(unit.subjects)), result.reason)
                    result = UnitResult((), everyone, 0.0, 0, self.manifest.batches, self.here)
                if stored is not None:
                    stored.result()
                stored = writer.submit(self._store, unit, result, work.images[unit.block])
                failing[unit.method] = 0 if result.parts else failing[unit.method] + 1
                self._count(unit, result)
                self._tell("running")
            if stored is not None:
                stored.result()
        return sum(len(unit.subjects) for unit in given_up)

    def _make_worker(self) -> Callable[[], Callable[[Unit], UnitResult]]:
        if isinstance(self.executor, LocalExecutor):
            setup, ready, progress = self.setup, self.ready, self.tally.progress
            return lambda: setup.worker(ready, progress)
        return self.setup.portable(self.ready, self.worker_device)

    def _count(self, unit: Unit, result: UnitResult) -> None:
        values: dict[str, list[float]] = {name: [] for name in unit.metrics}
        for part in result.parts:
            for name, found in part.result.values.items():
                values[name] += found.tolist()
        judged = sum(len(part.places) for part in result.parts)
        elsewhere = 0 if isinstance(self.executor, LocalExecutor) else result.passes
        self.tally.unit(str(unit), unit.method, judged, values, elsewhere)

    def _store(self, unit: Unit, result: UnitResult, images: Sequence[ImageRow]) -> None:
        game = self._game(result.parts[0].result.insertion) if result.parts else ""
        self._note_machine(result)
        machine = self.manifest.environments.index(result.environment)
        row = unit_row(unit, result, images, self.methods[unit.method], self.metrics, machine, game)
        file = self._write_maps(result, images)
        if file is not None:
            row = replace(row, maps=file.name, maps_bytes=file.size, maps_digest=file.digest)
        self.store.add_unit(row)

    def _note_machine(self, result: UnitResult) -> None:
        """A machine that is new to the run, and batches that memory made smaller: a resumed run starts from those."""
        manifest = self.manifest.continued(result.environment)
        if result.batches < manifest.batches:
            manifest = replace(manifest, batches=result.batches)
        if manifest != self.manifest:
            manifest.write(self.folder)
            self.manifest = manifest

    def _game(self, curves: Curves) -> str:
        """The key of a note that tells these curves' steps and settings: the metrics of a unit decide on them."""
        about = {
            "counts": curves.counts.tolist(),
            "positions": curves.positions,
            "settings": curves.settings,
        }
        key = f"insertion {digest(about)}"
        if key not in self._games:
            self.store.set_note(key, about)
            self._games.add(key)
        return key

    def _write_maps(self, result: UnitResult, images: Sequence[ImageRow]) -> MapsFile | None:
        kept = [part for part in result.parts if len(part.result.maps)]
        if not kept:
            return None
        maps = torch.cat([part.result.maps for part in kept])
        names = [images[place].name for part in kept for place in part.places]
        dtype = torch.float32 if self.setup.study.maps == "float32" else torch.float16
        return write_maps(self.folder, maps, names, dtype)

    def _tell(self, state: State) -> None:
        self.watchers.update(self.tally.standing(state))


def _labels_of(study: Study, ready: Ready) -> int:
    """About how many labels an image has under the study's rule, before any image was looked at."""
    rule = LabelRule.parse(study.labels, ready.classifier.names)
    most = len(ready.classifier.label_set)
    if rule.kind == "top":
        return min(int(rule.number), most)
    return {"all": most, "list": len(rule.listed)}.get(rule.kind, min(5, most))
