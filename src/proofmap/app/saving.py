"""Files of a finished job: sheet, page, maps in two formats, and the command that repeats it."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from proofmap.app.items import NotFound
from proofmap.app.jobs import MapJob
from proofmap.core.inputs import Inputs
from proofmap.report.display import map_tensors, maps_safetensors, sheet_png
from proofmap.report.html import write_report
from proofmap.report.pictures import crop_words, original_of
from proofmap.report.proof_sheets import explained_sheet
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared, without_folders

FILES = {
    "sheet.png": "image/png",
    "page.html": "text/html; charset=utf-8",
    "maps.npz": "application/octet-stream",
    "maps.safetensors": "application/octet-stream",
    "command.txt": "text/plain; charset=utf-8",
}
"""The files and their media types."""


def saved(job: MapJob, file: str, inputs: Inputs) -> bytes:
    """The content of a file, made when it is first requested."""
    if file not in FILES:
        raise NotFound(f"a job has the files {', '.join(FILES)}")
    if file not in job.files:
        if file == "command.txt":
            job.files[file] = f"{job.command}\n".encode()
        elif job.evaluation is None:
            raise NotFound("the job has no files before it is done")
        else:
            job.files[file] = _made(job, shared(job.evaluation), file, inputs)
    return job.files[file]


def _made(job: MapJob, evaluation: Evaluation, file: str, inputs: Inputs) -> bytes:
    match file:
        case "sheet.png":
            with job.photo.opened() as picture:
                return sheet_png(explained_sheet(evaluation, 0, crop_words(picture, inputs)))
        case "page.html":
            return _page(job, evaluation, inputs)
        case "maps.safetensors":
            return maps_safetensors(evaluation)
    archive = io.BytesIO()
    arrays = {name: tensor.numpy() for name, tensor in map_tensors(evaluation).items()}
    np.savez_compressed(archive, allow_pickle=False, **arrays)
    return archive.getvalue()


def _page(job: MapJob, evaluation: Evaluation, inputs: Inputs) -> bytes:
    names = [result.name for result in evaluation.results]
    shown = names[0] if len(names) == 1 else f"{len(names)} methods"
    with TemporaryDirectory() as folder, job.photo.opened() as picture:
        page = write_report(
            evaluation,
            Path(folder, "report.html"),
            title=f"What do the maps of {shown} prove?",
            command=job.command,
            explained=True,
            originals=lambda _: original_of(picture, inputs),
        )
        return page.read_bytes()


def command_line(
    what: Sequence[str],
    net: Sequence[str],
    labels: Sequence[int],
    methods: Sequence[str],
    fill: str,
    seed: int,
) -> str:
    """The command that repeats a job; folders of the server are left out.

    >>> command_line(
    ...     ["cat.jpg"], ["--model", "efficientnet-lite0"], [281, 7], ["grad-cam", "rise"], "blur", 3
    ... )
    'proofmap explain cat.jpg --model efficientnet-lite0 --labels 281,7 --method grad-cam,rise --fill blur --seed 3'
    """
    parts = ["proofmap", "explain", *what, *net, "--labels", ",".join(map(str, labels))]
    parts += ["--method", ",".join(methods)]
    parts += ["--fill", fill] if fill != "gray" else []
    parts += ["--seed", str(seed)] if seed else []
    return without_folders(shlex.join(parts))
