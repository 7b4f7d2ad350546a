"""The paper's method: learn, for each label, a small smooth mask whose pixels show the label on any background.

    min over M of   E[ -log f(x~, a) ]  +  tv * TV(M up)  +  l1 * |M up|_1 ,      x~ = M up * x + (1 - M up) * x'

M = sigmoid(W) lives on a grid ``scale`` times coarser than the image, "up" is bilinear enlargement, x' is a random
image (the fill). Every (image, label) pair is a problem of its own; many are solved together in one batch, and since
the loss is summed over pairs and random numbers belong to the pair, the answer does not depend on the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, Task
from proofmap.fills import Fill, make_fill
from proofmap.methods.mask_terms import Objective, Variation, data_term, total_variation, upsampling
from proofmap.methods.method import METHODS, Cost, Method, Need

Merge = Literal["max", "sum"]
Decay = Literal["constant", "cosine"]
Precision = Literal["float32", "bfloat16"]


def _count(name: str, value: object) -> None:
    if not (isinstance(value, int) and value >= 1):
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise InputError(f"{name} must be at least {least}, not {value}")


def _one_of(name: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise InputError(f"{name} must be one of {', '.join(get_args(choices))}, not {value!r}")


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class LearnedMask(Method):
    """The mask-learning method; the defaults are the preset ``fast``.

    Args:
        steps: Adam steps.
        distractors: backgrounds per step, drawn anew each step (one is enough for a fill that is not random).
        rate: Adam's learning rate; ``decay`` keeps it ``constant`` or lets it fall to zero as a half ``cosine``.
        scale: how many times coarser than the image the grid of the mask is; any number >= 1.
        l1: weight of the mask's sum; None means 1 / (H W), the paper's choice on both of its image sizes.
        tv: weight of the total variation, ``squared`` or ``absolute`` differences, over the ``whole`` grid or (as in
            the released code) without its last row and column.
        objective: ``nll`` (as printed in the paper), ``nll-of-mean``, or ``released`` (the code's double softmax).
        fill: what hidden pixels show while learning: ``images`` (random images), ``gray``, ``blur``, or a Fill.
        masks: K masks that share out the image by a softmax; each must show the label alone, with the others gray.
        merge: how K masks become one map: the largest, or the sum (all that is not background).
        precision, compile: how the net is run; bfloat16 and torch.compile pay on a GPU.
    """

    name: ClassVar[str] = "learned-mask"
    meaning: ClassVar[str] = "the paper's method: a learned mask that shows the label on random backgrounds"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients", "distractors"})

    steps: int = 100
    distractors: int = 2
    rate: float = 0.2
    decay: Decay = "cosine"
    scale: float = 8
    l1: float | None = None
    tv: float = 0.1
    variation: Variation = "squared"
    whole: bool = True
    objective: Objective = "released"
    fill: str | Fill = "images"
    masks: int = 1
    merge: Merge = "max"
    init_noise: float = 0.01
    precision: Precision = "float32"
    compile: bool = False

    stochastic = True

    def __post_init__(self) -> None:
        _count("steps", self.steps)
        _count("distractors", self.distractors)
        _count("masks", self.masks)
        _at_least("scale", self.scale, 1)
        _at_least("tv", self.tv, 0)
        _at_least("l1", self.l1 or 0, 0)
        if not self.rate > 0:
            raise InputError(f"rate must be positive, not {self.rate}")
        if self.masks > 1 and not self.init_noise > 0:
            raise InputError("masks > 1 needs init_noise > 0: equal starts would stay equal for ever")
        _one_of("decay", self.decay, Decay)
        _one_of("variation", self.variation, Variation)
        _one_of("objective", self.objective, Objective)
        _one_of("merge", self.merge, Merge)
        _one_of("precision", self.precision, Precision)
        make_fill(self.fill)  # refuses unknown names now, not after minutes of work

    @classmethod
    def preset(cls, name: str, **changes: Any) -> LearnedMask:
        """``fast`` (the defaults), ``paper`` (as printed) or ``released`` (as its code does it), with changes.

        >>> LearnedMask.preset("released", tv=0.1).steps
        2000
        """
        if name not in PRESETS:
            raise InputError(f"learned-mask has no preset {name!r}; known are {', '.join(PRESETS)}")
        return replace(PRESETS[name], **changes)

    def prepare(self, classifier: Classifier) -> LearnedMask:
        return replace(self, fill=make_fill(self.fill).prepare(classifier))

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=self.passes(labels))

    def passes(self, pairs: int) -> int:
        """How many composites go through the net for so many (image, label) pairs."""
        draws = self.distractors if make_fill(self.fill).random else 1
        return pairs * self.steps * self.masks * draws

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        masks = self.each_mask(classifier, images, labels, seed=seed, progress=progress)
        return masks.amax(dim=2) if self.merge == "max" else masks.sum(dim=2)

    def each_mask(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        """The K masks ``(N, L, K, H, W)`` before they are merged into one map."""
        fast = classifier.frozen(dtype=getattr(torch, self.precision), compile=self.compile)
        fill = make_fill(self.fill).prepare(fast)
        draws = self.distractors if fill.random else 1
        places = (labels != NO_LABEL).nonzero()
        image_of, label_of = places[:, 0], labels[places[:, 0], places[:, 1]]
        pairs = list(zip(image_of.tolist(), label_of.tolist(), strict=True))
        keys = streams.pair_keys(images, pairs, seed, "learned-mask")

        with progress.task(self.name, self.passes(len(pairs))) as task, steady_kernels(tf32=True):

            def learn(start: int, stop: int) -> Tensor:
                chosen = image_of[start:stop]
                problem = _Problem(
                    self, fast, images[chosen], label_of[start:stop], keys[start:stop], fill, draws
                )
                return problem.solve(task)

            learned = in_batches(learn, len(pairs), fast.batches[1], cost=draws * self.masks, item="map")

        masks = images.new_zeros(*labels.shape, self.masks, *images.shape[2:])
        masks[places[:, 0], places[:, 1]] = torch.cat(learned)
        return masks


PRESETS: Mapping[str, LearnedMask] = {
    "fast": LearnedMask(),
    "paper": LearnedMask(
        steps=2000, distractors=10, rate=0.05, decay="constant", scale=4, tv=0.01, objective="nll", whole=True
    ),
    "released": LearnedMask(
        steps=2000,
        distractors=10,
        rate=0.05,
        decay="constant",
        scale=4,
        tv=0.01,
        objective="released",
        whole=False,
    ),
}


@dataclass
class _Problem:
    """P pairs learned together: images ``(P, C, H, W)``, labels ``(P,)``, stream keys ``(P,)``."""

    settings: LearnedMask
    classifier: Classifier
    images: Tensor
    labels: Tensor
    keys: Tensor
    fill: Fill
    draws: int
    members: Tensor = field(init=False)
    up: tuple[Tensor, Tensor] = field(init=False)
    l1: float = field(init=False)
    constant: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        height, width = self.images.shape[2:]
        device = self.images.device
        self.members = torch.tensor(self.classifier.label_set, device=device)
        grid = [max(1, math.ceil(side / self.settings.scale)) for side in (height, width)]
        self.up = (upsampling(grid[0], height, device=device), upsampling(grid[1], width, device=device))
        self.l1 = 1.0 / (height * width) if self.settings.l1 is None else self.settings.l1
        if not self.fill.random:
            self.constant = self.fill(self.images, self.keys)

    def solve(self, task: Task) -> Tensor:
        """Masks ``(P, K, H, W)``: the last iterate."""
        s = self.settings
        weights = self.start()
        first, second = torch.zeros_like(weights), torch.zeros_like(weights)
        for step in range(s.steps):
            with torch.enable_grad():
                variables = weights.detach().requires_grad_(True)
                loss = self.loss(variables, step).sum()
                (gradient,) = torch.autograd.grad(loss, variables)
            shrink = 0.5 * (1 + math.cos(math.pi * step / s.steps)) if s.decay == "cosine" else 1.0
            adam_step(weights, gradient, first, second, step + 1, s.rate * shrink)
            note = f"loss {loss.item() / len(self.labels):.3f}" if step % 20 == 19 else ""
            task.advance(len(self.labels) * s.masks * self.draws, note)
        return self.enlarged(self.low_masks(weights))[:, : s.masks]

    def start(self) -> Tensor:
        """Zero weights (mask 1/2 everywhere); for K > 1 a little noise, without which all K masks stay equal."""
        s, planes = self.settings, 1 if self.settings.masks == 1 else self.settings.masks + 1
        shape = (len(self.labels), planes, self.up[0].shape[1], self.up[1].shape[1])
        if s.masks == 1:
            return self.images.new_zeros(shape)
        keys = streams.words(self.keys, 1)[:, 0]  # a stream of its own, apart from the distractors'
        return s.init_noise * streams.normal(~keys, math.prod(shape[1:])).view(shape)

    def low_masks(self, weights: Tensor) -> Tensor:
        return weights.sigmoid() if self.settings.masks == 1 else weights.softmax(dim=1)

    def enlarged(self, low: Tensor) -> Tensor:
        rows, columns = self.up
        return rows @ low @ columns.T

    def loss(self, weights: Tensor, step: int) -> Tensor:
        """The objective of each pair ``(P,)``; summed over its K masks."""
        s, pairs = self.settings, len(self.labels)
        masks = self.enlarged(self.low_masks(weights))
        composites = self.composites(masks, self.backgrounds(step))
        logits = self.classifier(composites.flatten(0, 2))
        log_p = self.classifier.log_softmax(logits).view(pairs * s.masks, self.draws, -1)
        data = data_term(log_p, self.labels.repeat_interleave(s.masks), self.members, s.objective)
        kept = masks[:, : s.masks]
        penalty = self.l1 * kept.sum(dim=(2, 3))
        if s.tv > 0:
            penalty = penalty + s.tv * total_variation(kept, power=s.variation, whole=s.whole)
        return data.view(pairs, s.masks).sum(dim=1) + penalty.sum(dim=1)

    def backgrounds(self, step: int) -> Tensor:
        """``(P, K, D, C, H, W)``: fresh draws for every pair, step, mask and distractor."""
        masks, shape = self.settings.masks, self.images.shape[1:]
        if self.constant is not None:
            return self.constant.view(-1, 1, 1, *shape).expand(-1, masks, 1, *shape)
        n = masks * self.draws
        words = streams.words(self.keys, 2 * n, start=2 * n * step + 4)
        keys = ((words[:, :n] << 32) | words[:, n:]).flatten()
        images = self.images[:, None].expand(-1, n, *shape).flatten(0, 1)
        return self.fill(images, keys).view(-1, masks, self.draws, *shape)

    def composites(self, masks: Tensor, backgrounds: Tensor) -> Tensor:
        """``(P, K, D, C, H, W)``: m x + (1 - m) x', or for K masks m_k x + m_background x' + (the others) gray."""
        x = self.images[:, None, None]
        k = self.settings.masks
        own = masks[:, :k, None, None]
        if k == 1:
            return torch.lerp(backgrounds, x, own)
        behind = masks[:, k:, None, None]
        gray = self.classifier.gray.view(1, 1, 1, -1, 1, 1)
        return gray + own * (x - gray) + behind * (backgrounds - gray)


def adam_step(weights: Tensor, gradient: Tensor, first: Tensor, second: Tensor, t: int, rate: float) -> None:
    """One step of Adam (Kingma and Ba 2015, beta .9 and .999, epsilon 1e-8), in place; every element for itself.

    Written out because ``torch.optim`` loads the compiler machinery, which takes longer than many of our runs.
    """
    first.lerp_(gradient, 0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    scale = math.sqrt(1 - 0.999**t)
    weights.addcdiv_(first, second.sqrt().div_(scale).add_(1e-8), value=-rate / (1 - 0.9**t))
