"""Before a run writes anything: what it continues, and everything that can be refused."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import torch

from proofmap.core.labels import LabelRule
from proofmap.study.known import check_known, failed_units
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import Manifest, check_same, differences, identity_of, new_manifest
from proofmap.study.plan import Plan, block_size
from proofmap.study.setup import Ready, Setup
from proofmap.study.store.database import FILE as SCORES
from proofmap.study.store.database import Store, damaged
from proofmap.study.store.maps import left_over, problem_with
from proofmap.study.store.schema import StoreError
from proofmap.study.study import Study


def existing_manifest(folder: Path) -> Manifest | None:
    return Manifest.read(folder) if (folder / MANIFEST).exists() else None


def decided_manifest(folder: Path, setup: Setup, ready: Ready, retry: bool = False) -> tuple[Manifest, bool]:
    """The manifest of the run to be, and whether it is a new one and not the one that is there, grown.

    Nothing is written yet. An earlier attempt that came to nothing binds nobody if it was about something else.
    """
    study, existing = setup.study, existing_manifest(folder)
    begun = False
    if existing is not None and (folder / SCORES).exists():
        with Store(folder, create=True) as store:
            begun = bool(store.rows("SELECT 1 FROM units LIMIT 1"))
            if begun:
                check_same(folder, existing.identity, identity_of(study, ready))
            check_known(folder, store, ready)
            if retry:
                failed_units(store, ready)
    if existing is not None:
        if begun or not differences(existing.identity, identity_of(study, ready)):
            return existing.grown(study), False
    elif (folder / SCORES).exists():
        raise StoreError(
            f"{folder} has {SCORES} but no {MANIFEST}: nobody knows what its numbers are of, so nothing is added to "
            "them; choose another --out"
        )
    manifest = new_manifest(
        study,
        ready,
        live=setup.classifier is not None,
        threads=torch.get_num_threads(),
        block=block_size(study, ready.classifier, labels_of(study, ready)),
    )
    return manifest, True


def remove_attempt(folder: Path) -> None:
    """Take away what an attempt that came to nothing left in the way of a new run."""
    for path in (folder / MANIFEST, *folder.glob(f"{SCORES}*")):
        path.unlink(missing_ok=True)


def say_what_is_kept(run: Manifest, study: Study, batch_size: int | None, threads: int | None) -> None:
    """A run keeps what decides its bits; asking for something else must not pass in silence."""
    asked = {
        "block": (study.block, [run.block]),
        "threads": (threads, [run.threads]),
        "batch size": (batch_size, sorted(set(run.batches))),
    }
    for name, (wanted, kept) in asked.items():
        if wanted is not None and [wanted] != kept:
            shown = " and ".join(map(str, kept))
            warnings.warn(f"the run keeps the {name} it began with, {shown}, not {wanted}", stacklevel=3)


def check_maps(folder: Path, store: Store) -> None:
    """A file of maps that is gone or cut short is noticed now, and named; reading it would come too late.

    Files that no unit has, left by a run that was killed, are removed.
    """
    query = "SELECT DISTINCT maps, maps_bytes, maps_digest FROM units WHERE maps IS NOT NULL"
    known = store.rows(query)
    for name, size, content in known:
        problem = problem_with(folder, name, size, content, thorough=False)
        if problem:
            raise damaged(folder / name, problem, folder)
    for path in left_over(folder, {name for name, _, _ in known}):
        path.unlink(missing_ok=True)


def check_room(folder: Path, plan: Plan) -> None:
    """Maps that cannot fit on the disk are refused before hours of work."""
    free = shutil.disk_usage(folder).free
    if plan.map_bytes > free:
        raise StoreError(
            f"the maps will take {plan.map_bytes / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free in "
            f"{folder}. Use --maps none, choose another --out, or make room"
        )


def labels_of(study: Study, ready: Ready) -> int:
    """About how many labels an image has under the study's rule, before any image was looked at."""
    rule = LabelRule.parse(study.labels, ready.classifier.names)
    most = len(ready.classifier.label_set)
    if rule.kind == "top":
        return min(int(rule.number), most)
    return {"all": most, "list": len(rule.listed)}.get(rule.kind, min(5, most))
