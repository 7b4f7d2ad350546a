"""Checks a record before it is added to the leaderboard: its form, its task, and a tenth of its values, which are computed again.

A record is refused if

- it was edited after it was written, or made on another version of the task: other images, metrics, fills, thresholds or net;
- it names a file of code that it does not contain, or has the name of another method;
- its method draws random images from the part that is for judging;
- its method or metrics have other settings here, or the values that are computed again do not agree: the mean of a score over these images
  may differ by :data:`TOLERANCE` on the device that the record names, and by :data:`ELSEWHERE` on another one, or if a mask is learned.

Means are compared, because methods that learn a mask amplify rounding: their values of single images differ between devices and batches, and
a tenth of the images makes other batches than all of them. The check finds mistakes; it does not stop someone who wants to deceive.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proofmap.bench.record import Record
from proofmap.bench.running import run_task
from proofmap.bench.task import VERSION, Task
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.methods import METHODS
from proofmap.plugins.specs import with_files_in
from proofmap.study import Watcher
from proofmap.study.manifest import differences

TOLERANCE, ELSEWHERE = 0.005, 0.1
"""Largest allowed difference of the mean of a score, on the device of the record and elsewhere (or if a mask is learned)."""
LONGEST_NAME = 80
_BY_MACHINE = ("precision", "dtype", "compile", "code", "reads", "digest")
"""Settings that depend on the device, on Python's version, or on how pictures are decoded. They are not compared between machines."""


def chosen_images(record: Record) -> list[int]:
    """The sorted indices of the images to compute again: a tenth, at least one. They follow from the record's digest."""
    key = torch.tensor(streams.key_of(0, "proofbench check", record.digest))
    drawn = streams.permutations(key, len(record.images))
    return sorted(drawn[: record.fewest_checked].tolist())


def check_record(
    record: Record,
    *,
    data: Path,
    device: str | None = None,
    allow_code: bool = False,
    watchers: Sequence[Watcher] = (),
) -> Record:
    """Check a record and return it with the entry ``check``. Raises an error with the reason if the record is refused.

    Args:
        record: the record.
        data: the folder with the data and weights that the task needs.
        device: the torch device of the net.
        allow_code: whether code in the record may run.
        watchers: receive the progress.
    """
    task = _task_of(record)
    task.check_needs(data)
    _check_name(record)
    if record.settings_named("part") & {"judge", "all"}:
        raise InputError(
            f"the maps of {record.name} saw the judge's pool of random images. Let it draw from part=learn, or from other data"
        )
    places = chosen_images(record)
    names = [record.images[k]["name"] for k in places]
    with tempfile.TemporaryDirectory(prefix="proofbench-") as folder:
        spec = _spec_here(record, Path(folder), allow_code)
        again = run_task(
            task,
            spec,
            Path(folder) / "run",
            data=data,
            name=record.name,
            device=device,
            images=names,
            watchers=watchers,
        )
    _check_facts(record, again)
    single, means = _differences(record, again, places)
    machine = {key: again.machine[key] for key in ("proofmap", "torch", "device", "device_name", "system")}
    check = {
        "recomputed": f"{len(names)} of {len(record.images)}",
        "images": names,
        "largest_difference": round(single, 6),
        "largest_mean_difference": round(means, 6),
        "machine": machine,
    }
    return replace(record, check=check)


def submit(record: Record, leaderboard: Path, **how: Any) -> Path:
    """Check a record, add it to the folder of the leaderboard, and return its path. Other arguments are those of :func:`check_record`."""
    path = leaderboard / record.task / record.file
    if path.exists():
        raise InputError(
            f"{path} is there already: the leaderboard has a row {record.name!r}. Give the method another name (bench run --name), or "
            "remove that row"
        )
    return check_record(record, **how).write(path)


def _task_of(record: Record) -> Task:
    """The task of a record. Raises if the task or its images differ from those of this installation."""
    if record.bench != VERSION:
        raise InputError(f"the record belongs to {record.bench}, and this is {VERSION}; run the task again")
    task = Task.named(record.task)
    if record.task_digest != task.digest:
        raise InputError(
            f"the record was made with other settings than the task {task.name} has: its digest is {record.task_digest}, that of the "
            f"task {task.digest}. Run the task as it is"
        )
    if Record.images_digest(record.images) != task.data_digest:
        raise InputError(
            f"the record has other {task.kind} than the task {task.name}: names, contents or order differ. Run the task again"
        )
    return task


def _spec_here(record: Record, folder: Path, allow_code: bool) -> str:
    """The method's spec for use on this machine. The record's files of code are written to ``folder``; raises if code may not run."""
    files: Mapping[str, str] = record.method.get("files", {})
    if files and not allow_code:
        raise InputError(
            f"the record brings the code of its method ({', '.join(files)}), which the check runs. Read it in the record, and add "
            "--allow-code"
        )
    for name, text in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"the record names a file outside its folder: {name!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def place(file: str) -> str:
        if file not in files:
            raise InputError(f"the method of the record is in {file!r}, which the record does not bring")
        return str(folder / file)

    return str(with_files_in(record.method["spec"], place))


def _check_name(record: Record) -> None:
    """Raise if the name cannot be displayed or belongs to another method."""
    name, own = record.name, record.method["settings"].get("method")
    if not name.isprintable() or name != name.strip() or not 1 <= len(name) <= LONGEST_NAME:
        raise InputError(
            f"the name of a method has 1 to {LONGEST_NAME} characters that can be printed, and no spaces around them; got {name!r}. "
            "bench run --name gives another"
        )
    if name in METHODS and own != name:
        raise InputError(
            f"{name!r} is the name of a method of Proofmap, and this one is {own}; bench run --name gives another"
        )


def _check_facts(record: Record, again: Record) -> None:
    """Raise if the net, the metrics or the method differ from those that were computed ``again``, or if the method needs more passes."""
    keys = ("python", "torch", "system", "device")
    ignored = () if all(record.machine.get(key) == again.machine[key] for key in keys) else _BY_MACHINE
    if record.net != again.net:
        raise InputError(
            f"the record is about another net: its digest is {record.net}, here it is {again.net}"
        )
    if {*record.metrics} != {*again.metrics}:
        raise InputError(f"the record does not have the scores of the task: {', '.join(again.metrics)}")
    facts = [
        (record.metrics[name], again.metrics[name], f"judged with other settings of {name}")
        for name in again.metrics
    ]
    stated, here = (
        {key: value for key, value in r.method.items() if key in ("settings", "label_free")}
        for r in (record, again)
    )
    for then, now, words in (
        *facts,
        (stated, here, f"of another {record.name}, with other settings or code"),
    ):
        lines = differences(_without(ignored, then), _without(ignored, now))
        if lines:
            raise InputError(f"the record was {words}: {'; '.join(lines)}")
    if record.passes < again.passes:
        raise InputError(
            f"the record says that {record.name} takes {record.passes:,} passes for an image; counted here: {again.passes:,}"
        )


def _differences(record: Record, again: Record, places: Sequence[int]) -> tuple[float, float]:
    """The largest difference of a single value and of a mean from those computed ``again``. Raises if they do not agree."""
    same = all(record.machine[key] == again.machine[key] for key in ("device", "device_name"))
    learned = any(
        hasattr(METHODS[name], "learns") for name in record.settings_named("method") if name in METHODS
    )
    allowed = TOLERANCE if same and not learned else ELSEWHERE
    names = [image["name"] for image in again.images]
    order = [names.index(record.images[k]["name"]) for k in places]
    for k, j in zip(places, order, strict=True):
        stated, found = record.images[k], again.images[j]
        if stated["labels"] != found["labels"] or not np.allclose(
            stated["f"], found["f"], rtol=0, atol=allowed
        ):
            raise InputError(
                f"the record has other labels or probabilities of {stated['name']} than the net gives"
            )
    single = mean = 0.0
    for score in record.metrics:
        then, now = record.array(score)[list(places)], again.array(score)[order]
        if (np.isnan(then) != np.isnan(now)).any():
            raise _edited(score, "an image counts in one and not in the other")
        off = np.nan_to_num(then - now)
        if abs(off.mean()) > allowed:
            raise _edited(
                score,
                f"over {counted(len(places), 'image')} its mean differs by {abs(off.mean()):.4f} from that computed here, more than {allowed:g}",
            )
        single, mean = max(single, float(np.abs(off).max())), max(mean, abs(float(off.mean())))
    return single, mean


def _edited(score: str, how: str) -> InputError:
    return InputError(f"the numbers are not those that the method gives: {score}: {how}")


def _without(ignored: Sequence[str], settings: Any) -> Any:
    """Settings without the entries named in ``ignored``, also in nested settings."""
    if isinstance(settings, Mapping):
        return {key: _without(ignored, value) for key, value in settings.items() if key not in ignored}
    return [_without(ignored, value) for value in settings] if isinstance(settings, list) else settings
