"""``train_masker``, which trains a masker for a net on images and writes it to a file."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.core.errors import InputError
from proofmap.core.files import output_file
from proofmap.core.progress import Progress, Silent
from proofmap.methods.maskers.file import (
    IMAGES,
    MapSummary,
    MaskerWarning,
    read_header,
    summarise_maps,
    write_masker,
)
from proofmap.methods.maskers.objective import TrainingRecipe
from proofmap.methods.maskers.trained import method_of
from proofmap.methods.maskers.training import KINDS, Training


def train_masker(
    kind: str,
    classifier: Classifier,
    images: Tensor,
    truth: Tensor | None = None,
    *,
    out: str | Path,
    steps: int = 2000,
    minutes: float | None = None,
    batch: int | None = None,
    learning_rate: float | None = None,
    width: int | None = None,
    layers: Sequence[str] = (),
    seed: int = 0,
    data: str = "images",
    every: int = 200,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train a masker for a net and write it to a file; a training that was stopped continues from its last checkpoint.

    The result is the same as without a stop. If the file already contains a masker that was trained in the same way from the same
    data, nothing is done. The file's header has statistics of the masker's maps
    (:class:`~proofmap.methods.maskers.file.MapSummary`), and a :class:`~proofmap.methods.maskers.file.MaskerWarning` reports what
    looks wrong with them.

    Args:
        kind: ``dabkowski``, ``phang-fix``, ``phang-ca`` or ``belief``.
        classifier: the net, which is not changed.
        images: ``(M, C, H, W)`` as the net takes them, floats in [0, 1] or bytes; kept on the net's device.
        truth: the true labels ``(M,)``. The net's likeliest label is used where ``truth`` is -1, or for all images if it is left
            out.
        out: the masker's file, ``NAME.safetensors``; the checkpoint is ``NAME.checkpoint.safetensors`` in the same folder.
        steps: number of steps of the optimiser.
        minutes: time limit of the training in minutes, including parts before a stop; learning rates then follow the
            time or the steps, whichever is further. The file's header has the number of steps made.
        batch, learning_rate, width: images per step, step size and channels of the masker; the kind's defaults if left out.
        layers: names of the layers to read; chosen automatically if left out.
        data: the title of the data in the file's header.
        every: steps between checkpoints.
        force: replace a different masker.
    """
    check_masker(kind, out, minutes)
    usual = KINDS[kind]
    recipe = TrainingRecipe(
        kind,
        _positive(steps, "steps"),
        _positive(usual.batch if batch is None else batch, "batch"),
        usual.rate if learning_rate is None else learning_rate,
        _positive(usual.width if width is None else width, "width"),
        tuple(layers),
        seed,
        minutes,
    )
    if not 0 < recipe.learning_rate < math.inf:
        raise InputError(f"learning_rate must be a number above 0, not {learning_rate}")
    _positive(every, "every")
    with outside_inference_mode():
        training = Training(recipe, classifier, images, truth, data)
        file = output_file(out, such_as="masker.safetensors")
        if file.exists() and not force:
            if training.header.matches(read_header(file)):
                return file
            raise InputError(
                f"{file} is a different masker and is not replaced; choose another file, or replace it with --force (force=True)"
            )
        training.run(checkpoint_of(file), every, progress or Silent())
        header = replace(training.header, learned=_learned(training, classifier))
        write_masker(file, training.objective.net, header)
    checkpoint_of(file).unlink(missing_ok=True)
    assert header.learned is not None
    for problem in header.learned.problems():
        warnings.warn(
            f"{file}: {problem}. Try more steps, more images or a smaller learning rate, and judge it before you use it",
            MaskerWarning,
            stacklevel=2,
        )
    return file


def _learned(training: Training, classifier: Classifier) -> MapSummary:
    """Statistics of the maps of the masker, computed with the weights as its file stores them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "masker.safetensors"
        header = replace(training.header, present=None)  # any two labels will do here
        write_masker(path, training.objective.net, header)
        method = method_of(training.recipe.kind, path)
        return summarise_maps(method.prepare(classifier), training.sample_images(IMAGES))


def checkpoint_of(file: Path) -> Path:
    """The path of the checkpoint of a training, which exists until the masker's ``file`` is written."""
    return file.with_suffix(".checkpoint.safetensors")


def check_masker(kind: str, out: str | Path, minutes: float | None) -> None:
    """Raise an error if the kind is unknown, if the file does not end in .safetensors, or if the time limit is not positive."""
    if kind not in KINDS:
        raise InputError(f"a masker's kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if Path(out).suffix != ".safetensors":
        raise InputError(f"a masker's file is named NAME.safetensors, not {Path(out).name}")
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"minutes must be a number above 0, not {minutes}")


def _positive(number: int, name: str) -> int:
    if number < 1:
        raise InputError(f"{name} must be at least 1, not {number}")
    return number
