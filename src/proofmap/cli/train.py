"""``train-masker``: trains a small net that makes masks from the features of a net, for methods that use it."""

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
from proofmap.cli import options
from proofmap.cli.console import print_result, progress_for, shown_path, stderr
from proofmap.core.errors import InputError
from proofmap.core.pictures import Fit
from proofmap.core.text import counted
from proofmap.data.dataset import Dataset, random_choice, truths
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.methods import train_masker as train
from proofmap.methods.maskers.file import Header, MaskerWarning, read_header
from proofmap.methods.maskers.train import check_masker, checkpoint_of
from proofmap.methods.maskers.training import KINDS
from proofmap.models import DEFAULT_MODEL

_BLOCK = 64
_BYTES = 255
_OF_KIND = "depends on the kind"


def train_masker(
    data: Annotated[list[str], options.DATA],
    out: Annotated[Path, options.path_option("File of the masker, NAME.safetensors.")],
    kind: Annotated[str, options.choice_option(KINDS, "Kind of masker")] = "belief",
    model: Annotated[str, options.MODEL] = DEFAULT_MODEL,
    weights: Annotated[Path | None, options.WEIGHTS] = None,
    steps: Annotated[int, typer.Option(min=1, help="Number of optimiser steps.")] = 2000,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Time limit. The learning rate falls to its end by then, and the masker is written."
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Number of images per step.", show_default=_OF_KIND)
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate.", show_default=_OF_KIND)] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="Number of channels of the masker.", show_default=_OF_KIND)
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Layers to read, separated by commas.", show_default="found automatically"),
    ] = None,
    number: Annotated[int | None, options.NUMBER] = None,
    every: Annotated[
        int,
        typer.Option(
            min=1, help="Number of steps between checkpoints; there is also one every five minutes."
        ),
    ] = 200,
    force: Annotated[bool, typer.Option("--force", help="Replace another masker in the same file.")] = False,
    fit: Annotated[Fit | None, options.FIT] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    seed: Annotated[int, options.SEED] = 0,
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    check_masker(kind, out, minutes)  # before images are read, which may take a while
    out = out.absolute()
    dataset = open_data(data)
    classifier = pm.load_classifier(model, weights=weights, device=options.check_device(device))
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
            layers=options.names_after("--layers", layers) or [],
            seed=seed,
            data=dataset.title,
            every=every,
            force=force,
            progress=progress_for(stderr, quiet),
        )
    header = Header.parse(read_header(file))
    made = "" if header.made in (None, steps) else f", after {header.made} of {steps} steps"
    stderr.print(
        f"nothing left to do: the masker is there{made}" if existed else f"written: {shown_path(file)}{made}"
    )
    if header.learned is not None and not quiet:
        stderr.print(str(header.learned))
    print_result(shown_path(file))


@contextmanager
def _stopped(out: Path, steps: int) -> Iterator[None]:
    """If training is stopped by Ctrl-C or SIGTERM, report what is kept and which command continues it."""
    before = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    except BaseException as stop:
        if not isinstance(stop, Exception):
            kept = checkpoint_of(out)
            if kept.exists():
                step = json.loads(read_header(kept))["step"]
                note = f"{step} of {steps} steps are kept in {shown_path(kept)}; continue with: {options.command_line()}"
            else:
                note = f"no checkpoint was due yet; start again with: {options.command_line()}"
            stop.add_note(note)
        raise
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _load(
    dataset: Dataset, classifier: pm.Classifier, number: int | None, seed: int
) -> tuple[Tensor, Tensor]:
    """Load images as bytes onto the classifier's device, and their labels; an unknown label is -1. ``number`` limits how many are loaded."""
    chosen = list(range(len(dataset)))
    if number is not None:
        chosen = random_choice(dataset.names, min(number, len(dataset)), seed=seed)
    known = truths(dataset, classifier.names, chosen)
    label_of = {i: -1 if label is None else label for i, label in zip(chosen, known, strict=True)}
    images, labels, failed = [], [], list[str]()
    for block in load_blocks(dataset, classifier, chosen, block_size=_BLOCK):
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
