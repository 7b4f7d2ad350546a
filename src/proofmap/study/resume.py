"""Checks before a study writes to its run directory: which run it continues, and whether it must be refused."""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import output_folder
from proofmap.core.labels import LabelRule
from proofmap.core.text import size_text
from proofmap.core.version import source_version
from proofmap.methods.method import Method
from proofmap.plugins.identity import provenance
from proofmap.study.lock import LOCK, locked
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import (
    SIGNED,
    Manifest,
    Registered,
    check_same,
    check_version,
    differences,
    identity_of,
    new_manifest,
    plain_record,
    same_settings,
)
from proofmap.study.opened import OpenStudy
from proofmap.study.planning import Plan, block_size, expected_labels, unit_cost
from proofmap.study.store import IMAGES, MAPS, SCORES, Store, StoreError
from proofmap.study.study import Study

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
        with Store(folder, write=True) as store:
            has_results = store.has_units
            if has_results:
                check_version(existing.environments, source_version())
                check_same(folder, existing.identity, identity_of(opened), existing.environments)
            check_registered(folder, existing, store, opened)
            if retry:
                failed_units(existing, store, opened)
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
    """The study's ``methods`` and ``metrics`` as ``run.json`` has them, with digests of their code."""
    learning, judging = opened.session, opened.session.judging()

    def plain(settings: Mapping[str, object]) -> Mapping[str, object]:
        return dict(sorted(plain_record(settings).items()))

    def finite(limits: Sequence[float]) -> tuple[float | None, ...]:
        return tuple(limit if math.isfinite(limit) else None for limit in limits)

    return {
        "methods": [
            Registered(
                n, m.label_free, plain({**m.record(learning), **provenance(m)}), SIGNED if m.signed else ""
            )
            for n, m in opened.methods.items()
        ],
        "metrics": [
            Registered(n, m.higher_is_better, plain(m.full_record(judging)), m.measures, finite(m.limits))
            for n, m in opened.metrics.items()
        ],
    }


def check_registered(folder: Path, manifest: Manifest, store: Store, opened: OpenStudy) -> None:
    """Raise if a method or metric has the same name as one in the run, but other settings or other code.

    A method that has given no value yet is replaced, because it was probably corrected.
    """
    for kind, things in registrations(opened).items():
        known = getattr(manifest, kind)
        for thing in things:
            if thing.name in known and (kind == "metrics" or store.gave_values(thing.name)):
                same_settings(kind[:-1], folder, known[thing.name].settings, thing.settings, thing.name)


def failed_units(manifest: Manifest, store: Store, opened: OpenStudy) -> list[tuple[str, int]]:
    """Method and block of this study's units in which an image failed, so that they can be computed again.

    A unit is computed again with all its metrics, so a study that does not name all of these metrics is refused.
    """
    query = "SELECT DISTINCT method, block FROM units WHERE failures IS NOT NULL"
    failed = [(method, block) for method, block in store.rows(query) if method in opened.methods]
    query = "SELECT metrics FROM units WHERE method = ? AND block = ?"
    have = {name for unit in failed for (names,) in store.rows(query, *unit) for name in json.loads(names)}
    lacking = sorted(have - set(opened.metrics))
    if lacking:
        raise InputError(
            "failed images are computed again with every metric of the run; this study does not name "
            f"{', '.join(lacking)}: add what is missing"
        )
    return failed


# ---- the folder -----------------------------------------------------------------------------------------------


def lost_units(folder: Path, store: Store) -> list[tuple[str, int]]:
    """Method and block of the units whose file of maps is missing. They are computed again."""
    path = folder / MAPS
    if not path.is_dir() and (path.is_symlink() or path.exists()):
        raise StoreError(
            f"{path} is not a folder, or a link to one that is missing. Put the folder of maps back, or remove it"
        )
    there = set(os.listdir(path)) if path.is_dir() else set()
    return [
        (method, block)
        for block, method, _, maps in store.work_done()
        if maps and os.path.basename(maps) not in there
    ]


def check_disk_space(folder: Path, plan: Plan) -> None:
    """Raise if the planned maps do not fit on the disk."""
    maps = folder / MAPS
    free = shutil.disk_usage(maps if maps.is_dir() else folder).free  # it may be a link to another disk
    if plan.map_bytes > free:
        raise StoreError(
            f"the maps will take {size_text(plan.map_bytes)}, but only {size_text(free)} are free in {folder}. Use --maps none, choose another --out, or make room"
        )


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
                with suppress(OSError):  # the refusal is what counts; Windows keeps a file that is open
                    remove_run(folder)
                    for name in ("progress.json", LOCK):
                        (folder / name).unlink(missing_ok=True)
                    for path in missing:
                        path.rmdir()
            raise


def remove_run(folder: Path) -> None:
    """Remove the files of a run that has stored no results."""
    for path in (folder / MANIFEST, folder / IMAGES, *folder.glob(f"{SCORES}*")):
        path.unlink(missing_ok=True)


def _has_units(folder: Path) -> bool:
    if not (folder / SCORES).exists():
        return False
    with Store(folder, write=True) as store:
        return store.has_units
