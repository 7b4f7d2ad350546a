"""Training of maskers: steps on random images of the data, with checkpoints from which a training continues to the same weights.

Every random number of a step comes from the seed and the number of the step. The weights, the state of the optimisers and the number of
the step are all that a step takes over from the previous one; a checkpoint holds all of them.

With a time limit T, the schedule (learning rates, phases) follows the steps or the clock, whichever is further. After k steps in
the time t, it is at step max(k, floor(n t / T)) of its n steps, and training ends at step n. So a training that is ended by the
time limit has also gone through the whole schedule. The number of steps then depends on the machine, so two such trainings differ;
without a limit nothing depends on the clock.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from time import monotonic

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.core.progress import Progress
from proofmap.methods.maskers.belief import BeliefObjective
from proofmap.methods.maskers.file import Header, net_digest, read_header, write_tensors
from proofmap.methods.maskers.objective import (
    Adam,
    Objective,
    TrainingBatch,
    TrainingRecipe,
    with_prefix,
    without_prefix,
)
from proofmap.methods.maskers.published import PhangCA, PhangFix, RealTimeObjective
from proofmap.methods.masks.engine import HALF_SCALE

KINDS: dict[str, type[Objective]] = {
    objective.kind: objective for objective in (RealTimeObjective, PhangFix, PhangCA, BeliefObjective)
}


_LOST = 0.1
"""The largest share of steps that may be skipped because half precision overflows."""
_TELL = 10
"""Number of steps between progress messages, which show the mean over these steps."""
_LEAST_AREA = 0.5
_SECONDS = 300.0
"""A checkpoint is also written after this number of seconds, because steps may take long."""


class Training:
    """The training of one masker, with the data on the net's device."""

    def __init__(
        self, recipe: TrainingRecipe, classifier: Classifier, images: Tensor, truth: Tensor | None, data: str
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
        self.spent, self.began = 0.0, monotonic()
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
            present=self.objective.present.tolist(),
        )

    def _present(self) -> Tensor:
        """The labels in the data, sorted. For an image without a true label, the net's likeliest label counts."""
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
        """Make the remaining steps, or as many as the time limit allows. A checkpoint is written every ``every`` steps."""
        recipe, objective = self.recipe, self.objective
        if checkpoint.exists():
            self._resume(checkpoint)
        self.began = kept = monotonic()
        left = (
            sum(objective.passes(step) for step in range(self.schedule_step(), recipe.steps)) * recipe.batch
        )
        objective.net.train()
        seen: list[Tensor] = []
        with progress.task(f"training {recipe.kind}", left) as task, steady_kernels(tf32=True):
            while (place := self.schedule_step()) < recipe.steps:
                loss = self._learn(place)
                name, value = objective.shown_value or ("loss", loss)
                seen, note = [*seen, value][-_TELL:], ""
                if self.step % _TELL == 0:
                    note = f"{self._clock()}step {self.step}, {name} {torch.stack(seen).mean().item():.3f}"
                due = self.step % every == 0 or monotonic() - kept > _SECONDS
                if due and self.step < recipe.steps:
                    self._save(checkpoint)
                    kept = monotonic()
                task.advance(objective.passes(place) * recipe.batch, note)
        objective.net.eval()
        self.header = replace(self.header, made=self.step)

    def seconds(self) -> float:
        """The total time of the training in seconds, including parts before a stop."""
        return self.spent + monotonic() - self.began

    def _clock(self) -> str:
        minutes = self.recipe.minutes
        return "" if minutes is None else f"minute {self.seconds() / 60:.1f} of {minutes:g}, "

    def schedule_step(self) -> int:
        """The position of the next step in the schedule. It is computed from the steps made and from the time used; the later
        position counts.
        """
        steps, minutes = self.recipe.steps, self.recipe.minutes
        if minutes is None or not self.step:  # there is always at least one step
            return self.step
        return max(self.step, int(steps * self.seconds() / (60 * minutes)))

    def sample_images(self, number: int) -> Tensor:
        """At most ``number`` images, spread over the data, as floats."""
        which = torch.linspace(0, len(self.images) - 1, min(number, len(self.images))).round().long()
        return self._floats(self.images[which.to(self.images.device)])

    def _learn(self, place: int) -> Tensor:
        """Make one step at its position in the schedule. Returns its loss."""
        objective = self.objective
        learned = objective.learned(place)
        self.optimiser.zero()
        objective.net.requires_grad_(False)
        for weight in learned:
            weight.requires_grad_(True)
        scale = HALF_SCALE * self.recipe.batch if objective.half else 1.0
        with torch.enable_grad():
            loss: Tensor = objective.loss(self._batch(self.step, place))
            (scale * loss).backward()
        for weight in learned:
            if weight.grad is not None:
                weight.grad /= scale
        length: Tensor = torch.nn.utils.clip_grad_norm_(learned, objective.clip)
        if bool(length.isfinite()):
            self.optimiser.step(objective.rate_at(place))
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

    def _batch(self, step: int, place: int) -> TrainingBatch:
        n, device = self.recipe.batch, self.classifier.device
        halves = streams.random_words(
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
        behind = other.roll(1, dims=0)  # not the images whose halves were mixed in
        return TrainingBatch(place, images, behind, labels, features, log_f, keys)

    # ---- checkpoints --------------------------------------------------------------------------------------------

    def _save(self, path: Path) -> None:
        state = with_prefix(self.objective.net.state_dict(), "net.")
        state |= with_prefix(self.optimiser.state(), "adam.") | with_prefix(self.objective.state(), "own.")
        state_of_run = {
            "masker": self.header.text(),
            "step": self.step,
            "lost": self.lost,
            "seconds": self.seconds(),
        }
        plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
        write_tensors(path, plain, json.dumps(state_of_run))

    def _resume(self, path: Path) -> None:
        found = json.loads(read_header(path))
        if not self.header.matches(found["masker"]):
            raise InputError(
                f"{path} was begun with {_difference(found['masker'], self.header.text())}; give the same settings, net and "
                "data to continue it, or remove it to start again"
            )
        state = load_file(path)
        self.objective.net.load_state_dict(without_prefix(state, "net."))
        self.objective.load_state(without_prefix(state, "own."))
        self.optimiser.load_state(without_prefix(state, "adam."))
        self.step, self.lost, self.spent = found["step"], found["lost"], found["seconds"]


def _difference(before: str, now: str) -> str:
    """The entries of the first of two headers that differ from the second, in words."""
    old, new = ({**found.pop("recipe"), **found} for found in (json.loads(before), json.loads(now)))
    for name in ("scales", "content"):  # other entries say more
        changed = old.pop(name) != new.pop(name)
    other = [f"{name} {old[name]}" for name in new if old.get(name) != new[name]]
    return ", ".join(other) if other or not changed else "other images"


def augmented(images: Tensor, keys: Tensor) -> Tensor:
    """A random crop of each image (at least half of its area), resized to full size, mirrored half of the time."""
    side, left, top, coin = streams.uniform(keys ^ streams.key_of("part"), 4).unbind(dim=1)
    share = (_LEAST_AREA + (1 - _LEAST_AREA) * side).sqrt()
    mirror = torch.where(coin < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(share)
    rows = [share * mirror, zero, (1 - share) * (2 * left - 1), zero, share, (1 - share) * (2 * top - 1)]
    grid = F.affine_grid(torch.stack(rows, dim=1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp(0, 1)
