"""The paper's method: learn, for each label, a small smooth mask whose pixels show the label on any background.

    min over M of   E[ -log f(x~, a) ]  +  tv * TV(M up)  +  l1 * |M up|_1 ,      x~ = M up * x + (1 - M up) * x'

M = sigmoid(W) lives on a grid ``scale`` times coarser than the image, "up" is linear enlargement along every axis, x' is
a random image (the fill). Every (image, label) pair is a problem of its own; many are solved together in one batch, and
since the loss is summed over pairs and random numbers belong to the pair, the answer does not depend on the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, Task
from proofmap.fills import Fill, Images, ReadyFill
from proofmap.methods.mask_terms import (
    Objective,
    Variation,
    data_term,
    enlarged,
    total_variation,
    upsampling,
)
from proofmap.methods.method import METHODS, Cost, Method, Need, ReadyMethod
from proofmap.plugins.settings import setting

Merge = Literal["max", "sum"]
Decay = Literal["constant", "cosine"]
Precision = Literal["float32", "bfloat16"]

_AS_PUBLISHED: Mapping[str, Any] = {
    "steps": 2000,
    "distractors": 10,
    "learning_rate": 0.05,
    "decay": "constant",
    "scale": 4,
    "tv": 0.01,
}


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class LearnedMask(Method):
    """The mask-learning method; the defaults are the preset ``fast``.

    Presets: ``fast`` (the defaults), ``paper`` (as printed), ``released`` (as its code does it).

    >>> LearnedMask.preset("released", tv=0.1).steps
    2000
    """

    name: ClassVar[str] = "learned-mask"
    description: ClassVar[str] = (
        "the paper's method: a learned mask that shows the label on random backgrounds"
    )
    reference: ClassVar[str] = "Gupta, Saunshi, Yu, Lyu and Arora, NeurIPS 2022"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients", "distractors"})
    shortcuts: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "preset": {
            "fast": {},
            "paper": {**_AS_PUBLISHED, "objective": "nll", "tv_border": True},
            "released": {**_AS_PUBLISHED, "objective": "released", "tv_border": False},
        }
    }

    steps: int = setting(100, "Adam steps", least=1)
    distractors: int = setting(2, "backgrounds per step, drawn anew each step", least=1)
    learning_rate: float = setting(0.2, "step size of Adam", above=0)
    decay: Decay = setting("cosine", "how the learning rate falls: not at all, or to zero as a half cosine")
    scale: float = setting(8, "how many times coarser than the input the grid of the mask is", least=1)
    l1: float | None = setting(
        None, "weight of the mask's sum; none means 1 / positions, the paper's choice", least=0
    )
    tv: float = setting(0.1, "weight of the total variation", least=0)
    variation: Variation = setting("squared", "differences of neighbours in the total variation")
    tv_border: bool = setting(
        True, "also differences along the last row and column, unlike the released code"
    )
    objective: Objective = setting(
        "released", "as printed, of the mean, or the released code's double softmax"
    )
    fill: Fill = setting(Images(), "what hidden positions show while learning")
    masks: int = setting(
        1, "K masks that share out the input by a softmax; each must show the label alone", least=1
    )
    merge: Merge = setting("max", "how K masks become one map: the largest, or all that is not background")
    init_noise: float = setting(0.01, "spread of the start, which K masks need to become different")
    precision: Precision = setting("float32", "how the net is run; bfloat16 pays on a GPU")
    compile: bool = setting(False, "run the net through torch.compile; pays on a GPU")

    stochastic = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks > 1 and not self.init_noise > 0:
            raise InputError("masks > 1 needs init_noise > 0: equal starts would stay equal for ever")

    @property
    def draws(self) -> int:
        """Backgrounds per step; one is enough for a fill that is not random."""
        return self.distractors if self.fill.random else 1

    def prepare(self, classifier: Classifier) -> ReadyLearnedMask:
        return ReadyLearnedMask(self, classifier, self.fill.prepare(classifier))

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=self.passes(labels))

    def passes(self, pairs: int) -> int:
        """How many composites go through the net for so many (image, label) pairs."""
        return pairs * self.steps * self.masks * self.draws


@dataclass(frozen=True, eq=False)
class ReadyLearnedMask(ReadyMethod):
    """The method with its pool of backgrounds on the net's device."""

    fill: ReadyFill

    @property
    def settings(self) -> LearnedMask:
        return cast(LearnedMask, self.method)

    def record(self) -> dict[str, object]:
        return {**super().record(), "fill": self.fill.record()}

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        masks = self.each_mask(images, labels, seed=seed, progress=progress)
        return masks.amax(dim=2) if self.settings.merge == "max" else masks.sum(dim=2)

    def each_mask(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        """The K masks ``(N, L, K, *positions)`` before they are merged into one map."""
        s = self.settings
        fast = self.classifier.frozen(dtype=getattr(torch, s.precision), compile=s.compile)
        places = (labels != NO_LABEL).nonzero()
        image_of, label_of = places[:, 0], labels[places[:, 0], places[:, 1]]
        pairs = list(zip(image_of.tolist(), label_of.tolist(), strict=True))
        keys = streams.pair_keys(images, pairs, seed, "learned-mask")

        with progress.task(s.name, s.passes(len(pairs))) as task, steady_kernels(tf32=True):

            def learn(start: int, stop: int) -> Tensor:
                chosen = image_of[start:stop]
                problem = _Problem(s, fast, images[chosen], label_of[start:stop], keys[start:stop], self.fill)
                return problem.solve(task)

            learned = in_batches(learn, len(pairs), fast.batches[1], cost=s.draws * s.masks, item="map")

        masks = images.new_zeros(*labels.shape, s.masks, *fast.inputs.positions)
        masks[places[:, 0], places[:, 1]] = torch.cat(learned)
        return masks


@dataclass
class _Problem:
    """P pairs learned together: images ``(P, *shape)``, labels ``(P,)``, stream keys ``(P,)``."""

    settings: LearnedMask
    classifier: Classifier
    images: Tensor
    labels: Tensor
    keys: Tensor
    fill: ReadyFill
    draws: int = field(init=False)
    members: Tensor | None = field(init=False)
    up: tuple[Tensor, ...] = field(init=False)
    l1: float = field(init=False)
    constant: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        inputs, device = self.classifier.inputs, self.images.device
        self.draws = self.settings.distractors if self.fill.random else 1
        label_set = torch.tensor(self.classifier.label_set, device=device)
        self.members = None if self.classifier.independent else label_set
        scale = self.settings.scale if inputs.has_neighbours else 1
        self.up = tuple(
            upsampling(max(1, math.ceil(side / scale)), side, device=device) for side in inputs.positions
        )
        self.l1 = 1.0 / inputs.count if self.settings.l1 is None else self.settings.l1
        if not self.fill.random:
            self.constant = self.fill(self.images, self.keys)

    def solve(self, task: Task) -> Tensor:
        """Masks ``(P, K, *positions)``: the last iterate."""
        s = self.settings
        weights = self.start()
        first, second = torch.zeros_like(weights), torch.zeros_like(weights)
        for step in range(s.steps):
            with torch.enable_grad():
                variables = weights.detach().requires_grad_(True)
                loss = self.loss(variables, step).sum()
                (gradient,) = torch.autograd.grad(loss, variables)
            shrink = 0.5 * (1 + math.cos(math.pi * step / s.steps)) if s.decay == "cosine" else 1.0
            adam_step(weights, gradient, first, second, step + 1, s.learning_rate * shrink)
            note = f"loss {loss.item() / len(self.labels):.3f}" if step % 20 == 19 else ""
            task.advance(len(self.labels) * s.masks * self.draws, note)
        return enlarged(self.low_masks(weights), self.up)[:, : s.masks]

    def start(self) -> Tensor:
        """Zero weights (mask 1/2 everywhere); for K > 1 a little noise, without which all K masks stay equal."""
        s, planes = self.settings, 1 if self.settings.masks == 1 else self.settings.masks + 1
        shape = (len(self.labels), planes, *(matrix.shape[1] for matrix in self.up))
        if s.masks == 1:
            return self.images.new_zeros(shape)
        keys = streams.words(self.keys, 1)[:, 0]  # a stream of its own, apart from the distractors'
        return s.init_noise * streams.normal(~keys, math.prod(shape[1:])).view(shape)

    def low_masks(self, weights: Tensor) -> Tensor:
        return weights.sigmoid() if self.settings.masks == 1 else weights.softmax(dim=1)

    def loss(self, weights: Tensor, step: int) -> Tensor:
        """The objective of each pair ``(P,)``; summed over its K masks."""
        s, pairs = self.settings, len(self.labels)
        masks = enlarged(self.low_masks(weights), self.up)
        composites = self.composites(masks, self.backgrounds(step))
        logits = self.classifier(composites.flatten(0, 2))
        log_p = self.classifier.log_f(logits).view(pairs * s.masks, self.draws, -1)
        data = data_term(log_p, self.labels.repeat_interleave(s.masks), self.members, s.objective)
        kept = masks[:, : s.masks]
        penalty = self.l1 * kept.sum(dim=tuple(range(2, kept.ndim)))
        if s.tv > 0 and self.classifier.inputs.has_neighbours:
            axes = len(self.classifier.inputs.positions)
            penalty = penalty + s.tv * total_variation(kept, power=s.variation, border=s.tv_border, axes=axes)
        return data.view(pairs, s.masks).sum(dim=1) + penalty.sum(dim=1)

    def backgrounds(self, step: int) -> Tensor:
        """``(P, K, D, *shape)``: fresh draws for every pair, step, mask and distractor."""
        s, shape = self.settings, self.images.shape[1:]
        if self.constant is not None:
            return self.constant.view(-1, 1, 1, *shape).expand(-1, s.masks, 1, *shape)
        n = s.masks * self.draws
        words = streams.words(self.keys, 2 * n, start=2 * n * step + 4)
        keys = ((words[:, :n] << 32) | words[:, n:]).flatten()
        images = self.images[:, None].expand(-1, n, *shape).flatten(0, 1)
        return self.fill(images, keys).view(-1, s.masks, self.draws, *shape)

    def composites(self, masks: Tensor, backgrounds: Tensor) -> Tensor:
        """``(P, K, D, *shape)``: m x + (1 - m) x', or for K masks m_k x + m_background x' + (the others) gray."""
        inputs, k = self.classifier.inputs, self.settings.masks
        x, own = self.images[:, None, None], masks[:, :k, None]
        if k == 1:
            return inputs.composite(own, x, backgrounds)
        gray = inputs.per_channel(self.classifier.gray)
        own, behind = inputs.over_channels(own), inputs.over_channels(masks[:, k:, None])
        return gray + own * (x - gray) + behind * (backgrounds - gray)


def adam_step(weights: Tensor, gradient: Tensor, first: Tensor, second: Tensor, t: int, rate: float) -> None:
    """One step of Adam (Kingma and Ba 2015, beta .9 and .999, epsilon 1e-8), in place; every element for itself.

    Written out because ``torch.optim`` loads the compiler machinery, which takes longer than many of our runs.
    """
    first.lerp_(gradient, 0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    scale = math.sqrt(1 - 0.999**t)
    weights.addcdiv_(first, second.sqrt().div_(scale).add_(1e-8), value=-rate / (1 - 0.9**t))
