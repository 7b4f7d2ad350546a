"""Runs a task of ProofBench as a study, in a run directory that can be continued after a stop, and makes the record.

Also counts the passes that a method needs for one image. A pass is one image through the net.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from proofmap.bench.record import Record, rounded
from proofmap.bench.task import VERSION, Task
from proofmap.classifier import Classifier
from proofmap.classifier.frozen import Frozen
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.classifier.view import LogitsModule
from proofmap.core.errors import InputError
from proofmap.core.files import atomic_write, check_output, digest_of
from proofmap.core.text import counted
from proofmap.data.loader import load_blocks
from proofmap.methods.method import Method, make_method
from proofmap.plugins.python_file import source_files
from proofmap.plugins.specs import with_files_in
from proofmap.results.sharing import shared_settings
from proofmap.session import Session
from proofmap.study import Run, Study, Watcher, run_study
from proofmap.study.opened import open_study
from proofmap.study.planning import Plan


def run_task(
    task: Task,
    spec: str,
    out: Path,
    *,
    data: Path,
    name: str | None = None,
    device: str | None = None,
    images: Sequence[str] = (),
    watchers: Sequence[Watcher] = (),
    command: str = "",
    maps: bool = False,
) -> Record:
    """Judge a method on a task and return its record.

    Args:
        task: the task.
        spec: the method, as in a study: a name with settings, or ``FILE.py:NAME``.
        out: the run directory. Several methods of one task may use the same directory.
        data: the folder with the data and weights that the task needs.
        name: the name of the method on the leaderboard; by default its title.
        images: the names of the only images to judge, to check a record; by default all images of the task.
        maps: whether to write the maps as well, to ``records/NAME.safetensors`` in the run directory.

    The other arguments are those of :func:`~proofmap.study.run.run_study`.
    """
    task.check_needs(data)
    out = check_output(out)
    name = name or make_method(spec).title()
    study = task.study(spec, name, data, images, maps=maps)
    if task.net_digest:
        check_net(task, open_study(study, device=device).classifier)

    def check_images(_: Plan) -> None:
        with Run(out) as run:
            if not images and Record.images_digest(_images(run)) != task.data_digest:
                raise InputError(
                    f"the {task.kind} found are not those of the task {task.name}: {task.source} Nothing was judged; get that data, and "
                    f"remove {out}"
                )

    outcome = run_study(
        study,
        out,
        device=device,
        watchers=watchers,
        on_plan=check_images,
        command=command,
    )
    if outcome.failed:
        with Run(out) as run:
            first = next(one for one in run.failures() if one.method in ("", name))
        raise InputError(
            f"{name} failed on {counted(outcome.failed, 'image')}, the first because: {first.reason}. A record needs all of them"
        )
    record = _record_of(task, study, spec, name, out, device=device)
    if maps:
        _write_maps(record, out)
    return record


def _write_maps(record: Record, out: Path) -> None:
    """Write the maps of a record's method to ``records/NAME.safetensors`` in the run directory, which has kept them.

    The file has one array ``(N, L, *positions)`` in half precision, in the order of the record's images and their labels, whose name is the
    method's. Its metadata are the task, the record's digest, and the names of the images.
    """
    with Run(out) as run:
        found = run.evaluation(pictured=len(run.images), methods=[record.name])
    maps = {record.name: found.maps_of(found.results[0]).half().contiguous()}
    names = json.dumps([image["name"] for image in record.images])
    (out / "records").mkdir(exist_ok=True)
    with atomic_write((out / "records" / record.file).with_suffix(".safetensors")) as file:
        save_file(maps, file, metadata={"task": record.task, "record": record.digest, "images": names})


def _record_of(task: Task, study: Study, spec: str, name: str, out: Path, *, device: str | None) -> Record:
    """The record of a method that was judged on all images of a run."""
    opened = open_study(study, device=device)
    classifier = opened.classifier
    with Run(out) as run:
        result = run.evaluation(methods=[name]).results[0]
        images = _images(run)
        registered = run.methods[name]
        machine = dict(run.manifest.environments[-1])
        metrics = {
            score.name: {
                "kind": score.kind,
                "better": "higher" if score.higher_is_better else "lower",
                "limits": [limit if math.isfinite(limit) else None for limit in score.limits],
                "settings": shared_settings(score.settings),
            }
            for score in result.scores
        }
        values = {score.name: rounded(result.values[score.name].tolist()) for score in result.scores}
    method = {
        "name": name,
        "spec": with_files_in(spec, os.path.basename),
        "settings": shared_settings(registered.settings),
        "label_free": registered.flag,
        "files": files_of(spec),
    }
    first = opened.data.names.index(images[0]["name"])
    (block,) = load_blocks(opened.data, classifier, [first], block_size=1)
    labels = torch.tensor([images[0]["labels"]], device=classifier.device)
    return Record(
        bench=VERSION,
        task=task.name,
        task_digest=task.digest,
        method=method,
        net=weights_digest(classifier),
        images=images,
        metrics=metrics,
        values=values,
        passes=passes_of(opened.session, opened.methods[name], block.images, labels),
        seconds=round(result.seconds, 1),
        machine=machine,
    )


def check_net(task: Task, classifier: Classifier) -> None:
    """Raise if the net's weights differ from those that the task states."""
    found = weights_digest(classifier)
    if found != task.net_digest:
        raise InputError(
            f"the net found is not that of the task {task.name}: its digest is {found}, and the task states {task.net_digest}. Nothing was "
            f"judged; {' and '.join(need.what for need in task.needs)} brings the right one"
        )


def weights_digest(classifier: Classifier) -> str:
    """A digest of a net's weights, buffers, label names and label set.

    Unlike a fingerprint, it does not depend on the versions of Python and torch.
    The weights of a model that is not a torch net are included only if the model has a ``state_dict``.
    """
    net = classifier.net
    model = net.model if isinstance(net, ProbabilityModel) else net
    state = model.state_dict() if hasattr(model, "state_dict") else {}
    parts: list[bytes | str] = [json.dumps([list(classifier.names), list(classifier.label_set)])]
    for name, tensor in sorted(state.items()):
        parts += [name, str(tuple(tensor.shape)), tensor.detach().cpu().contiguous().numpy().tobytes()]
    return digest_of(*parts)


def files_of(spec: str) -> dict[str, str]:
    """The user's files that a spec names, and the modules next to them that they import: file name -> text."""
    found: dict[str, str] = {}

    def add(file: str) -> str:
        path = Path(file)
        if path.is_file():
            top, *others = source_files(path)
            folder = top.parent
            outside = [other for other in others if not other.is_relative_to(folder)]
            if outside:
                raise InputError(
                    f"{file} imports {outside[0].name} from outside its folder; move it next to {top.name}"
                )
            found.update(
                {str(one.relative_to(folder)): one.read_text(encoding="utf-8") for one in (top, *others)}
            )
        return file

    with_files_in(spec, add)
    return found


def _images(run: Run) -> list[dict[str, Any]]:
    return [
        {"name": row.name, "digest": row.digest, "labels": list(row.labels), "f": rounded(row.f)}
        for row in run.images
    ]


def passes_of(session: Session, method: Method, image: Tensor, labels: Tensor) -> int:
    """The number of passes that a method needs for one image ``(1, *shape)`` with labels ``(1, L)``.

    Methods of Proofmap state their cost, which the contract tests of methods check. Any other method runs once on this image, and the images
    that it gives to the net are counted; the larger number counts if it states a cost as well.
    """
    stated = method.cost(labels.shape[1], session)
    if stated is not None and type(method).__module__.startswith("proofmap."):
        return stated.passes
    classifier = session.net
    _ = classifier.batches, classifier.frozen().batches  # finding them takes passes, too
    with _counted_passes(classifier) as given:
        session.maps(method, image, labels)
    return max(sum(given), 0 if stated is None else stated.passes)


@contextmanager
def _counted_passes(classifier: Classifier) -> Iterator[list[int]]:
    """The numbers of images that go through the net of a classifier, its frozen copies, and its copies for other libraries.

    Calls of a single layer or part of the net are not counted.
    """
    net, given, inside = classifier.net, list[int](), 0
    kinds = (Frozen, LogitsModule, type(net))

    def begin(module: nn.Module, inputs: Any) -> None:
        nonlocal inside
        if isinstance(module, kinds):
            if inside == 0 and inputs:
                given.append(len(inputs[0]))
            inside += 1

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal inside
        if isinstance(module, kinds):
            inside -= 1

    if isinstance(net, ProbabilityModel):
        call = net.call

        def counted_call(inputs: Any) -> Any:
            given.append(len(inputs))
            return call(inputs)

        net.call = counted_call
        try:
            yield given
        finally:
            net.call = call
        return
    hooks = [
        torch_module.register_module_forward_pre_hook(begin),
        torch_module.register_module_forward_hook(end, always_call=True),
    ]
    try:
        yield given
    finally:
        for hook in hooks:
            hook.remove()
