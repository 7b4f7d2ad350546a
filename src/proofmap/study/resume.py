"""Continues a run: checks before a study writes to its directory, and what has changed since a run was computed."""

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
from proofmap.methods.method import Method
from proofmap.plugins.identity import provenance
from proofmap.plugins.python_file import HERE_ONLY
from proofmap.study.manifest import Manifest, Registered, differences
from proofmap.study.opened import OpenStudy, open_study
from proofmap.study.planning import images_per_unit
from proofmap.study.store import SCORES, Store
from proofmap.study.stored_run import Run
from proofmap.study.study import Study
from proofmap.study.survey import changed_images

# ---- the manifest ---------------------------------------------------------------------------------------------


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
    study, existing = opened.study, Manifest.find(folder)
    has_results = False
    if existing is not None and (folder / SCORES).exists():
        with Store(folder, write=True) as store:
            has_results = store.has_units
            if has_results:
                existing.continued({"proofmap": source_version()})  # raises if the source is another
                _check_same(folder, existing.identity, identity_of(opened), existing.environments)
            _check_registered(folder, existing, store, opened)
            if retry:
                failed_units(existing, store, opened)
    if existing is not None:
        same = not differences(existing.identity, identity_of(opened))
        if has_results or (same and existing.versions == {source_version()}):
            return _extended(existing, study, opened.distractors), False
    elif (folder / SCORES).exists():
        Manifest.read(folder)  # raises: it is unknown which net and data the numbers belong to
    size = images_per_unit(opened, planned_methods)
    manifest = _new_manifest(opened, live=live, threads=torch.get_num_threads(), images_per_unit=size)
    return manifest, True


# ---- methods and metrics --------------------------------------------------------------------------------------


def _registrations(opened: OpenStudy) -> dict[str, list[Registered]]:
    """The study's ``methods`` and ``metrics`` as ``run.json`` has them, with digests of their code."""
    learning, judging = opened.session, opened.session.judging()

    def plain(settings: Mapping[str, object]) -> Mapping[str, object]:
        return dict(sorted(plain_record(settings).items()))

    def finite(limits: Sequence[float]) -> tuple[float | None, ...]:
        return tuple(limit if math.isfinite(limit) else None for limit in limits)

    return {
        "methods": [
            Registered(
                n, m.label_free, plain({**m.record(learning), **provenance(m)}), "signed" if m.signed else ""
            )
            for n, m in opened.methods.items()
        ],
        "metrics": [
            Registered(n, m.higher_is_better, plain(m.full_record(judging)), m.measures, finite(m.limits))
            for n, m in opened.metrics.items()
        ],
    }


def register(manifest: Manifest, store: Store, opened: OpenStudy) -> Manifest:
    """The manifest with the study's methods and metrics. Results of earlier studies are kept, except those of a method that was corrected."""
    found: dict[str, dict[str, Registered]] = {}
    for kind, things in _registrations(opened).items():
        found[kind] = dict(getattr(manifest, kind))
        for thing in things:
            known = found[kind].get(thing.name)
            if known is None or _changed_settings(known.settings, thing.settings):
                if known is not None:  # it was corrected
                    store.delete(method=thing.name)
                    del found[kind][thing.name]
                found[kind][thing.name] = thing
    return replace(manifest, methods=found["methods"], metrics=found["metrics"])


def _check_registered(folder: Path, manifest: Manifest, store: Store, opened: OpenStudy) -> None:
    """Raise if a method or metric has the same name as one in the run, but other settings or other code.

    A method that has given no value yet is replaced, because it was probably corrected.
    """
    for kind, things in _registrations(opened).items():
        known = getattr(manifest, kind)
        for thing in things:
            if thing.name in known and (kind == "metrics" or store.gave_values(thing.name)):
                _same_settings(kind[:-1], folder, known[thing.name].settings, thing.settings, thing.name)


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


# ---- what must stay the same ----------------------------------------------------------------------------------


def _extended(manifest: Manifest, study: Study, distractors: Mapping[str, Any] | None) -> Manifest:
    """The manifest after the run is extended by ``study``.

    The new number of images is the larger one of the run and the study; None means all images.
    """
    if bool(manifest.selection.names) != bool(study.images.names):
        raise InputError(
            "images.names: the run was started "
            + ("with names" if manifest.selection.names else "without names")
            + ", so it must be continued that way; choose another --out"
        )
    mine, requested = manifest.selection.number, study.images.number
    number = None if mine is None or requested is None else max(mine, requested)
    names = tuple(dict.fromkeys([*manifest.selection.names, *study.images.names]))
    images = asdict(replace(manifest.selection, number=number, names=names))
    asked = _asked_by(study)
    more = {"images": images, "maps": study.maps, "distractors": distractors}
    return replace(
        manifest,
        study={**manifest.study, **more},
        asked=manifest.asked if asked in manifest.asked else (*manifest.asked, asked),
    )


_WITHOUT_FILE = (
    "code without a file (of a notebook, or of exec), or uses a value that cannot be read, so its results cannot be continued in another process "
    "or after it was defined again: move it to a file"
)


def _new_manifest(opened: OpenStudy, *, live: bool, threads: int, images_per_unit: int) -> Manifest:
    """The manifest of a new run. ``live`` says that the net is an object of this process, which no other process can load."""
    from proofmap.study.opened import dataset_settings

    study = opened.study
    forward, gradient = opened.classifier.frozen().batches
    settings = {
        "model": None if live else study.model,
        "weights": None if live else study.weights,
        "data": list(map(str, study.data)),
        "dataset": dataset_settings(opened.data),
        "images": asdict(study.images),
        "labels": study.labels,
        "label_set": list(study.label_set),
        "renormalise": study.renormalise,
        "maps": study.maps,
        "seed": study.seed,
        "distractors": opened.distractors,
    }
    return Manifest(
        study=settings,
        identity=identity_of(opened),
        batches=(forward.size, gradient.size),
        threads=threads,
        images_per_unit=images_per_unit,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        environments=(environment(opened.classifier.device),),
        asked=(_asked_by(study),),
        label_names=opened.classifier.names,
    )


def _asked_by(study: Study) -> dict[str, object]:
    """The methods and metrics of a study as plain data. Objects of a Python process cannot be stored, and are left out."""
    kept: dict[str, object] = {
        key: [entry for entry in getattr(study, key) if _is_plain(entry)] for key in ("methods", "metrics")
    }
    kept |= {"thresholds": study.thresholds, "curve": study.curve, "fit": study.fit}
    kept |= {"controls": True} if study.controls else {}
    kept |= {"fills": [fill for fill in study.fills if _is_plain(fill)]} if study.fills else {}
    return plain_record(kept)


def _is_plain(entry: object) -> bool:
    try:
        json.dumps(entry)
    except TypeError:
        return False
    return True


def identity_of(opened: OpenStudy) -> dict[str, object]:
    """The settings that two studies must have in common so that their results can be in one run, as plain data."""
    study, classifier, selection = opened.study, opened.classifier, opened.study.images
    identity = {
        **classifier.settings(),
        "data": opened.data.title,
        "labels": str(LabelRule.parse(study.labels, classifier.names)),
        "seed": study.seed,
        "images.seed": selection.seed,
        "images.correct": selection.correct,
        "images.min_second_probability": selection.min_second_probability,
        "fingerprint": classifier.fingerprint(),
    }
    as_read: dict[str, object] = json.loads(json.dumps(identity))  # as it will be read from the file
    return as_read


def _check_same(
    folder: Path,
    old: Mapping[str, object],
    new: Mapping[str, object],
    environments: Sequence[Mapping[str, object]] = (),
) -> None:
    """Raise if the identity ``new`` of a study differs from the identity ``old`` of the run; the message lists the differences.

    The digest of a net depends on Python's parser and on torch's description of the net. So another version of Python or torch may give
    the same net another digest. If only the digest differs, and a version is not the one in the run's ``environments``, the message says so.
    """
    lines = differences(old, new)
    if len(lines) > 1:  # the digest differs because the settings above it do
        lines = [line for line in lines if not line.startswith("fingerprint:")] or lines
    elif lines and lines[0].startswith("fingerprint:"):
        others = _other_versions(environments)
        if HERE_ONLY in lines[0]:
            lines.append(f"the net is {_WITHOUT_FILE}")
        elif others:
            lines.append(
                f"perhaps only because of {' and '.join(others)}: code counts as Python parses it. The run can be read (report, "
                "compare, audit, export), and continued with the versions it was made with"
            )
    if lines:
        raise InputError(
            f"{folder} holds a run of something else, so these numbers would not belong together:\n"
            + "\n".join(f"  {line}" for line in lines).replace(
                "  fingerprint:", "  the net's weights or code:"
            )
            + "\nChoose another --out, or use the settings of that run"
        )


def plain_record(settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings in the form that they have after being stored and read again."""
    record: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return record


def _changed_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per difference of the settings of a method or metric. A plug-in whose revision is not stated has revision 1."""
    first = {name: 1 for record in (old, new) for name in record.get("revisions", {})}
    old, new = (
        {**record, "revisions": {**first, **record.get("revisions", {})}}
        for record in (old, plain_record(new))
    )
    return differences(old, new)


def _same_settings(
    kind: str, folder: Path, old: Mapping[str, object], new: Mapping[str, object], name: str
) -> None:
    """Raise if the method or metric ``name`` has other settings in the study (``new``) than in the run (``old``)."""
    forget = (
        f"; remove the old one with: proofmap evaluate ... --forget {shlex.quote(name)}"
        if kind == "method"
        else ""
    )
    lines = _changed_settings(old, new)
    if lines:
        if any(HERE_ONLY in line for line in lines):
            lines.append(f"(the {kind} is {_WITHOUT_FILE})")
        elif any(line.startswith("code:") for line in lines):
            lines.append(
                "(code: of its file, the modules beside it that it imports, and values that belong to it)"
            )
        if any(line.startswith("revisions.") for line in lines):
            lines.append("(another revision gives other numbers)")
        raise InputError(
            f"the {kind} {name!r} of {folder} has other settings:\n"
            + "\n".join(f"  {line}" for line in lines)
            + f'\nGive this one a name of its own (name = "..." in the study file), or choose another --out{forget}'
        )


# ---- what has changed since -----------------------------------------------------------------------------------


def what_changed(run: Run, device: str = "cpu") -> list[str]:
    """A line for everything that has changed since the run was computed; empty if it would be computed in the same way.

    The net, the data, the methods and the metrics are opened again as the run's manifest names them. Their weights, code,
    settings and pictures, and the version of Proofmap, are compared with those stored in the run. No map and no score is computed.
    """
    kept: Any = run.manifest.study
    if kept["model"] is None or not kept["dataset"]:
        raise InputError(
            f"the net or the data of {run.folder} was an object of a Python process, so --fresh cannot check it; "
            "--fresh needs a net given by name or file.py:function, and data given by a path or dataset string"
        )
    versions = sorted(run.manifest.versions - {source_version()})
    changed = [f"Proofmap was {' and '.join(versions)}, and is {source_version()} now"] if versions else []
    studies = [study_of(run, dict(asked)) for asked in run.manifest.asked if asked["methods"]]
    if not studies:
        return [*changed, "the run does not say how its methods can be made again"]
    data, distractors = kept["dataset"], run.manifest.distractors
    now_open = [open_study(study, dataset=data, device=device, distractors=distractors) for study in studies]
    changed += _net_and_rules(run, now_open[-1])
    changed += _changed_plugins(run, now_open)
    problems, _ = changed_images(run.store.images(), now_open[-1].data)
    known = {row.name for row in run.store.images()}
    new = [name for name in now_open[-1].data.names if name not in known]
    if new and run.manifest.selection.number is None and not run.manifest.selection.names:
        problems.append(f"{new[0]} is new" + (f", and {len(new) - 1} more" if len(new) > 1 else ""))
    return changed + problems


def study_of(run: Run, asked: dict[str, Any]) -> Study:
    """The study of one command that worked on the run. ``asked`` is the entry of the manifest with the methods and metrics of the command."""
    kept: Any = run.manifest.study
    names = ("model", "weights", "data", "labels", "label_set", "renormalise", "seed")
    settings = {name: kept[name] for name in names}
    return Study(**settings, **asked, images=run.manifest.selection)


def _net_and_rules(run: Run, opened: OpenStudy) -> list[str]:
    lines = differences(run.manifest.identity, identity_of(opened))
    others = [line for line in lines if not line.startswith("fingerprint:")]
    return others or ["the net's weights or code are not those of the run" for _ in lines]


def _changed_plugins(run: Run, now_open: list[OpenStudy]) -> list[str]:
    """A line for each difference in a method or metric of the run. If two commands named the same method or metric, the later one counts."""
    changed = []
    for kind, stored in (("methods", run.methods), ("metrics", run.metrics)):
        now = {thing.name: thing.settings for one in now_open for thing in _registrations(one)[kind]}
        for name, thing in stored.items():
            if name not in now:
                changed.append(
                    f"the {kind[:-1]} {name} was an object of a Python process: it cannot be compared"
                )
                continue
            lines = _changed_settings(thing.settings, now[name])
            changed += [f"the {kind[:-1]} {name}: {line}" for line in lines]
    return changed


def _other_versions(environments: Sequence[Mapping[str, object]]) -> list[str]:
    """Texts that name the versions of Python and torch if they differ between the last of ``environments`` and this process.

    >>> _other_versions([{"python": "3.9.1", "torch": torch.__version__}])[0].startswith(
    ...     "Python 3.9.1 there, "
    ... )
    True
    """
    here = {"Python": platform.python_version(), "torch": str(torch.__version__)}
    there = environments[-1] if environments else {}
    then = {name: str(there.get(name.lower(), now)) for name, now in here.items()}
    return [f"{name} {then[name]} there, {now} now" for name, now in here.items() if then[name] != now]
