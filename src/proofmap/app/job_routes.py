"""The routes of jobs, of their maps and files, and of painted proofs.

A painted proof is the net's probability f if only the painted pixels (or the chosen columns or words) of a photo are shown. It is compared
with the methods' proofs of the same size, which show the same number of pixels: the highest ranked ones of a map.

The net sees M x + (1 - M) x', as in the insertion and deletion games: the photo x where the mask M is 1, the fill x' elsewhere. For a
random fill, x' is the first draw, which the page shows as a picture.
"""

from __future__ import annotations

import base64
import binascii
import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Path, Query, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from proofmap.app.items import LIMITS, Item, NotFound
from proofmap.app.jobs import JobAsked, LabelIndex, MapJob, Name, PhotoId, Spec, StrictRequest
from proofmap.app.nets import Nets, check_known, top_labels
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.text import counted
from proofmap.fills import Fill
from proofmap.methods import Method
from proofmap.report.display import maps_safetensors, sheet_png
from proofmap.report.html import write_report
from proofmap.report.pictures import crop_words
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared, without_folders

_JobId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
_MOST_PASSES = 200_000
"""Largest number of passes of the net for all methods and labels of a job together, if other machines can reach the server."""
_TOP = 5
"""The number of most probable labels that are always in the answer."""


class _PaintAsked(StrictRequest):
    """A painted proof. ``mask`` is base64 of one bit per pixel, column or word of the net's input, row by row, the first one in the highest
    bit; 1 means shown."""

    photo: PhotoId
    net: Name
    fill: Spec = "gray"
    mask: Annotated[str, Field(max_length=700_000)]
    labels: list[LabelIndex] = Field(default_factory=list, max_length=LIMITS["labels"])
    job: _JobId | None = None
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


def add_job_routes(router: APIRouter, server: Server) -> None:
    """Add the routes for jobs and painted proofs."""
    jobs, choices = server.jobs, server.choices

    @router.post("/api/jobs", status_code=202)
    async def add_job(asked: JobAsked) -> dict[str, Any]:
        """Queue a job. If a kept job has the same request, that job is returned."""
        photo, offer = server.items[asked.photo], server.nets.offer(asked.net)
        methods, fill = [choices.method(spec) for spec in asked.methods], choices.fill(asked.fill)
        if len({*asked.labels}) < len(asked.labels) or len({*asked.methods}) < len(asked.methods):
            raise InputError("a label or a method is named more than once; name each only once")
        check_known(asked.labels, await server.facts(asked.net))
        if server.access.token:  # others may wait; alone on this machine, whoever asks also waits
            _check_passes(methods, len(asked.labels))
        written = [choices.written(method) for method in methods]
        command = _command_line(
            photo.arguments, offer.options, asked.labels, written, fill.title(), asked.seed
        )
        return {"job": jobs.add(MapJob(asked, photo, methods, fill, command)).id}

    @router.get("/api/jobs/{job}")
    async def one_job(job: _JobId, after: Annotated[int, Query(ge=0, le=2**53)] = 0) -> dict[str, Any]:
        """A job, and its events with a number above ``after``; of unfinished maps and progress only the newest."""
        found = jobs[job]
        events, last = found.events(after)
        return {**jobs.summary(found), "command": found.command, "events": events, "last": last}

    @router.delete("/api/jobs/{job}")
    async def cancel(job: _JobId, leave: bool = False) -> dict[str, Any]:
        """Cancel a job: at once if it waits, after its current step if it runs. With ``leave``, only if no other request wants it."""
        found = jobs[job]
        jobs.cancel(found, leave=leave)
        return jobs.summary(found)

    @router.get("/api/jobs/{job}/maps/{method}/{label}")
    async def finished_map(
        job: _JobId, method: Annotated[int, Path(ge=0, lt=LIMITS["methods"])], label: LabelIndex
    ) -> dict[str, Any]:
        """A finished map: its ranking of pixels, its curves, and what it proves."""
        found = jobs[job]
        if (method, label) not in found.maps:
            raise NotFound(
                "the map is not finished, or the job does not include it"
                if not found.is_over
                else "the job has no such map"
            )
        return found.maps[method, label]

    @router.get("/api/jobs/{job}/files/{file}")
    async def job_file(job: _JobId, file: Annotated[str, Path(max_length=40)]) -> Response:
        """A file to save: sheet.png, page.html, maps.safetensors, command.txt."""
        found = jobs[job]
        facts = await server.facts(found.asked.net)
        content = await run_in_threadpool(_saved, found, file, facts.inputs)
        named = f'attachment; filename="{found.photo.id[:8]}-{file}"'
        return Response(content, media_type=_FILES[file], headers={"content-disposition": named})

    @router.post("/api/paint")
    async def paint(asked: _PaintAsked) -> dict[str, Any]:
        """The net's probabilities if only the painted pixels are shown, and if the same number of top pixels of each method's map is shown."""
        photo, fill = server.items[asked.photo], choices.fill(asked.fill)
        job = None if asked.job is None else jobs.find(asked.job)  # a job that is gone is no error
        if job is not None and (job.asked.photo, job.asked.net) != (asked.photo, asked.net):
            raise InputError("that job has another photo or net")
        return await server.ask(partial(_painted, server.nets, asked, photo, fill, job))


def _check_passes(methods: Sequence[Method], labels: int) -> None:
    """Raise if a job with these methods and this number of labels needs more passes than one job may take while others wait."""
    costs = [method.cost(labels) for method in methods]
    passes = sum(cost.passes for cost in costs if cost is not None)
    if passes > _MOST_PASSES:
        raise InputError(
            f"{', '.join(method.title() for method in methods)} for {counted(labels, 'label')} would take {passes:,} passes of the net; "
            f"the limit for a job is {_MOST_PASSES:,}: ask for fewer, or use the command line: proofmap explain"
        )


# ---- painted proofs --------------------------------------------------------------------------------


def _painted(nets: Nets, asked: _PaintAsked, photo: Item, fill: Fill, job: MapJob | None) -> dict[str, Any]:
    """The net's probabilities for a painted proof (``f``) and for the whole input (``whole``), and for the maps of ``job`` at the same size
    (``machine``). Must run in the worker's thread."""
    facts = nets.facts(asked.net)
    check_known(asked.labels, facts)
    classifier, image = nets.at_own_length(asked.net, nets.seen(photo, asked.net))
    keep = _mask_from(asked.mask, classifier.inputs.positions)
    count = int(keep.sum())
    maps = sorted(job.maps.items()) if job is not None else []
    ranked = (_ranks_of(answer).view(keep.shape) < count for _, answer in maps)
    masks = torch.stack([keep, torch.ones_like(keep), *ranked]).to(classifier.device)
    image = image.to(classifier.device)
    hidden = nets.hidden(asked.net, photo, fill, image, asked.seed)
    shown = classifier.inputs.composite(
        masks, image.expand(len(masks), *image.shape[1:]), hidden.expand(len(masks), *hidden.shape[1:])
    )
    f = classifier.frozen().probabilities(shown).cpu()
    labels = dict.fromkeys([*top_labels(f[0], classifier.label_set, _TOP), *asked.labels])
    return {
        "share": count / keep.numel(),
        "labels": [
            {"label": a, "name": facts.names[a], "f": float(f[0, a]), "whole": float(f[1, a])} for a in labels
        ],
        "machine": [
            {"method": method, "label": label, "f": float(row[label])}
            for row, ((method, label), _) in zip(f[2:], maps, strict=True)
        ],
    }


def _mask_from(text: str, positions: tuple[int, ...]) -> Tensor:
    """A boolean mask of shape ``positions``, read from packed bits in base64.

    >>> _mask_from("oA==", (1, 3))
    tensor([[ True, False,  True]])
    """
    count = math.prod(positions)
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError):
        raise InputError("mask must be base64 of packed bits") from None
    if len(packed) != -(-count // 8):
        each = f"{' x '.join(map(str, positions))} {'pixels' if len(positions) > 1 else 'positions'}"
        raise InputError(
            f"mask must hold one bit for each of {each}, {-(-count // 8)} bytes, not {len(packed)}"
        )
    bits = np.unpackbits(packed, count=count)
    return torch.from_numpy(bits.astype(bool)).view(positions)


def _ranks_of(answer: Mapping[str, Any]) -> Tensor:
    """The rank of each pixel of a finished map ``(H, W)``; 0 is the most important pixel."""
    kind = np.dtype(answer["order_type"]).newbyteorder("<")
    ranks = np.frombuffer(base64.b64decode(answer["order"]), dtype=kind).astype(np.int64)
    return torch.from_numpy(ranks).view(answer["height"], answer["width"])


# ---- files of a finished job --------------------------------------------------------------------------------


_FILES = {
    "sheet.png": "image/png",
    "page.html": "text/html; charset=utf-8",
    "maps.safetensors": "application/octet-stream",
    "command.txt": "text/plain; charset=utf-8",
}
"""The files of a finished job and their media types."""


def _saved(job: MapJob, file: str, inputs: Inputs) -> bytes:
    """The content of a file of a job, made when it is first requested."""
    if file not in _FILES:
        raise NotFound(f"a job has the files {', '.join(_FILES)}")
    if file not in job.files:
        if file == "command.txt":
            job.files[file] = f"{job.command}\n".encode()
        elif job.evaluation is None:
            raise NotFound("the job has no files before it is done")
        else:
            job.files[file] = _made(job, shared(job.evaluation), file, inputs)
    return job.files[file]


def _made(job: MapJob, evaluation: Evaluation, file: str, inputs: Inputs) -> bytes:
    if file == "page.html":
        return _page(job, evaluation, inputs)
    if file == "maps.safetensors":
        return maps_safetensors(evaluation)
    with job.photo.opened() as picture:
        return sheet_png(evaluation, 0, crop_words(picture, inputs))


def _page(job: MapJob, evaluation: Evaluation, inputs: Inputs) -> bytes:
    names = [result.name for result in evaluation.results]
    shown = names[0] if len(names) == 1 else f"{len(names)} methods"
    with TemporaryDirectory() as folder, job.photo.opened() as picture:
        page = write_report(
            evaluation,
            FilePath(folder, "report.html"),
            title=f"What do the maps of {shown} prove?",
            command=job.command,
            explained=True,
            crops=lambda _: crop_words(picture, inputs),
        )
        return page.read_bytes()


def _command_line(
    what: Sequence[str],
    net: Sequence[str],
    labels: Sequence[int],
    methods: Sequence[str],
    fill: str,
    seed: int,
) -> str:
    """The command that repeats a job, without folders of the server.

    >>> _command_line(
    ...     ["cat.jpg"], ["--model", "efficientnet-lite0"], [281, 7], ["grad-cam", "rise"], "blur", 3
    ... )
    'proofmap explain cat.jpg --model efficientnet-lite0 --labels 281,7 --method grad-cam,rise --fill blur --seed 3'
    """
    parts = ["proofmap", "explain", *what, *net, "--labels", ",".join(map(str, labels))]
    parts += ["--method", ",".join(methods)]
    parts += ["--fill", fill] if fill != "gray" else []
    parts += ["--seed", str(seed)] if seed else []
    return without_folders(shlex.join(parts))
