"""``train_masker``: from a net and images to a masker's file."""

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
from proofmap.methods.maskers.file import IMAGES, Learned, MaskerWarning, look, read_header, write_masker
from proofmap.methods.maskers.objective import Recipe
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
    """Train a masker for a net and write it to a file; a run that was stopped goes on from its last checkpoint.

    The answer is the same as that of a run that was not stopped. Where the file is there already, made in the same way from
    the same, nothing is left to do. What the masker's maps look like is in the file's header
    (:class:`~proofmap.methods.maskers.file.Learned`), and a :class:`~proofmap.methods.maskers.file.MaskerWarning` says what looks
    wrong with them.

    Args:
        kind: ``dabkowski``, ``phang-fix``, ``phang-ca`` or ``belief``.
        classifier: the net, which is not changed.
        images: ``(M, C, H, W)`` as the net takes them, floats in [0, 1] or bytes; kept on the net's device.
        truth: labels ``(M,)``; the net's likeliest stands in where it is -1, or for all when left out.
        out: the masker's file, ``NAME.safetensors``; the checkpoint is ``NAME.checkpoint.safetensors`` beside it.
        steps: of the optimiser.
        minutes: begin no further step after so many minutes of training, parts before a stop counted; learning rates then follow the
            time or the steps, whichever is further. How many steps were made is in the file's header.
        batch, learning_rate, width: images per step, step size and channels of the masker; the kind's own when left out.
        layers: names of the layers to read; found by themselves when left out.
        data: what the file's header calls the data.
        every: steps between checkpoints.
        force: replace a masker that is another one.
    """
    check_masker(kind, out, minutes)
    usual = KINDS[kind]
    recipe = Recipe(
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
            if training.header.says_the_same(read_header(file)):
                return file
            raise InputError(
                f"{file} is another masker, and it is not replaced; choose another file, or replace it with --force (force=True)"
            )
        training.run(checkpoint_of(file), every, progress or Silent())
        header = replace(training.header, learned=_learned(training, classifier))
        write_masker(file, training.objective.net, header)
    checkpoint_of(file).unlink(missing_ok=True)
    assert header.learned is not None
    for doubt in header.learned.doubts():
        warnings.warn(
            f"{file}: {doubt}. Try more steps, more images or a smaller learning rate, and judge it before you use it",
            MaskerWarning,
            stacklevel=2,
        )
    return file


def _learned(training: Training, classifier: Classifier) -> Learned:
    """A look at the maps of the masker as it will be read from its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "masker.safetensors"
        header = replace(training.header, present=None)  # any two labels will do here
        write_masker(path, training.objective.net, header)
        method = method_of(training.recipe.kind, path)
        return look(method.prepare(classifier), training.some(IMAGES))


def checkpoint_of(file: Path) -> Path:
    """Where a training keeps what it has, until its masker is written."""
    return file.with_suffix(".checkpoint.safetensors")


def check_masker(kind: str, out: str | Path, minutes: float | None) -> None:
    """Refuse a kind that there is not, a file that is not named as one of weights, and no time."""
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
