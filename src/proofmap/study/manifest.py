"""``run.json`` of a run: its settings, net, methods and metrics, and the machines and versions it was made with.

A run can only grow: methods, metrics and images may be added. Any other difference would change numbers. So a study that differs in any
other way is refused, with a list of the differences.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from glob import glob
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofmap.core.environment import environment, other_versions
from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, parse_json, write_text
from proofmap.core.labels import LabelRule
from proofmap.plugins.source import HERE_ONLY
from proofmap.results.statistics import RunScore
from proofmap.study.selection import Selection
from proofmap.study.store import SCORES, StoreError, earlier_run, writing

if TYPE_CHECKING:
    from proofmap.study.opened import OpenStudy
    from proofmap.study.study import Study

FILE = "run.json"
_EARLIER = "manifest.json"
"""The name of this file in runs of Proofmap 0.2 and before."""
HOW_TO_RUN = "proofmap evaluate --data PHOTOS --out RUN makes one"
_WITHOUT_FILE = (
    "code without a file (of a notebook, or of exec), or uses a value that cannot be read, so its results cannot be continued in another process "
    "or after it was defined again: move it to a file"
)
_SHOWN = 4
SCHEMA = 5
"""Version of the manifest and of the records in a run. Runs of other versions are refused."""


@dataclass(frozen=True)
class Registered:
    """A method or metric of a run, as ``run.json`` has it.

    ``flag`` is ``label_free`` for a method and ``higher_is_better`` for a metric. ``kind`` is ``SIGNED`` or empty for a method; for a metric
    it says what is measured. ``limits`` are those of a metric's values; None where there is none."""

    name: str
    flag: bool
    settings: Mapping[str, object]
    kind: str = ""
    limits: Sequence[float | None] = (None, None)


SIGNED = "signed"
"""The ``kind`` of a registered method whose maps have signed values."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The settings and the identity of a run, and what is known of the run as a whole.

    Attributes:
        study: the settings with which the study can be opened again: model, data, selection and so on.
        identity: what must stay the same while the run grows: the net and its digest, labels, seed, selection.
        batches: batch sizes (forward only, with gradient). The last bits of results depend on them, on ``threads`` and on
            ``images_per_unit``.
        environments: the machines and package versions with which results were computed.
        commands: every command line that worked on the run.
        asked: for each study that worked on the run, its methods and metrics as plain data, so that they can be created again; see
            :mod:`proofmap.study.stored_study`.
        methods, metrics: those of all studies that worked on the run, by name.
        chosen: the number of images of the run, once for each time that it grew; see :attr:`blocks`.
        games: the steps and settings of the curves in the store, by key.
        batch_difference: how much f of a masked image differed between batches, at most.
        sanity: the numbers of :mod:`proofmap.study.sanity`.
        run_scores: the scores of the run as a whole, computed when it ends.
    """

    study: Mapping[str, object]
    identity: Mapping[str, object]
    batches: tuple[int, int]
    threads: int
    images_per_unit: int
    created: str
    environments: tuple[Mapping[str, object], ...] = ()
    commands: tuple[str, ...] = ()
    asked: tuple[Mapping[str, object], ...] = ()
    label_names: tuple[str, ...] = ()
    methods: Mapping[str, Registered] = field(default_factory=dict)
    metrics: Mapping[str, Registered] = field(default_factory=dict)
    chosen: tuple[int, ...] = ()
    games: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batch_difference: float | None = None
    sanity: Mapping[str, object] | None = None
    run_scores: tuple[RunScore, ...] = ()
    schema: int = SCHEMA

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a run directory. Raises :class:`StoreError` if the file is missing or cannot be read."""
        path = folder / FILE
        if not os.path.isdir(folder):
            raise _no_run(folder)
        if not path.exists() and (folder / _EARLIER).exists() and (folder / SCORES).exists():
            raise earlier_run(folder)
        try:
            check_ends(path)
            return cls._parsed(parse_json(path.read_text(encoding="utf-8")), path)
        except FileNotFoundError:
            if (folder / SCORES).exists():
                raise _damaged(path, "it is missing") from None
            raise _no_run(folder) from None
        except KeyError as error:
            raise _damaged(path, f"it has no {error}") from None
        except (OSError, ValueError, AttributeError, TypeError, InputError) as error:
            raise _damaged(path, str(error)) from None

    @classmethod
    def _parsed(cls, content: Any, path: Path) -> Manifest:
        if content["schema"] > SCHEMA:
            raise StoreError(f"{path} was written by a newer Proofmap; install that version")
        if content["schema"] < SCHEMA:
            raise earlier_run(path.parent)
        for key in ("batches", "environments", "commands", "asked", "label_names", "chosen"):
            content[key] = tuple(content[key])
        for key in ("methods", "metrics"):
            content[key] = {name: Registered(**thing) for name, thing in content[key].items()}
        scores = [
            {**score, "value": nan if score["value"] is None else score["value"]}
            for score in content["run_scores"]
        ]
        manifest = cls(**{**content, "run_scores": tuple(RunScore(**score) for score in scores)})
        _ = manifest.selection
        return manifest

    def write(self, folder: Path) -> None:
        """Write the manifest to its file in the run directory, unless the file has this content already."""
        content = asdict(self)
        for score in content["run_scores"]:
            score["value"] = None if isnan(score["value"]) else score["value"]
        path, text = folder / FILE, json.dumps(content, indent=1, default=str) + "\n"
        with writing(path):
            if not path.is_file() or path.read_bytes() != text.encode():
                write_text(path, text)

    @property
    def blocks(self) -> list[range]:
        """The blocks of the run, each as the indices of its images. Images that were added together are cut into blocks by themselves, so
        that blocks never change.
        """
        cut = [range(start, stop, self.images_per_unit) for start, stop in pairwise((0, *self.chosen))]
        return [range(start, min(start + own.step, own.stop)) for own in cut for start in own]

    @property
    def versions(self) -> set[str]:
        """The versions of Proofmap that worked on the run."""
        return {str(environment.get("proofmap")) for environment in self.environments}

    @property
    def distractors(self) -> Mapping[str, Any] | None:
        """The record of the run's distractors, the random images that fills and methods draw from. None if the run has not needed any.

        Distractors do not change when the run is extended.
        """
        found: Any = self.study.get("distractors")
        return found  # type: ignore[no-any-return]

    @property
    def selection(self) -> Selection:
        images: Any = self.study["images"]
        return Selection(**images)

    def extended(self, study: Study, distractors: Mapping[str, Any] | None) -> Manifest:
        """The manifest after the run is extended by ``study``.

        The new number of images is the larger one of the run and the study; None means all images.
        """
        if bool(self.selection.names) != bool(study.images.names):
            raise InputError(
                "images.names: the run was started "
                + ("with names" if self.selection.names else "without names")
                + ", so it must be continued that way; choose another --out"
            )
        mine, requested = self.selection.number, study.images.number
        number = None if mine is None or requested is None else max(mine, requested)
        names = tuple(dict.fromkeys([*self.selection.names, *study.images.names]))
        images = asdict(replace(self.selection, number=number, names=names))
        asked = asked_by(study)
        more = {"images": images, "maps": study.maps, "distractors": distractors}
        return replace(
            self,
            study={**self.study, **more},
            asked=self.asked if asked in self.asked else (*self.asked, asked),
        )

    def continued(self, here: Mapping[str, object], command: str = "") -> Manifest:
        """The manifest with the environment ``here`` and the command line added. Raises if ``here`` has another version of Proofmap."""
        check_version(self.environments, str(here.get("proofmap")))
        environments = self.environments if here in self.environments else (*self.environments, here)
        commands = self.commands if not command or command in self.commands else (*self.commands, command)
        return replace(self, environments=environments, commands=commands)


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {what}. Put the file back if you have a copy; without it nobody knows which net and data the numbers belong "
        "to, so the run cannot be continued: choose another --out"
    )


def _no_run(folder: Path) -> StoreError:
    """The error for a folder that is not a run. It says what is missing, which runs are nearby (similar names first), and how to make one."""
    there = os.path.isdir(folder)
    what = f"{folder} is not a run directory of proofmap: it has no {FILE}"
    around = folder if there else folder.parent
    # Path.glob ends with an error where a folder vanishes meanwhile; glob passes over it
    runs = [
        str(path.parent)
        for depth in (f"*/{FILE}", f"*/*/{FILE}")
        for name in glob(depth, root_dir=around, include_hidden=True)
        if (path := around / name).with_name(SCORES).exists()
    ]
    runs.sort(key=lambda run: (-SequenceMatcher(None, run, str(folder)).ratio(), run))
    more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
    near = f"Near it: {', '.join(runs[:_SHOWN])}{more}; " if runs else ""
    return StoreError(f"{what if there else f'there is no run directory {folder}'}. {near}{HOW_TO_RUN}")


def new_manifest(opened: OpenStudy, *, live: bool, threads: int, images_per_unit: int) -> Manifest:
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
        asked=(asked_by(study),),
        label_names=opened.classifier.names,
    )


def asked_by(study: Study) -> dict[str, object]:
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


def check_version(environments: Sequence[Mapping[str, object]], version: str) -> None:
    """Raise if one of the run's environments has another version of Proofmap than ``version``: the numbers may differ."""
    others = sorted({str(environment.get("proofmap")) for environment in environments} - {version})
    if others:
        raise StoreError(
            f"the run was made with Proofmap {' and '.join(others)}, and numbers of {version} may differ, so they are "
            f"not added to it. It can be read (report, compare, audit, export); to continue it, use the source "
            f"that proofmap --version calls {others[-1]}, or choose another --out"
        )


def check_same(
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
        others = other_versions(environments)
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


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """One line of text per setting that differs, with the old and the new value. Nested tables are compared entry by entry.

    >>> differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}})
    ['b.c: 2 there, 3 now']
    """
    lines = []
    for key in dict.fromkeys([*old, *new]):
        there, now = old.get(key), new.get(key)
        if isinstance(there, Mapping) and isinstance(now, Mapping):
            lines += [f"{key}.{line}" for line in differences(there, now)]
        elif there != now:
            lines.append(f"{key}: {_shown(there)} there, {_shown(now)} now")
    return lines


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def plain_record(settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings in the form that they have after being stored and read again."""
    record: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return record


def changed_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per difference of the settings of a method or metric. A plug-in whose revision is not stated has revision 1."""
    first = {name: 1 for record in (old, new) for name in record.get("revisions", {})}
    old, new = (
        {**record, "revisions": {**first, **record.get("revisions", {})}}
        for record in (old, plain_record(new))
    )
    return differences(old, new)


def same_settings(
    kind: str, folder: Path, old: Mapping[str, object], new: Mapping[str, object], name: str
) -> None:
    """Raise if the method or metric ``name`` has other settings in the study (``new``) than in the run (``old``)."""
    forget = (
        f"; remove the old one with: proofmap evaluate ... --forget {shlex.quote(name)}"
        if kind == "method"
        else ""
    )
    lines = changed_settings(old, new)
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
