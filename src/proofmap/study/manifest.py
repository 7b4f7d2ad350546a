"""``run.json`` of a run: its settings, net, methods and metrics, and the machines and versions it was made with.

A run can only grow: methods, metrics and images may be added. Any other difference would change numbers. So a study that differs in any
other way is refused, with a list of the differences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, parse_json, suggest_path, write_text
from proofmap.core.inputs import KINDS, Inputs, Pictures
from proofmap.plugins.settings import check_settings, setting
from proofmap.results.statistics import RunScore
from proofmap.study.store import IMAGES, SCORES, ImageRow, Store, StoreError, damaged, writing

FILE = "run.json"
HOW_TO_RUN = "proofmap evaluate --data PHOTOS --out RUN makes one"
_SCHEMA = 6
"""Version of all files of a run. Runs of other versions are refused."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rules that select the pictures of the dataset that a study judges."""

    number: int | None = setting(
        None,
        "number of pictures, chosen at random; a larger number adds to the same pictures; none: all, in the data's order",
        least=1,
    )
    seed: int = setting(0, "seed for the random choice of pictures")
    correct: bool = setting(False, "only pictures whose most probable label is the true one")
    min_second_probability: float | None = setting(
        None, "only pictures whose second label has at least this probability", least=0, most=1
    )
    names: tuple[str, ...] = ()
    """Only pictures with these names, in this order; empty for no such restriction."""

    def __post_init__(self) -> None:
        names = (self.names,) if isinstance(self.names, str) else self.names
        object.__setattr__(self, "names", list_of("images.names", names, (str,), "names of pictures"))
        check_settings(self, "images.")

    def chosen(self, rows: Sequence[ImageRow]) -> list[ImageRow]:
        """The rows of the pictures that the study uses, in the order in which they were surveyed."""
        eligible = [row for row in rows if row.eligible]
        return eligible if self.number is None else eligible[: self.number]

    def passed_over(self, rows: Sequence[ImageRow]) -> tuple[list[ImageRow], list[ImageRow]]:
        """Pictures that the study might have used, because they come before the last picture that it uses: the rows of those that cannot
        be read, and of those without a label to judge, if true labels are judged."""
        chosen = self.chosen(rows)
        if self.number is not None and len(chosen) >= self.number:
            rows = rows[: rows.index(chosen[-1])]
        unreadable = [row for row in rows if row.failure is not None]
        return unreadable, [row for row in rows if row.failure is None and not row.labels]


def list_of(name: str, value: object, kinds: tuple[type, ...], words: str) -> tuple[Any, ...]:
    """The value of the setting ``name`` as a tuple. Raises if it is not a list with entries of these types (or functions).

    ``words`` describes the entries in the error message.
    """
    if not isinstance(value, Sequence):
        raise InputError(f"{name} must be a list of {words}, not {value!r}")
    for entry in value:
        if isinstance(entry, bool) or not (isinstance(entry, kinds) or callable(entry)):
            raise InputError(f"{name} must be a list of {words}, and {entry!r} is not one of them")
    return tuple(value)


@dataclass(frozen=True)
class Registered:
    """A method or metric of a run, as ``run.json`` has it.

    Of a method, ``flag`` is ``label_free`` and ``kind`` is ``signed`` or empty. Of a metric, ``flag`` is ``higher_is_better``, ``kind`` says
    what is measured, and ``limits`` are the smallest and the largest value, None if there is none."""

    name: str
    flag: bool
    settings: Mapping[str, object]
    kind: str = ""
    limits: tuple[float | None, ...] = (None, None)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The settings and the identity of a run, and what is known of the run as a whole.

    Attributes:
        study: the model, the data and the selection of images, for people, and to read the pixels again.
        identity: what must stay the same while the run grows: the net and its digest, labels, seed, selection.
        batches: batch sizes (forward only, with gradient). The last bits of results depend on them, on ``threads`` and on
            ``images_per_unit``.
        environments: the machines and package versions with which results were computed.
        commands: every command line that worked on the run.
        methods, metrics: those of all studies that worked on the run, by name.
        chosen: the number of images of the run, once for each time that it grew; see :attr:`blocks`.
        game: the steps and settings of the curves in the store: those of the first unit.
        batch_difference: how much f of a masked image differed between batches, at most.
        sanity: the numbers of :meth:`~proofmap.study.survey.Survey.sanity`.
        run_scores: the scores of the run as a whole, computed when it ends.
    """

    study: Mapping[str, Any]
    identity: Mapping[str, object]
    batches: tuple[int, int]
    threads: int
    images_per_unit: int
    created: str
    environments: tuple[Mapping[str, object], ...] = ()
    commands: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    methods: Mapping[str, Registered] = field(default_factory=dict)
    metrics: Mapping[str, Registered] = field(default_factory=dict)
    chosen: tuple[int, ...] = ()
    game: Mapping[str, Any] | None = None
    batch_difference: float | None = None
    sanity: Mapping[str, Any] | None = None
    run_scores: tuple[RunScore, ...] = ()
    schema: int = _SCHEMA

    @property
    def kind(self) -> type[Inputs]:
        """The class of the inputs, whose nouns messages and tables use; :class:`Pictures` if the kind is not known here."""
        kind = self.identity.get("inputs", Pictures.kind)
        return next((KINDS[name] for name in KINDS if name == kind), Pictures)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a run directory. Raises :class:`StoreError` if the file is missing or cannot be read."""
        path = folder / FILE
        if not any(os.path.exists(folder / name) for name in (FILE, SCORES)):
            what = f"{folder} is not a run directory of proofmap: it has no {FILE}."
            if not os.path.isdir(folder):
                what = f"there is no run directory {folder}.{suggest_path(folder)}"
            raise StoreError(f"{what} {HOW_TO_RUN}")
        try:
            check_ends(path)
            content = parse_json(path.read_text(encoding="utf-8"))
            if content["schema"] != _SCHEMA:
                raise StoreError(
                    f"{path} was made by another Proofmap: its format is {content['schema']}, and this version reads {_SCHEMA}. Read it with "
                    "the version that made it, or run the study again with another --out"
                )
            content = {
                key: tuple(entry) if isinstance(entry, list) else entry for key, entry in content.items()
            }
            for key in ("methods", "metrics"):
                content[key] = {name: Registered(**thing) for name, thing in content[key].items()}
            for score in content["run_scores"]:
                score["value"] = nan if score["value"] is None else score["value"]
            manifest = cls(
                **{**content, "run_scores": tuple(RunScore(**score) for score in content["run_scores"])}
            )
            _ = manifest.selection
        except (OSError, ValueError, AttributeError, TypeError, KeyError, InputError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise StoreError(
                f"{path} is damaged: {reason if path.exists() else 'it is missing'}. Put the file back if you have a copy; without it nobody knows which net and data the numbers "
                "belong to, so the run cannot be continued: choose another --out"
            ) from None
        return manifest

    @classmethod
    def find(cls, folder: Path) -> Manifest | None:
        """The manifest of the run in this folder, or None if there is no run."""
        return cls.read(folder) if any(os.path.exists(folder / name) for name in (FILE, SCORES)) else None

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
        return self.study.get("distractors")

    @property
    def selection(self) -> Selection:
        return Selection(**self.study["images"])

    def images(self, store: Store) -> list[ImageRow]:
        """The images of the run that are in its blocks. Raises if some of those that were judged are lost."""
        chosen, number = self.selection.chosen(store.images()), max(self.chosen, default=0)
        if len(chosen) < number and store.has_values():
            raise damaged(store.folder / IMAGES, f"it has {len(chosen)} of {number} images that were judged")
        return chosen[:number]

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
