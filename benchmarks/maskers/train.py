"""Train a masker for a net, for the methods ``real-time-saliency`` and ``phang-masker``.

    python -m benchmarks.maskers.train --kind phang-ca --data imagenette:FOLDER[train] --steps 600 --out phang.safetensors

Kinds are ``dabkowski`` (real-time saliency), ``phang-fix`` and ``phang-ca``: see :mod:`benchmarks.maskers.published`. Training uses the true
labels if the data has them, otherwise the net's most probable label. The images are loaded once and kept on the net's device. Every random
number of a step comes from the seed and the number of the step. A masker is small and trained in minutes, so a training that is stopped
starts again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

import proofmap as pm
from benchmarks.maskers.objective import Objective, TrainingBatch, TrainingRecipe
from benchmarks.maskers.published import PhangCA, PhangFix, RealTimeObjective
from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode, steady_kernels
from proofmap.cli import run_script
from proofmap.cli.console import Lines, stderr
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.files import atomic_write, output_file
from proofmap.core.inputs import Pictures
from proofmap.core.progress import Progress
from proofmap.data import load_blocks, load_dataset, random_choice, true_outputs
from proofmap.methods.maskers.trained import COUNTER, HEADER, net_digest
from proofmap.methods.masks.method import HALF_SCALE

KINDS: dict[str, type[Objective]] = {
    objective.kind: objective for objective in (RealTimeObjective, PhangFix, PhangCA)
}
_LOST = 0.1
"""The largest share of steps that may be skipped because half precision overflows."""
_TELL = 10
"""Number of steps between progress messages, which show the mean loss of these steps."""
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
    seed: int = 0,
    data: str = "images",
    progress: Progress | None = None,
) -> Path:
    """Train a masker for a net and write it to the file ``out``.

    Args:
        images: ``(M, C, H, W)`` as the net takes them.
        truth: the true labels ``(M,)``, -1 if unknown.
        batch, learning_rate, width: images per step, step size and channels of the masker; the kind's defaults if left out.
        data: the title of the data in the file's header.
    """
    usual = KINDS[kind]
    recipe = TrainingRecipe(
        kind,
        steps,
        usual.batch if batch is None else batch,
        usual.rate if learning_rate is None else learning_rate,
        usual.width if width is None else width,
        seed,
    )
    file = output_file(out, such_as="masker.safetensors")
    with outside_inference_mode():
        training = Training(recipe, classifier, images, truth)
        training.run(progress or Progress())
    write_masker(file, training, data)
    return file


def write_masker(file: Path, training: Training, data: str) -> None:
    """Write a masker and its header, atomically. Kernels are stored in float16 and vectors in float32."""
    classifier, objective = training.classifier, training.objective
    content = hashlib.blake2b(digest_size=16)
    for tensor in (*training.images.split(256), training.truth):
        content.update(tensor.cpu().contiguous().numpy().tobytes())
    header = {
        "recipe": asdict(training.recipe),
        "model": classifier.name,
        "net": net_digest(classifier),
        "label_set": list(classifier.label_set),
        "scales": [asdict(scale) for scale in objective.scales],
        "data": data,
        "images": len(training.images),
        "content": content.hexdigest(),
        "present": objective.present.tolist(),
    }
    tensors = {
        name: (tensor.half() if tensor.ndim > 1 else tensor).detach().cpu().contiguous()
        for name, tensor in objective.net.state_dict().items()
        if not name.endswith(COUNTER)
    }
    with atomic_write(file) as part:
        save_file(tensors, part, {HEADER: json.dumps(header, sort_keys=True)})


class Training:
    """The training of one masker, with the data on the net's device."""

    def __init__(
        self, recipe: TrainingRecipe, classifier: Classifier, images: Tensor, truth: Tensor | None
    ) -> None:
        if not isinstance(classifier.inputs, Pictures):
            raise InputError(f"maskers are for pictures; {classifier.name} takes {classifier.inputs.noun}")
        self.images = classifier.check_images(images)
        given = torch.full((len(images),), -1) if truth is None else truth
        self.truth = given.to(classifier.device, torch.long)
        members = torch.tensor(classifier.label_set, device=classifier.device)
        self.truth = self.truth.where(torch.isin(self.truth, members), -1)
        self.classifier, self.recipe = classifier, recipe
        self.objective = KINDS[recipe.kind](recipe, classifier, self._present())
        self.optimiser = torch.optim.Adam(
            self.objective.net.parameters(), weight_decay=self.objective.weight_decay
        )
        self.lost = 0

    def _present(self) -> Tensor:
        """The labels in the data, sorted. For an image without a true label, the net's likeliest label counts."""
        known = self.truth[self.truth >= 0]
        if len(known) < len(self.truth):
            likely = [self.classifier.top(part, 1)[:, 0] for part in self.images.split(256)]
            known = torch.cat([known, torch.cat(likely)[self.truth < 0]])
        present: Tensor = known.unique()
        return present

    def run(self, progress: Progress) -> None:
        """Make all steps."""
        recipe, objective = self.recipe, self.objective
        passes = sum(objective.passes(step) for step in range(recipe.steps)) * recipe.batch
        objective.net.train()
        seen: list[Tensor] = []
        with progress.task(f"training {recipe.kind}", passes) as task, steady_kernels(tf32=True):
            for step in range(recipe.steps):
                seen = [*seen, self.learn(step)][-_TELL:]
                due = (step + 1) % _TELL == 0
                note = f"step {step + 1}, loss {torch.stack(seen).mean().item():.3f}" if due else ""
                task.advance(objective.passes(step) * recipe.batch, note)
        objective.net.eval()

    def learn(self, step: int) -> Tensor:
        """Make one step. Returns its loss."""
        objective = self.objective
        learned = objective.learned(step)
        self.optimiser.zero_grad()
        self.optimiser.param_groups[0]["lr"] = objective.rate_at(step)
        objective.net.requires_grad_(False)
        for weight in learned:
            weight.requires_grad_(True)
        scale = HALF_SCALE * self.recipe.batch if objective.half else 1.0
        with torch.enable_grad():
            loss: Tensor = objective.loss(self.batch(step))
            (scale * loss).backward()
        for weight in learned:
            if weight.grad is not None:
                weight.grad /= scale
        length: Tensor = torch.nn.utils.clip_grad_norm_(learned, objective.clip)
        if bool(length.isfinite()):
            self.optimiser.step()
        else:
            self.lost += 1
            if not objective.half or self.lost > _LOST * self.recipe.steps + 1:
                raise InputError(f"the gradients of step {step} are not finite; try a smaller learning rate")
        return loss.detach()

    def batch(self, step: int) -> TrainingBatch:
        n, device = self.recipe.batch, self.classifier.device
        halves = streams.random_words(
            torch.tensor(streams.key_of(self.recipe.seed, "masker", step), device=device), 2 * n
        )
        keys = (halves[:n] << 32) | halves[n:]
        which = streams.integers(keys, 1, len(self.images))[:, 0]
        images = augmented(self.images[which], keys)
        features, log_f = self.objective.read(images)
        truth = self.truth[which]
        labels = truth.where(truth >= 0, log_f.argmax(dim=1))
        return TrainingBatch(step, images, labels, features, log_f, keys)


def augmented(images: Tensor, keys: Tensor) -> Tensor:
    """A random crop of each image (at least half of its area), resized to full size, mirrored half of the time."""
    side, left, top, coin = streams.uniform(keys ^ streams.key_of("part"), 4).unbind(dim=1)
    share = (_LEAST_AREA + (1 - _LEAST_AREA) * side).sqrt()
    mirror = torch.where(coin < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(share)
    rows = [share * mirror, zero, (1 - share) * (2 * left - 1), zero, share, (1 - share) * (2 * top - 1)]
    grid = F.affine_grid(torch.stack(rows, dim=1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp(0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=list(KINDS), required=True)
    parser.add_argument("--data", required=True, help="a dataset, such as a folder of photos")
    parser.add_argument("--out", required=True, help="NAME.safetensors")
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--net", default=None, help="the net's weights")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--width", type=int, default=None, help="channels of the masker")
    parser.add_argument(
        "--number", type=int, default=None, help="train on this many images, chosen at random"
    )
    parser.add_argument("--device", default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if min(options.steps, options.batch or 1, options.width or 1) < 1:
        parser.error("--steps, --batch and --width must be at least 1")
    if options.learning_rate is not None and not 0 < options.learning_rate < math.inf:
        parser.error("--learning-rate must be a number above 0")

    f = pm.load_classifier(options.model, weights=options.net, device=options.device)
    dataset = load_dataset(options.data)
    chosen = range(len(dataset.names))
    if options.number is not None:
        chosen = random_choice(dataset.names, min(options.number, len(chosen)), seed=options.seed)
    known = true_outputs(dataset, f.names, chosen)
    label_of = {i: own[0] if len(own) == 1 else None for i, own in zip(chosen, known, strict=True)}
    blocks = list(load_blocks(dataset, f, chosen))
    labels = [label_of[i] for block in blocks for i in block.indices]
    file = train_masker(
        options.kind,
        f,
        torch.cat([block.images for block in blocks]),
        torch.tensor([-1 if label is None else label for label in labels]),
        out=options.out,
        steps=options.steps,
        batch=options.batch,
        learning_rate=options.learning_rate,
        width=options.width,
        seed=options.seed,
        data=dataset.title,
        progress=Lines(stderr),
    )
    print(f"written: {file}")


if __name__ == "__main__":
    run_script(main)
