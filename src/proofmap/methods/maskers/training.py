"""Training of maskers: steps on random images of the data, checkpoints, and going on from one to the same numbers.

Every random number of a step comes from the seed and the number of the step. What is carried from one step to the next is the
weights, what the optimisers keep and the number of the step; a checkpoint has all of it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode, steady_kernels
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.files import output_file
from proofmap.core.inputs import Pictures
from proofmap.core.progress import Progress, Silent
from proofmap.methods.maskers.belief import BeliefObjective
from proofmap.methods.maskers.file import Header, net_digest, read_header, write_masker, write_tensors
from proofmap.methods.maskers.objective import Batch, Objective, Recipe
from proofmap.methods.maskers.optimiser import Adam, below, prefixed
from proofmap.methods.maskers.phang import PhangCA, PhangFix
from proofmap.methods.maskers.real_time import RealTimeObjective
from proofmap.methods.masks.engine import HALF_SCALE

KINDS: dict[str, type[Objective]] = {
    objective.kind: objective for objective in (RealTimeObjective, PhangFix, PhangCA, BeliefObjective)
}
_LOST = 0.1
"""The share of steps that may be lost to overflows of half precision."""
_TELL = 10
"""Steps between notes, and over which what they tell is the mean."""
_LEAST_AREA = 0.5


def train_masker(
    kind: str,
    classifier: Classifier,
    images: Tensor,
    truth: Tensor | None = None,
    *,
    out: str | Path,
    steps: int = 2000,
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
    the same, nothing is left to do.

    Args:
        kind: ``dabkowski``, ``phang-fix``, ``phang-ca`` or ``belief``.
        classifier: the net, which is not changed.
        images: ``(M, C, H, W)`` as the net takes them, floats in [0, 1] or bytes; kept on the net's device.
        truth: labels ``(M,)``; the net's likeliest stands in where it is -1, or for all when left out.
        out: the masker's file, ``NAME.safetensors``; the checkpoint is ``NAME.checkpoint.safetensors`` beside it.
        steps: of the optimiser.
        batch, learning_rate, width: images per step, step size and channels of the masker; the kind's own when left out.
        layers: names of the layers to read; found by themselves when left out.
        data: what the file's header calls the data.
        every: steps between checkpoints.
        force: replace a masker that is another one.
    """
    check_masker(kind, out)
    usual = KINDS[kind]
    recipe = Recipe(
        kind,
        _positive(steps, "steps"),
        _positive(usual.batch if batch is None else batch, "batch"),
        usual.rate if learning_rate is None else learning_rate,
        _positive(usual.width if width is None else width, "width"),
        tuple(layers),
        seed,
    )
    if not 0 < recipe.learning_rate < math.inf:
        raise InputError(f"learning_rate must be a number above 0, not {learning_rate}")
    _positive(every, "every")
    with outside_inference_mode():
        training = Training(recipe, classifier, images, truth, data)
        file = output_file(out, such_as="masker.safetensors")
        if file.exists() and not force:
            if read_header(file) == training.header.text():
                return file
            raise InputError(
                f"{file} is another masker, and it is not replaced; choose another file, or replace it with --force (force=True)"
            )
        training.run(file.with_suffix(".checkpoint.safetensors"), every, progress or Silent())
        write_masker(file, training.objective.net, training.header)
    file.with_suffix(".checkpoint.safetensors").unlink(missing_ok=True)
    return file


def check_masker(kind: str, out: str | Path) -> None:
    """Refuse a kind that there is not, and a file that is not named as one of weights."""
    if kind not in KINDS:
        raise InputError(f"a masker's kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if Path(out).suffix != ".safetensors":
        raise InputError(f"a masker's file is named NAME.safetensors, not {Path(out).name}")


def _positive(number: int, name: str) -> int:
    if number < 1:
        raise InputError(f"{name} must be at least 1, not {number}")
    return number


class Training:
    """One masker on its way, with the data on the net's device."""

    def __init__(
        self, recipe: Recipe, classifier: Classifier, images: Tensor, truth: Tensor | None, data: str
    ) -> None:
        if not isinstance(classifier.inputs, Pictures):
            raise InputError(f"maskers are for pictures; {classifier.name} takes {classifier.inputs.noun}")
        if len(images) < 2:
            raise InputError(f"a masker is trained on at least 2 images, not {len(images)}")
        if images.dtype == torch.uint8:
            classifier.check_images(images[:1] / 255)
            self.images = images.to(classifier.device)
        else:
            self.images = classifier.check_images(images)
        given = torch.full((len(images),), -1) if truth is None else truth
        if given.shape != (len(images),):
            raise InputError(f"truth must be ({len(images)},), one label per image, not {tuple(given.shape)}")
        self.truth = given.to(classifier.device, torch.long)
        members = torch.tensor(classifier.label_set, device=classifier.device)
        self.truth = self.truth.where(torch.isin(self.truth, members), -1)
        self.classifier, self.recipe = classifier, recipe
        self.objective = KINDS[recipe.kind](recipe, classifier, self._present())
        self.optimiser = Adam(self.objective.net, self.objective.weight_decay)
        self.step, self.lost = 0, 0
        everything = len(classifier.label_set) == len(classifier.names)
        self.header = Header(
            recipe=recipe,
            model=classifier.name,
            net=net_digest(classifier),
            label_set="all" if everything else list(classifier.label_set),
            scales=self.objective.scales,
            data=data,
            images=len(images),
            content=self._content(),
        )

    def _present(self) -> Tensor:
        """The labels in the data, sorted; those that the net sees where no truth is known."""
        known = self.truth[self.truth >= 0]
        if len(known) < len(self.truth):
            likely = [self.classifier.top(self._floats(part), 1)[:, 0] for part in self.images.split(256)]
            known = torch.cat([known, torch.cat(likely)[self.truth < 0]])
        present: Tensor = known.unique()
        return present

    def _floats(self, images: Tensor) -> Tensor:
        return images / 255 if images.dtype == torch.uint8 else images

    def _content(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for tensor in (*self.images.split(256), self.truth):
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    # ---- steps --------------------------------------------------------------------------------------------------

    def run(self, checkpoint: Path, every: int, progress: Progress) -> None:
        """All steps that are left; a checkpoint every so many."""
        recipe, objective = self.recipe, self.objective
        if checkpoint.exists():
            self._resume(checkpoint)
        left = sum(objective.passes(step) for step in range(self.step, recipe.steps)) * recipe.batch
        objective.net.train()
        seen: list[Tensor] = []
        with progress.task(f"training {recipe.kind}", left) as task, steady_kernels(tf32=True):
            while self.step < recipe.steps:
                passes = objective.passes(self.step) * recipe.batch
                loss = self._learn()
                name, value = objective.told or ("loss", loss)
                seen, note = [*seen, value][-_TELL:], ""
                if self.step % _TELL == 0:
                    note = f"step {self.step}, {name} {torch.stack(seen).mean().item():.3f}"
                if self.step % every == 0 and self.step < recipe.steps:
                    self._save(checkpoint)
                task.advance(passes, note)
        objective.net.eval()

    def _learn(self) -> Tensor:
        """One step; returns its loss."""
        objective, step = self.objective, self.step
        learned = objective.learned(step)
        self.optimiser.zero()
        objective.net.requires_grad_(False)
        for weight in learned:
            weight.requires_grad_(True)
        scale = HALF_SCALE * self.recipe.batch if objective.half else 1.0
        with torch.enable_grad():
            loss: Tensor = objective.loss(self._batch(step))
            (scale * loss).backward()
        for weight in learned:
            if weight.grad is not None:
                weight.grad /= scale
        length: Tensor = torch.nn.utils.clip_grad_norm_(learned, objective.clip)
        if bool(length.isfinite()):
            self.optimiser.step(objective.rate_at(step))
        else:
            self._lose_step()
        self.step += 1
        return loss.detach()

    def _lose_step(self) -> None:
        self.lost += 1
        if not self.objective.half or self.lost > _LOST * self.recipe.steps + 1:
            raise InputError(
                f"the gradients of step {self.step} are not finite; try a smaller learning rate, or a net in float32"
            )

    def _batch(self, step: int) -> Batch:
        n, device = self.recipe.batch, self.classifier.device
        halves = streams.words(
            torch.tensor(streams.key_of(self.recipe.seed, "masker", step), device=device), 2 * n
        )
        keys = (halves[:n] << 32) | halves[n:]
        which = streams.integers(keys, 1, len(self.images))[:, 0]
        away = streams.integers(keys, 1, len(self.images) - 1, start=1)[:, 0]
        others = (which + 1 + away) % len(self.images)  # never the image itself
        images = augmented(self._floats(self.images[which]), keys)
        other = augmented(self._floats(self.images[others]), keys ^ streams.key_of("others"))
        images = self.objective.altered(images, other, keys)
        features, log_f = self.objective.read(images)
        truth = self.truth[which]
        labels = truth.where(truth >= 0, log_f.argmax(dim=1))
        behind = other.roll(1, dims=0)  # not those that an image may have a half of
        return Batch(step, images, behind, labels, features, log_f, keys)

    # ---- checkpoints --------------------------------------------------------------------------------------------

    def _save(self, path: Path) -> None:
        state = prefixed(self.objective.net.state_dict(), "net.")
        state |= prefixed(self.optimiser.state(), "adam.") | prefixed(self.objective.state(), "own.")
        told = {"masker": self.header.text(), "step": self.step, "lost": self.lost}
        plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
        write_tensors(path, plain, json.dumps(told))

    def _resume(self, path: Path) -> None:
        told = json.loads(read_header(path))
        if told["masker"] != self.header.text():
            raise InputError(
                f"{path} was begun with {_difference(told['masker'], self.header.text())}; give the same settings, net and "
                "data to go on, or remove it to begin anew"
            )
        state = load_file(path)
        self.objective.net.load_state_dict(below(state, "net."))
        self.objective.load_state(below(state, "own."))
        self.optimiser.load_state(below(state, "adam."))
        self.step, self.lost = told["step"], told["lost"]


def _difference(before: str, now: str) -> str:
    """What the first of two headers has other than the second, in words."""
    old, new = ({**found.pop("recipe"), **found} for found in (json.loads(before), json.loads(now)))
    for name in ("scales", "content"):  # the names beside them say more
        changed = old.pop(name) != new.pop(name)
    other = [f"{name} {old[name]}" for name in new if old.get(name) != new[name]]
    return ", ".join(other) if other or not changed else "other images"


def augmented(images: Tensor, keys: Tensor) -> Tensor:
    """A random part of each image (half of its area or more), at full size, mirrored half of the time."""
    side, left, top, coin = streams.uniform(keys ^ streams.key_of("part"), 4).unbind(dim=1)
    share = (_LEAST_AREA + (1 - _LEAST_AREA) * side).sqrt()
    mirror = torch.where(coin < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(share)
    rows = [share * mirror, zero, (1 - share) * (2 * left - 1), zero, share, (1 - share) * (2 * top - 1)]
    grid = F.affine_grid(torch.stack(rows, dim=1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp(0, 1)
