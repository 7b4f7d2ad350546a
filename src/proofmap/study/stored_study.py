"""Rebuilds the study that a run came from, to check whether it would still compute the same, and to add missing controls."""

from __future__ import annotations

from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.version import source_version
from proofmap.study.manifest import changed_settings, differences, identity_of
from proofmap.study.opened import OpenStudy, open_study
from proofmap.study.resume import registrations
from proofmap.study.stored_run import Run
from proofmap.study.study import Study
from proofmap.study.survey import changed_images


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
        now = {thing.name: thing.settings for one in now_open for thing in registrations(one)[kind]}
        for name, thing in stored.items():
            if name not in now:
                changed.append(
                    f"the {kind[:-1]} {name} was an object of a Python process: it cannot be compared"
                )
                continue
            lines = changed_settings(thing.settings, now[name])
            changed += [f"the {kind[:-1]} {name}: {line}" for line in lines]
    return changed
