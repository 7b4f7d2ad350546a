"""Adam, and SGD with momentum, whose state is named tensors: what a checkpoint holds.

Written out because ``torch.optim`` loads the compiler machinery, which takes longer than a small masker's training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Optimiser(ABC):
    """Moves weights by their gradients, each with ``weight_decay`` times the weight added; those without one stay."""

    kept: tuple[str, ...]
    """What is remembered of each weight, in its shape."""

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
        """One step of one weight, in place."""

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
    """Adam (Kingma and Ba 2015) with moments .9 and .999."""

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


def prefixed(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The same tensors under longer names."""
    return {prefix + name: tensor for name, tensor in state.items()}


def below(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those tensors whose names begin so, without it.

    >>> list(below({"net.bias": torch.ones(1), "adam.bias": torch.ones(1)}, "net."))
    ['bias']
    """
    return {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}
