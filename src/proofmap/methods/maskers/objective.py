"""The base class of training objectives, which define for one kind of masker its net, the scales of features it reads, and the loss
of a batch. This module also has the optimisers.

Adam, and SGD with momentum, keep their state as named tensors, which are stored in a checkpoint. They are implemented here because
``torch.optim`` loads the compiler machinery, which takes longer than the training of a small masker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.methods.maskers.nets import Encoder, Scale, find_scales
from proofmap.methods.masks.method import chosen_precision


@dataclass(frozen=True)
class TrainingRecipe:
    """How a masker is trained: everything that its weights depend on, except the net and the data."""

    kind: str
    steps: int
    batch: int
    learning_rate: float
    width: int
    layers: tuple[str, ...]
    seed: int
    minutes: float | None = None


@dataclass(frozen=True)
class TrainingBatch:
    """The data of one step: images ``(N, C, H, W)``, the net's features and log f ``(N, A)`` for these images, and the keys
    ``(N,)`` of the step's random numbers.

    ``step`` is the position of the step in the schedule. ``labels`` ``(N,)`` are the true labels, or the net's likeliest ones if
    the truth is unknown; ``others`` ``(N, C, H, W)`` are other images of the data.
    """

    step: int
    images: Tensor
    others: Tensor
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
    most_scales: ClassVar[int] = 4
    width: ClassVar[int]
    batch: ClassVar[int] = 64
    rate: ClassVar[float] = 1e-3
    weight_decay: ClassVar[float] = 1e-4
    clip: ClassVar[float] = 10.0
    """Maximum norm of the gradient."""

    def __init__(self, recipe: TrainingRecipe, classifier: Classifier, present: Tensor) -> None:
        """Build the masker, with initial weights from the recipe's seed. ``present`` are the labels in the data."""
        self.recipe, self.classifier, self.present = recipe, classifier, present
        self.inputs, self.scales = classifier.inputs, self.find(classifier, recipe.layers)
        dtype = chosen_precision(classifier, "auto")
        self.fast = classifier.frozen(dtype=dtype)
        self.half = dtype == torch.float16
        self.shown_value: tuple[str, Tensor] | None = None
        """The name and value that progress messages show instead of the loss; None to show the loss."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(streams.key_of(recipe.seed, recipe.kind) & 0x7FFFFFFF)
            self.net = self.build(self.scales, classifier, recipe.width).to(classifier.device)

    @classmethod
    def find(cls, classifier: Classifier, layers: tuple[str, ...]) -> tuple[Scale, ...]:
        return find_scales(classifier, layers, most=cls.most_scales)

    @classmethod
    @abstractmethod
    def build(cls, scales: tuple[Scale, ...], classifier: Classifier, width: int) -> nn.Module:
        """The masker, with initial weights drawn from torch's generator."""

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

    def altered(self, images: Tensor, others: Tensor, keys: Tensor) -> Tensor:
        """The images that this kind of masker is trained on, made from ``images`` and ``others``. By default ``images`` unchanged."""
        return images

    def read(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """The feature maps that the masker reads, and log f ``(N, A)``, from one pass of the net."""
        features, logits = Encoder(self.classifier, self.scales)(images)
        return features, self.classifier.log_f(logits)

    def log_f(self, images: Tensor) -> Tensor:
        """log f ``(N, A)`` of masked images, differentiable, computed by the frozen net in a fast precision."""
        return self.fast.log_f(self.fast(images))

    def state(self) -> dict[str, Tensor]:
        """The state that a checkpoint stores in addition to the masker's weights and their optimiser."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore :meth:`state`."""
        assert not state, "a kind with a state restores it"


# ---- optimisers ------------------------------------------------------------------------------------------------


class Optimiser(ABC):
    """Updates weights by their gradients plus ``weight_decay`` times the weight. Weights without a gradient do not change."""

    kept: tuple[str, ...]
    """Names of the tensors that the optimiser keeps for each weight. They have the shape of the weight."""

    def __init__(self, net: nn.Module, weight_decay: float) -> None:
        self.weights, self.weight_decay = dict(net.named_parameters()), weight_decay
        self.memory = {
            f"{kept}.{name}": torch.zeros_like(weight, requires_grad=False)
            for kept in self.kept
            for name, weight in self.weights.items()
        }
        self.taken = dict.fromkeys(self.weights, 0)

    @abstractmethod
    def moved(self, weight: nn.Parameter, gradient: Tensor, name: str, rate: float) -> None:
        """Update one weight in place."""

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for name, weight in self.weights.items():
            if weight.grad is not None:
                self.taken[name] += 1
                self.moved(weight, weight.grad.add(weight, alpha=self.weight_decay), name, rate)

    def zero(self) -> None:
        for weight in self.weights.values():
            weight.grad = None

    def state(self) -> dict[str, Tensor]:
        return self.memory | {f"taken.{name}": torch.tensor(taken) for name, taken in self.taken.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.memory.items():
            tensor.copy_(state[name])
        self.taken = {name: int(state[f"taken.{name}"]) for name in self.taken}


class Adam(Optimiser):
    """Adam (Kingma and Ba 2015) with the decay rates .9 and .999."""

    kept = ("first", "second")

    def moved(self, weight: nn.Parameter, gradient: Tensor, name: str, rate: float) -> None:
        first, second, t = self.memory[f"first.{name}"], self.memory[f"second.{name}"], self.taken[name]
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        size = (second / (1 - 0.999**t)).sqrt_().add_(1e-8)
        weight.addcdiv_(first, size, value=-rate / (1 - 0.9**t))


class SGD(Optimiser):
    """Stochastic gradient descent with momentum .9."""

    kept = ("momentum",)

    def moved(self, weight: nn.Parameter, gradient: Tensor, name: str, rate: float) -> None:
        momentum = self.memory[f"momentum.{name}"]
        momentum.mul_(0.9).add_(gradient)
        weight.add_(momentum, alpha=-rate)


def with_prefix(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The same tensors, with the prefix added to their names."""
    return {prefix + name: tensor for name, tensor in state.items()}


def without_prefix(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with the prefix, under their names without it.

    >>> list(without_prefix({"net.bias": torch.ones(1), "adam.bias": torch.ones(1)}, "net."))
    ['bias']
    """
    return {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}
