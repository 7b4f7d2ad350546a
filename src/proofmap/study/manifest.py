"""``run.json`` of a run: its settings, net, methods and metrics, and the machines and versions it was made with.

A run can only grow: methods, metrics and images may be added. Any other difference would change numbers. So a study that differs in any
other way is refused, with a list of the differences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from glob import glob
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, parse_json, write_text
from proofmap.results.statistics import RunScore
from proofmap.study.selection import Selection
from proofmap.study.store import SCORES, StoreError, earlier_run, writing

if TYPE_CHECKING:
    pass

FILE = "run.json"
_EARLIER = "manifest.json"
"""The name of this file in runs of Proofmap 0.2 and before."""
HOW_TO_RUN = "proofmap evaluate --data PHOTOS --out RUN makes one"

_SHOWN = 4
SCHEMA = 5
"""Version of the manifest and of the records in a run. Runs of other versions are refused."""


@dataclass(frozen=True)
class Registered:
    """A method or metric of a run, as ``run.json`` has it.

    Of a method, ``flag`` is ``label_free`` and ``kind`` is ``signed`` or empty. Of a metric, ``flag`` is ``higher_is_better``, ``kind`` says
    what is measured, and ``limits`` are the smallest and the largest value, None if there is none."""

    name: str
    flag: bool
    settings: Mapping[str, object]
    kind: str = ""
    limits: Sequence[float | None] = (None, None)


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
            :mod:`proofmap.study.resume`.
        methods, metrics: those of all studies that worked on the run, by name.
        chosen: the number of images of the run, once for each time that it grew; see :attr:`blocks`.
        games: the steps and settings of the curves in the store, by key.
        batch_difference: how much f of a masked image differed between batches, at most.
        sanity: the numbers of :func:`~proofmap.study.sanity.measure_sanity`.
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
    sanity: Mapping[str, Any] | None = None
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

    @classmethod
    def find(cls, folder: Path) -> Manifest | None:
        """The manifest of the run in this folder, or None if there is no run."""
        return cls.read(folder) if os.path.exists(folder / FILE) else None

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

    def continued(self, here: Mapping[str, object], command: str = "") -> Manifest:
        """The manifest with the environment ``here`` and the command line added. Raises if ``here`` has another version of Proofmap."""
        version = str(here.get("proofmap"))
        others = sorted(self.versions - {version})
        if others:
            raise StoreError(
                f"the run was made with Proofmap {' and '.join(others)}, and numbers of {version} may differ, so they are "
                f"not added to it. It can be read (report, compare, audit, export); to continue it, use the source "
                f"that proofmap --version calls {others[-1]}, or choose another --out"
            )
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
