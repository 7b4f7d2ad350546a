"""Checks a record before it is added to the leaderboard: its form, task, images and pools of random images, and a tenth of its values.

A record is refused if

- it was edited after it was written, or made on another version of the task: other images, metrics, fills, thresholds or net;
- values are missing, or outside the limits of their score; labels, probabilities or facts of the method are not those found here;
- it names a file of code that it does not contain, or has the name of another method;
- its method draws random images from the same pool as the metrics that judge it;
- values of the images that are computed again do not agree, or the method needs more passes than stated.

Values agree if each differs by at most :data:`TOLERANCE`. Methods that learn a mask amplify rounding, so their values may differ on another
device or in other batches. Then the mean of each score over these images must agree: within :data:`SAME_DEVICE` on the device that the
record names, and within :data:`OTHER_DEVICE` elsewhere.

``number`` can reduce the number of images that are computed again, down to none, because some nets are slow on the machine that checks.
The record then states how many images were computed again, and the leaderboard marks the row. All other checks are unchanged. For a record
that contains code, at least a tenth of the images is always computed again. The check finds mistakes; it does not stop someone who wants to
deceive.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proofmap.bench.leaderboard import EACH, MEANS, SHARE, TOLERANCE
from proofmap.bench.record import Record, images_digest, weights_digest
from proofmap.bench.running import loaded, run_task
from proofmap.bench.task import VERSION, Task
from proofmap.core import streams
from proofmap.core.environment import environment
from proofmap.core.errors import InputError
from proofmap.core.files import file_name
from proofmap.core.text import counted
from proofmap.fills.images import ImagePool, Images
from proofmap.methods import METHODS
from proofmap.plugins.settings import Plugin
from proofmap.plugins.specs import with_files_in
from proofmap.results.sharing import shared_settings
from proofmap.session import Session
from proofmap.study import Watcher
from proofmap.study.manifest import differences, plain_record
from proofmap.study.opened import OpenStudy, open_study
from proofmap.study.resume import registrations

SAME_DEVICE, OTHER_DEVICE = 0.001, 0.1
"""Largest allowed difference of the mean of a score, if single values differ: on the device of the record, and elsewhere."""
ELSEWHERE = 0.05
"""Largest allowed difference of the net's probabilities on another kind of device."""
ROUNDING = 1e-5
LONGEST_NAME = 80
EVERYTHING = (-math.inf, math.inf)
_BY_MACHINE = ("precision", "dtype", "compile", "code", "reads", "digest")
"""Settings that depend on the device, on Python's version, or on how pictures are decoded. They are not compared between machines."""


def tenth_of(record: Record) -> int:
    """The default number of images to compute again: a tenth of the record's images, at least one."""
    return max(1, math.ceil(SHARE * len(record.images)))


def chosen_images(record: Record, number: int | None = None) -> list[int]:
    """The sorted indices of the images to compute again: ``number`` images, by default a tenth. They follow from the record's digest."""
    key = torch.tensor(streams.key_of(0, "proofbench check", record.digest))
    drawn = streams.permutations(key, len(record.images))
    return sorted(drawn[: tenth_of(record) if number is None else number].tolist())


def check_record(
    record: Record,
    *,
    data: Path,
    device: str | None = None,
    allow_code: bool = False,
    number: int | None = None,
    watchers: Sequence[Watcher] = (),
) -> Record:
    """Check a record and return it with the entry ``check``. Raises an error with the reason if the record is refused.

    Args:
        record: the record.
        data: the folder with the data and weights that the task needs.
        device: the torch device of the net.
        allow_code: whether code in the record may run.
        number: the number of images to compute again; by default a tenth.
        watchers: receive the progress.
    """
    task = _task_of(record)
    task.check_needs(data)
    _check_name(record)
    _check_number(record, number)
    places = chosen_images(record, number)
    names = [record.images[k]["name"] for k in places]
    with tempfile.TemporaryDirectory(prefix="proofbench-") as folder:
        spec = _spec_here(record, Path(folder), allow_code)
        opened = open_study(task.study(spec, record.name, data), device=device)
        _check_settings(record, opened)
        _check_pools(opened, record.name)
        _check_beliefs(record, opened)
        _check_missing(record)

        how_it_agrees: dict[str, Any] = {}
        passes = 0
        if names:
            how: dict[str, Any] = {"data": data, "name": record.name, "device": device, "watchers": watchers}
            again = run_task(task, spec, Path(folder) / "run", images=names, **how)
            how_it_agrees, passes = _check_values(record, again, places), again.passes
    if record.passes < passes:
        raise InputError(
            f"the record says that {record.name} takes {record.passes:,} passes for an image; counted here: {passes:,}"
        )
    here = environment(opened.classifier.device)
    check = {
        "recomputed": f"{len(names)} of {len(record.images)}",
        "images": names,
        **how_it_agrees,
        "machine": {key: here[key] for key in ("proofmap", "torch", "device", "device_name", "system")},
    }
    return replace(record, check=check)


def submit(record: Record, leaderboard: Path, **how: Any) -> Path:
    """Check a record, add it to the folder of the leaderboard, and return its path. Other arguments are those of :func:`check_record`."""
    path = leaderboard / record.task / f"{file_name(record.name)}.json"
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
    if images_digest(record.images) != task.data_digest:
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


def _check_number(record: Record, number: int | None) -> None:
    """Raise if the number of images to compute again is impossible, or less than a tenth for a record with code."""
    if number is None:
        return
    if not 0 <= number <= len(record.images):
        raise InputError(f"--recompute takes 0 to {len(record.images)} images of this task, not {number}")
    if record.method["files"] and number < tenth_of(record):
        raise InputError(
            f"the record brings the code of its method, so at least {counted(tenth_of(record), 'image')} must be computed again; leave "
            "out --recompute"
        )


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


def _check_settings(record: Record, opened: OpenStudy) -> None:
    """Raise if the net, the metrics or the method differ from those in the record."""
    machine = plain_record(environment(opened.classifier.device))
    same = all(record.machine.get(key) == machine[key] for key in ("python", "torch", "system", "device"))
    ignored = () if same else _BY_MACHINE
    net = weights_digest(opened.classifier)
    if record.net != net:
        raise InputError(f"the record is about another net: its digest is {record.net}, here it is {net}")
    methods, metrics = (registrations(opened)[kind] for kind in ("methods", "metrics"))
    for metric in metrics:
        name = metric.name
        stated = record.metrics.get(name, {}).get("settings", {})
        here = shared_settings(plain_record(metric.settings))
        there = {key: stated.get(key) for key in here}
        lines = differences(_without(ignored, there), _without(ignored, here))
        if lines:
            raise InputError(f"the record was judged with other settings of {name}: {'; '.join(lines)}")
    if {*record.metrics} != {*opened.metrics}:
        raise InputError(f"the record does not have the scores of the task: {', '.join(opened.metrics)}")
    stated = record.method["settings"]
    method = _known_to(stated, shared_settings(plain_record(methods[0].settings)), record.method["spec"])
    lines = differences(_without(ignored, stated), _without(ignored, method))
    if lines:
        raise InputError(f"the method {record.name} has other settings or code here: {'; '.join(lines)}")


def _known_to(stated: Any, here: Any, spec: str) -> Any:
    """The settings ``here`` without plain values that neither the record (``stated``) nor its spec names: settings newer than the record.

    This is safe: a new setting has a default that keeps the method's results, or else the method gets a new revision, which is compared.
    """
    if not isinstance(stated, Mapping) or not isinstance(here, Mapping):
        return here
    return {
        key: _known_to(stated.get(key), value, spec)
        for key, value in here.items()
        if key in stated or isinstance(value, Mapping | list) or f"{key}=" in spec
    }


def _without(ignored: Sequence[str], settings: Any) -> Any:
    """Settings without the entries named in ``ignored``, also in nested settings."""
    if isinstance(settings, Mapping):
        return {key: _without(ignored, value) for key, value in settings.items() if key not in ignored}
    return [_without(ignored, value) for value in settings] if isinstance(settings, list) else settings


def _check_pools(opened: OpenStudy, name: str) -> None:
    """Raise if the method and the metrics that judge it draw random images from pools with common images."""
    judged: set[int] = set()
    for metric in opened.metrics.values():
        for pool in _pools(metric, opened.session.judging()):
            judged |= {*pool.marks.tolist()}
    for pool in _pools(opened.methods[name], opened.session):
        both = judged & {*pool.marks.tolist()}
        if both:
            raise InputError(
                f"the maps of {name} saw the judge's pool: it draws random {opened.classifier.inputs.noun} from {pool.text}, and "
                f"{len(both)} of them are among those that the judge draws from. Let it draw from part=learn, or from other data"
            )


def _pools(plugin: Plugin, opened: Session) -> Iterator[ImagePool]:
    """The pools of random images that a plug-in, or a plug-in in its settings, draws from."""
    if isinstance(plugin, Images):
        yield plugin.drawn_from(opened)
    for member in plugin._members():
        yield from _pools(member, opened)


def _check_beliefs(record: Record, opened: OpenStudy) -> None:
    """Raise if the net's probabilities of an image's labels differ from those in the record.

    This needs only one pass per image, so all images are checked.
    """
    same_device = str(record.machine.get("device")).startswith(opened.classifier.device.type)
    allowed = TOLERANCE if same_device else ELSEWHERE
    names = [[image["name"]] for image in record.images]
    for image, block in zip(record.images, loaded(opened, names), strict=True):
        f, labels = opened.classifier.probabilities(block.images)[0].tolist(), image["labels"]
        fits = 0 < len(labels) == len(image["f"]) and all(0 <= a < len(f) for a in labels)
        if not fits or any(abs(x - f[a]) > allowed for x, a in zip(image["f"], labels, strict=True)):
            raise _other_beliefs(image["name"])


def _check_missing(record: Record) -> None:
    """Raise if a value is missing or outside the limits of its score.

    Every image counts in every score, except in best effort: there, an image counts only if its second label has probability f >= e1.
    """
    for score, about in record.metrics.items():
        low, high = (
            edge if limit is None else limit for limit, edge in zip(about["limits"], EVERYTHING, strict=True)
        )
        for image, value in zip(record.images, record.values[score], strict=True):
            second = sorted(image["f"])[-2] if len(image["f"]) > 1 else 0.0
            may_miss = about["kind"] == "best-effort" and second < about["settings"]["e1"] + TOLERANCE
            if value is None and not may_miss:
                raise InputError(f"{image['name']} has no value of {score}, and it counts")
            if value is not None and not low - ROUNDING <= value <= high + ROUNDING:
                raise InputError(
                    f"{image['name']} has {value:g} of {score}, whose limits are {low:g} and {high:g}"
                )


def _check_values(record: Record, again: Record, places: Sequence[int]) -> dict[str, Any]:
    """Compare the values computed ``again`` with the record. Returns how they agree, for the record's check; raises if they do not."""
    names = [image["name"] for image in again.images]
    stated = [record.images[k] for k in places]
    order = [names.index(image["name"]) for image in stated]
    _check_facts(record, again, stated, order)
    apart, means = {}, {}
    for score in record.metrics:
        then, now = record.array(score)[list(places)], again.array(score)[order]
        if (np.isnan(then) != np.isnan(now)).any():
            raise _edited(score, "an image counts in one and not in the other")
        off = np.nan_to_num(then - now)
        apart[score], means[score] = float(np.abs(off).max()), abs(float(off.mean()))
    largest = max(apart.values())
    if largest <= TOLERANCE:
        return {"rule": EACH, "largest_difference": round(largest, 6)}
    same = all(record.machine[key] == again.machine[key] for key in ("device", "device_name"))
    allowed = SAME_DEVICE if same else OTHER_DEVICE
    worst = max(means, key=lambda score: means[score])
    if means[worst] > allowed:
        raise _edited(
            worst,
            f"over {counted(len(places), 'image')} its mean differs by {means[worst]:.4f} from that computed here, more than {allowed:g}, and "
            f"single values by up to {apart[worst]:.4f}, more than {TOLERANCE:g}",
        )
    return {
        "rule": MEANS,
        "largest_difference": round(largest, 6),
        "largest_mean_difference": round(means[worst], 6),
    }


def _check_facts(
    record: Record, again: Record, stated: Sequence[Mapping[str, Any]], order: Sequence[int]
) -> None:
    """Raise if the record's labels, or its facts about scores or the method, differ from those of the recomputed record ``again``."""
    for image, k in zip(stated, order, strict=True):
        if image["labels"] != again.images[k]["labels"]:
            raise _other_beliefs(image["name"])
    for score, about in record.metrics.items():
        told = {key: value for key, value in about.items() if key != "settings"}
        if told != {key: value for key, value in again.metrics[score].items() if key != "settings"}:
            raise InputError(f"the record has another kind, direction or limits of {score} than the task")
    if record.method["label_free"] != again.method["label_free"]:
        raise InputError(f"the record is wrong about {record.name}: whether it has one map for all labels")


def _other_beliefs(image: str) -> InputError:
    return InputError(f"the record has other labels or probabilities of {image} than the net gives")


def _edited(score: str, how: str) -> InputError:
    return InputError(f"the numbers are not those that the method gives: {score}: {how}")
