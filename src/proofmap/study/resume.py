"""Checks before a study writes to its run directory: which run it continues, and whether it must be refused."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import output_folder
from proofmap.core.labels import LabelRule
from proofmap.core.text import counted, size_text
from proofmap.core.version import source_version
from proofmap.methods.method import Method
from proofmap.plugins.identity import provenance
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import (
    Manifest,
    check_same,
    check_version,
    differences,
    identity_of,
    new_manifest,
    plain_record,
    same_settings,
)
from proofmap.study.opened import OpenStudy
from proofmap.study.planning.blocks import block_size
from proofmap.study.planning.cost import expected_labels, unit_cost
from proofmap.study.planning.plan import Plan
from proofmap.study.store.database import FILE as SCORES
from proofmap.study.store.database import Store
from proofmap.study.store.errors import StoreError
from proofmap.study.store.lock import FILE as LOCK
from proofmap.study.store.lock import locked
from proofmap.study.store.maps import FOLDER as MAPS
from proofmap.study.store.maps import check_folder, is_whole, remove_file, unused_files
from proofmap.study.store.records import SIGNED, Registered
from proofmap.study.study import Study

_PROGRESS = "progress.json"


# ---- the manifest ---------------------------------------------------------------------------------------------


def existing_manifest(folder: Path) -> Manifest | None:
    """The manifest of the run in this folder, or None if there is no run."""
    return Manifest.read(folder) if (folder / MANIFEST).exists() else None


def resolve_manifest(
    folder: Path,
    opened: OpenStudy,
    *,
    live: bool,
    retry: bool = False,
    planned_methods: Sequence[Method] = (),
) -> tuple[Manifest, bool]:
    """The manifest of the run, and whether it is new (True) or the existing one, extended (False).

    Nothing is written. The number of images per unit of a new run also takes ``planned_methods`` into account, which are added later. An
    existing run without results may be replaced by a study of something else.
    """
    study, existing = opened.study, existing_manifest(folder)
    has_results = False
    if existing is not None and (folder / SCORES).exists():
        with Store(folder, create=True) as store:
            has_results = bool(store.rows("SELECT 1 FROM units LIMIT 1"))
            if has_results:
                check_version(existing.environments, source_version())
                check_same(folder, existing.identity, identity_of(opened), existing.environments)
            check_registered(folder, store, opened)
            if retry:
                failed_units(store, opened)
    if existing is not None:
        same = not differences(existing.identity, identity_of(opened))
        if has_results or (same and existing.versions == {source_version()}):
            return existing.extended(study, opened.distractors), False
    elif (folder / SCORES).exists():
        Manifest.read(folder)  # raises: it is unknown which net and data the numbers belong to
    rule = LabelRule.parse(study.labels, opened.classifier.names)
    labels, metrics = expected_labels(rule, opened.classifier), list(opened.metrics.values())
    threads = torch.get_num_threads()
    costs = [unit_cost(method, metrics, labels, opened.session) for method in opened.methods.values()]
    costs += [unit_cost(m, metrics, labels, opened.session, planned=True) for m in planned_methods]
    images = min(study.images.number or len(opened.data), len(opened.data))
    size = block_size(study, opened.classifier, labels, costs, threads, images)
    manifest = new_manifest(opened, live=live, threads=threads, images_per_unit=size)
    return manifest, True


def remove_empty_run(folder: Path) -> None:
    """Delete the manifest and the database of an earlier run that stored no results."""
    for path in (folder / MANIFEST, *folder.glob(f"{SCORES}*")):
        path.unlink(missing_ok=True)


def warn_of_kept_settings(run: Manifest, study: Study, batch_size: int | None, threads: int | None) -> None:
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


# ---- methods and metrics --------------------------------------------------------------------------------------


def registrations(opened: OpenStudy) -> dict[str, list[Registered]]:
    """The study's ``methods`` and ``metrics`` in the form that the store takes, with digests of their code."""
    learning, judging = opened.session, opened.session.judging()
    return {
        "methods": [
            Registered(
                0, n, m.label_free, {**m.record(learning), **provenance(m)}, SIGNED if m.signed else ""
            )
            for n, m in opened.methods.items()
        ],
        "metrics": [
            Registered(0, n, m.higher_is_better, m.full_record(judging), m.measures, *m.limits)
            for n, m in opened.metrics.items()
        ],
    }


def check_registered(folder: Path, store: Store, opened: OpenStudy) -> None:
    """Raise if a method or metric has the same name as one in the run, but other settings or other code.

    A method that has given no value yet is replaced, because it was probably corrected.
    """
    without_values = methods_without_values(store)
    for kind, things in registrations(opened).items():
        known = store.registered(kind)
        for thing in things:
            name = thing.name
            if name in known and not (kind == "methods" and name in without_values):
                same_settings(kind[:-1], folder, known[name].settings, thing.settings, name)


def methods_without_values(store: Store) -> set[str]:
    """The names of methods that failed on every image they were tried on."""
    query = "SELECT name FROM methods WHERE id NOT IN (SELECT method FROM image_scores)"
    return {name for (name,) in store.rows(query)}


def replace_corrected(store: Store, opened: OpenStudy) -> None:
    """Delete from the store those methods of the study that have given no value and whose code or settings have changed since."""
    known, without_values = store.registered("methods"), methods_without_values(store)
    for method in registrations(opened)["methods"]:
        name = method.name
        if name in without_values and differences(known[name].settings, plain_record(method.settings)):
            store.delete_method(name)


def failed_units(store: Store, opened: OpenStudy) -> list[int]:
    """The ids of the units of this study's methods in which an image failed, so that they can be computed again.

    A unit is computed again with all its metrics, so a study that does not name all of these metrics is refused.
    """
    query = (
        "SELECT DISTINCT failures.unit, units.method, units.block, methods.name FROM failures "
        "JOIN units ON units.id = failures.unit JOIN methods ON methods.id = units.method"
    )
    failed = [row for row in store.rows(query) if row[3] in opened.methods]
    names = {metric.id: name for name, metric in store.registered("metrics").items()}
    have = {names[metric] for _, method, block, _ in failed for metric in store.done(method, block)}
    lacking = sorted(have - set(opened.metrics))
    if lacking:
        raise InputError(
            "failed images are computed again with every metric of the run; this study does not name "
            f"{', '.join(lacking)}: add what is missing"
        )
    return [unit for unit, *_ in failed]


# ---- the disk -------------------------------------------------------------------------------------------------


def check_stored(folder: Path, store: Store) -> None:
    """Delete the units whose file of maps is missing or incomplete, so that they are computed again, and say so.

    Files that belong to no unit, left by a run that was killed, are removed, unless ``maps`` is a link.
    """
    check_folder(folder)
    known = store.rows("SELECT id, maps, maps_bytes FROM units WHERE maps IS NOT NULL")
    lost = [unit for unit, name, size in known if not is_whole(folder, name, size)]
    if lost:
        units = f"{counted(len(lost), 'file')} of maps in {folder}"
        warnings.warn(
            f"{units} {'is' if len(lost) == 1 else 'are'} missing or incomplete, and computed again",
            stacklevel=2,
        )
        store.delete_units(lost)
    for path in unused_files(folder, {name for unit, name, _ in known if unit not in {*lost}}):
        remove_file(path)


def check_disk_space(folder: Path, plan: Plan) -> None:
    """Raise if the planned maps do not fit on the disk."""
    maps = folder / MAPS
    free = shutil.disk_usage(maps if maps.is_dir() else folder).free  # it may be a link to another disk
    if plan.map_bytes > free:
        raise StoreError(
            f"the maps will take {size_text(plan.map_bytes)}, but only {size_text(free)} are free in {folder}. Use --maps none, choose another --out, or make room"
        )


# ---- the folder -----------------------------------------------------------------------------------------------


@contextmanager
def run_folder(out: str | Path, *, wait: bool = False) -> Iterator[Path]:
    """Create the folder of a run if it is missing, lock it, and yield it. With ``wait``, wait for the lock instead of raising.

    If the study is refused before a new run has any result, everything that was written is removed. If the run was stopped by a full
    disk or another process, it is kept and can be continued.
    """
    missing = [folder for folder in (Path(out), *Path(out).parents) if not os.path.exists(folder)]
    folder = output_folder(out)
    with locked(folder, wait=wait):
        new = not any((folder / name).exists() for name in (MANIFEST, SCORES))
        try:
            yield folder
        except ProofmapError as error:
            if new and not isinstance(error, StoreError) and not _has_units(folder):
                _remove(folder, missing)
            raise


def _has_units(folder: Path) -> bool:
    if not (folder / SCORES).exists():
        return False
    with Store(folder, create=True) as store:
        return bool(store.rows("SELECT 1 FROM units LIMIT 1"))


def _remove(folder: Path, made: list[Path]) -> None:
    """Remove the files that a run writes first, and the folders that were made for it, unless they hold other files."""
    with suppress(OSError):  # the refusal is what counts; Windows keeps a file that is open
        remove_empty_run(folder)
        for name in (_PROGRESS, LOCK):
            (folder / name).unlink(missing_ok=True)
        for path in made:
            path.rmdir()
