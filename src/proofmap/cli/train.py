"""``train-masker``: a small net that makes masks from the features of a net, trained once and used by methods."""

from __future__ import annotations

import json
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

import proofmap as pm
from proofmap.cli.console import print_result, progress_for, stderr
from proofmap.cli.options import (
    Device,
    FitOption,
    Model,
    Quiet,
    Seed,
    Weights,
    command_line,
    device_named,
    names_after,
    path_option,
)
from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.data.dataset import Dataset, random_choice, truths
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.methods import train_masker as train
from proofmap.methods.maskers.file import Header, read_header
from proofmap.methods.maskers.learned import MaskerWarning
from proofmap.methods.maskers.train import check_masker, checkpoint_of
from proofmap.models import DEFAULT_MODEL

_SEVERAL = 64
_BYTES = 255


def train_masker(
    data: Annotated[
        list[str],
        typer.Option(
            help="A dataset, or photos and folders; see [bold]proofmap list datasets[/]. May be repeated."
        ),
    ],
    out: Annotated[Path, path_option("The masker's file, NAME.safetensors.")],
    kind: Annotated[str, typer.Option(help="dabkowski, phang-fix, phang-ca or belief.")] = "belief",
    model: Model = DEFAULT_MODEL,
    weights: Weights = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the optimiser.")] = 2000,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="End after so many minutes of training, with rates that fall by then, and write the masker."
        ),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images per step; the kind's own.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The kind's own when left out.")] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="Channels of the masker; the kind's own when left out.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers to read, separated by commas; found by themselves.")
    ] = None,
    number: Annotated[int | None, typer.Option(min=1, help="So many images, at random.")] = None,
    every: Annotated[
        int, typer.Option(min=1, help="Steps between checkpoints; there is one every five minutes, too.")
    ] = 200,
    force: Annotated[bool, typer.Option("--force", help="Replace a masker that is another one.")] = False,
    fit: FitOption = None,
    device: Device = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    check_masker(kind, out, minutes)  # before images are read, which may take long
    dataset = open_data(data)
    classifier = pm.load_classifier(model, weights=weights, device=device_named(device))
    if fit is not None:
        classifier = classifier.fitting(fit)
    existed = out.exists() and not force
    images, truth = _load(dataset, classifier, number, seed)
    warnings.simplefilter("always", MaskerWarning)
    with _stopped(out, steps):
        file = train(
            kind,
            classifier,
            images,
            truth,
            out=out,
            steps=steps,
            minutes=minutes,
            batch=batch,
            learning_rate=learning_rate,
            width=width,
            layers=names_after("--layers", layers) or [],
            seed=seed,
            data=dataset.title,
            every=every,
            force=force,
            progress=progress_for(stderr, quiet),
        )
    header = Header.parse(read_header(file))
    made = "" if header.made in (None, steps) else f", after {header.made} of {steps} steps"
    stderr.print(f"nothing left to do: the masker is there{made}" if existed else f"written: {file}{made}")
    if header.learned is not None and not quiet:
        stderr.print(header.learned.told())
    print_result(file)


@contextmanager
def _stopped(out: Path, steps: int) -> Iterator[None]:
    """Whoever stops the training, by Ctrl-C or by a signal to end, is told what is kept and which command goes on with it."""
    before = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    except BaseException as stop:
        if not isinstance(stop, Exception):
            kept = checkpoint_of(out)
            if kept.exists():
                step = json.loads(read_header(kept))["step"]
                told = f"{step} of {steps} steps are kept in {kept}; go on with: {command_line()}"
            else:
                told = f"no checkpoint was due yet; begin again with: {command_line()}"
            stop.add_note(told)
        raise
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _load(
    dataset: Dataset, classifier: pm.Classifier, number: int | None, seed: int
) -> tuple[Tensor, Tensor]:
    """All pictures as bytes on the classifier's device, and their labels, -1 where they are not known."""
    chosen = list(range(len(dataset)))
    if number is not None:
        chosen = random_choice(dataset.names, min(number, len(dataset)), seed=seed)
    known = truths(dataset, classifier.names, chosen)
    label_of = {i: -1 if label is None else label for i, label in zip(chosen, known, strict=True)}
    images, labels, failed = [], [], list[str]()
    for block in load_blocks(dataset, classifier, chosen, block_size=_SEVERAL):
        images.append((block.images * _BYTES).round().to(torch.uint8))
        labels += [label_of[i] for i in block.indices]
        failed += [failure.reason for failure in block.failures]
    if len(failed) == len(chosen):
        more = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
        raise InputError(f"no image of {dataset.title} could be read: {failed[0]}{more}")
    for reason in failed[:3]:
        stderr.print(f"left out: {reason}")
    if failed:
        of = f"{counted(len(failed), 'image')} of {len(chosen)}"
        stderr.print(f"note: {of} could not be read and {'is' if len(failed) == 1 else 'are'} left out")
    return torch.cat(images), torch.tensor(labels)
