"""What must stay the same when a study continues a run, and the manifest that results."""

from __future__ import annotations

import json
import math
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from proofmap.core.errors import InputError
from proofmap.core.labels import LabelRule
from proofmap.core.version import environment, source_version
from proofmap.plugins.identity import provenance
from proofmap.plugins.python_file import HERE_ONLY
from proofmap.study.manifest import Manifest, Registered, differences
from proofmap.study.opened import OpenStudy, dataset_settings
from proofmap.study.planning import images_per_unit
from proofmap.study.store import SCORES, Store


def resolve_manifest(
    folder: Path, opened: OpenStudy, *, live: bool, retry: bool = False
) -> tuple[Manifest, bool]:
    """The manifest of the run, and whether it is new (True) or the existing one, extended (False).

    Nothing is written. An existing run without results may be replaced by a study of something else. ``live`` says that the net is an object
    of this process, which no other process can load.
    """
    existing, identity = Manifest.find(folder), _identity_of(opened)
    if existing is not None:
        has_values = False
        if (folder / SCORES).exists():
            with Store(folder, write=True) as store:
                if has_values := store.has_values():
                    existing.continued({"proofmap": source_version()})  # raises if the source is another
                    _check_same(folder, existing, identity)
                    _check_registered(folder, existing, store, opened)
                    if retry:
                        _failed_units(store, opened)
        same = existing.identity == identity and existing.versions == {source_version()}
        if has_values or same:
            return _extended(existing, opened), False
    study, net = opened.study, opened.classifier
    forward, gradient = net.frozen().batches
    manifest = Manifest(
        study={
            "model": None if live else study.model,
            "weights": None if live else study.weights,
            "data": list(map(str, study.data)),
            "dataset": dataset_settings(opened.data),
            "images": asdict(study.images),
            "maps": study.maps,
            "distractors": opened.distractors,
        },
        identity=identity,
        batches=(forward.size, gradient.size),
        threads=torch.get_num_threads(),
        images_per_unit=images_per_unit(opened),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        environments=(environment(net.device),),
        label_names=net.names,
    )
    return manifest, True


def _extended(manifest: Manifest, opened: OpenStudy) -> Manifest:
    """The manifest after the run is extended. The new number of images is the larger one of the run and the study; None means all images."""
    study, selection = opened.study, manifest.selection
    if bool(selection.names) != bool(study.images.names):
        raise InputError(
            "images.names: the run was started "
            + ("with names" if selection.names else "without names")
            + ", so it must be continued that way; choose another --out"
        )
    mine, requested = selection.number, study.images.number
    number = None if mine is None or requested is None else max(mine, requested)
    names = tuple(dict.fromkeys([*selection.names, *study.images.names]))
    images = asdict(replace(selection, number=number, names=names))
    changed = {"images": images, "maps": study.maps, "distractors": opened.distractors}
    return replace(manifest, study={**manifest.study, **changed})


# ---- methods and metrics --------------------------------------------------------------------------------------


def _registrations(opened: OpenStudy) -> dict[str, list[Registered]]:
    """The study's ``methods`` and ``metrics`` as ``run.json`` has them, with digests of their code."""
    learning, judging = opened.session, opened.session.judging()

    def registered(
        name: str, flag: bool, settings: Mapping[str, object], kind: str, *limits: float
    ) -> Registered:
        finite = tuple(limit if math.isfinite(limit) else None for limit in limits)
        return Registered(name, flag, dict(sorted(_plain(settings).items())), kind, finite)

    return {
        "methods": [
            registered(n, m.label_free, {**m.record(learning), **provenance(m)}, "signed" if m.signed else "")
            for n, m in opened.methods.items()
        ],
        "metrics": [
            registered(n, m.higher_is_better, m.full_record(judging), m.measures, *m.limits)
            for n, m in opened.metrics.items()
        ],
    }


def register(manifest: Manifest, store: Store, opened: OpenStudy, *, retry: bool) -> Manifest:
    """The manifest with the study's methods and metrics. Results of earlier studies are kept, except those of a method that was corrected,
    and with ``retry`` those of units that failed."""
    if retry:
        store.delete(_failed_units(store, opened))
    for kind, things in _registrations(opened).items():
        known: Any = dict(getattr(manifest, kind))
        for thing in things:
            if thing.name in known and known[thing.name].settings != thing.settings:
                store.delete(method=thing.name)
            known[thing.name] = thing
        manifest = replace(manifest, methods=known) if kind == "methods" else replace(manifest, metrics=known)
    return manifest


def _check_registered(folder: Path, manifest: Manifest, store: Store, opened: OpenStudy) -> None:
    """Raise if a method or metric has the same name as one in the run, but other settings or other code.

    A method that has given no value yet is replaced, because it was probably corrected.
    """
    for kind, things in _registrations(opened).items():
        for thing in things:
            known = getattr(manifest, kind).get(thing.name)
            lines = [] if known is None else differences(known.settings, thing.settings)
            if not lines or (kind == "methods" and not store.has_values(thing.name)):
                continue
            forget = f"; remove the old one with: proofmap evaluate ... --forget {shlex.quote(thing.name)}"
            raise InputError(
                f"the {kind[:-1]} {thing.name!r} of {folder} has other settings:\n"
                + "\n".join(f"  {line}" for line in [*lines, *_without_file(kind[:-1], lines)])
                + '\nGive this one a name of its own (name = "..." in the study file), or choose another --out'
                + (forget if kind == "methods" else "")
            )


def _failed_units(store: Store, opened: OpenStudy) -> list[tuple[str, int]]:
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


# ---- net, data and rules ----------------------------------------------------------------------------------------


def _identity_of(opened: OpenStudy) -> dict[str, Any]:
    """The settings that two studies must have in common so that their results can be in one run, as plain data."""
    study, classifier, selection = opened.study, opened.classifier, opened.study.images
    return _plain(
        {
            **classifier.settings(),
            "data": opened.data.title,
            "labels": str(LabelRule.parse(study.labels, classifier.names)),
            "seed": study.seed,
            "images.seed": selection.seed,
            "images.correct": selection.correct,
            "images.min_second_probability": selection.min_second_probability,
            "fingerprint": classifier.fingerprint(),
        }
    )


def _check_same(folder: Path, manifest: Manifest, identity: Mapping[str, object]) -> None:
    """Raise if the identity of a study differs from that of the run; the message lists the differences.

    The digest of a net depends on Python's parser and on torch's description of the net. So another version of Python or torch may give
    the same net another digest. If only the digest differs, the message names the versions that differ.
    """
    lines = differences(manifest.identity, identity)
    if not lines:
        return
    others = [line for line in lines if not line.startswith("fingerprint:")]
    if not others:
        there = manifest.environments[-1]
        here = {"python": platform.python_version(), "torch": str(torch.__version__)}
        versions = differences({name: there.get(name) for name in here}, here)
        others = [
            lines[0].replace("fingerprint:", "the net's weights or code:"),
            *_without_file("net", lines),
        ]
        others += [f"perhaps only because of the version of {version}" for version in versions]
    raise InputError(
        f"{folder} holds a run of something else, so these numbers would not belong together:\n"
        + "\n".join(f"  {line}" for line in others)
        + "\nChoose another --out, or use the settings of that run"
    )


def _without_file(what: str, lines: Sequence[str]) -> list[str]:
    """An explanation if one of the differences is that of code without a file."""
    if not any(HERE_ONLY in line for line in lines):
        return []
    return [
        f"(the {what} is code without a file (of a notebook, or of exec), or uses a value that cannot be read, so its results cannot be "
        "continued in another process or after it was defined again: move it to a file)"
    ]


def _plain(settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings in the form that they have after being stored and read again."""
    record: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return record
