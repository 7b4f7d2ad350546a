"""The base class of training objectives, which define for one kind of masker its net, the scales of features it reads, and the loss
of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.methods.maskers.nets import PhangNet, RealTimeNet
from proofmap.methods.maskers.trained import Encoder, Scale
from proofmap.methods.masks.method import chosen_precision


@dataclass(frozen=True)
class TrainingRecipe:
    """How a masker is trained: everything that its weights depend on, except the net and the data."""

    kind: str
    steps: int
    batch: int
    learning_rate: float
    width: int
    seed: int


@dataclass(frozen=True)
class TrainingBatch:
    """The data of one step: images ``(N, C, H, W)``, the net's features and log f ``(N, A)`` for these images, and the keys
    ``(N,)`` of the step's random numbers.

    ``labels`` ``(N,)`` are the true labels, or the net's likeliest ones if the truth is unknown.
    """

    step: int
    images: Tensor
    labels: Tensor
    features: list[Tensor]
    log_f: Tensor
    keys: Tensor

    def uniform(self, purpose: str, n: int) -> Tensor:
        """Uniform numbers ``(N, n)`` in [0, 1) that belong to this step, image and purpose."""
        return streams.uniform(self.keys ^ streams.key_of(purpose), n)

    def normal(self, purpose: str) -> Tensor:
        """Standard normal values ``(N, C, H, W)`` that belong to this step, image and purpose."""
        keys = self.keys ^ streams.key_of(purpose)
        return streams.normal(keys, self.images[0].numel()).view_as(self.images)


class Objective(ABC):
    """The training objective of one kind of masker. ``net`` is the masker that is trained."""

    kind: ClassVar[str]
    masker: ClassVar[type[RealTimeNet] | type[PhangNet]]
    width: ClassVar[int]
    batch: ClassVar[int] = 64
    rate: ClassVar[float] = 1e-3
    weight_decay: ClassVar[float] = 1e-4
    clip: ClassVar[float] = 10.0
    """Maximum norm of the gradient."""

    def __init__(self, recipe: TrainingRecipe, classifier: Classifier, present: Tensor) -> None:
        """Build the masker, with initial weights from the recipe's seed. ``present`` are the labels in the data."""
        self.recipe, self.classifier, self.present = recipe, classifier, present
        self.inputs = classifier.inputs
        self.scales = Scale.all_of(classifier, most=self.masker.most_scales)
        dtype = chosen_precision(classifier, "auto")
        self.fast = classifier.frozen(dtype=dtype)
        self.half = dtype == torch.float16
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(streams.key_of(recipe.seed, recipe.kind) & 0x7FFFFFFF)
            self.net: nn.Module = self.masker.for_net(
                [scale.channels for scale in self.scales], self.scales[-1].size, classifier, recipe.width
            ).to(classifier.device)

    @abstractmethod
    def passes(self, step: int) -> int:
        """The number of passes of the net for one image in this step."""

    @abstractmethod
    def loss(self, batch: TrainingBatch) -> Tensor:
        """The mean loss, differentiable in the masker's weights."""

    def learned(self, step: int) -> list[nn.Parameter]:
        """The weights that this step updates."""
        return list(self.net.parameters())

    def rate_at(self, step: int) -> float:
        """The learning rate at a step of the schedule. By default it is divided by ten after each third of the steps, as in Phang
        et al.
        """
        return self.recipe.learning_rate * 0.1 ** (3 * step // self.recipe.steps)

    def read(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """The feature maps that the masker reads, and log f ``(N, A)``, from one pass of the net."""
        features, logits = Encoder(self.classifier, self.scales)(images)
        return features, self.classifier.log_f(logits)

    def log_f(self, images: Tensor) -> Tensor:
        """log f ``(N, A)`` of masked images, differentiable, computed by the frozen net in a fast precision."""
        return self.fast.log_f(self.fast(images))
