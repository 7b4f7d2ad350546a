"""Small nets whose answers can be worked out otherwise, small images for them, and a tally of passes."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier

Net = TypeVar("Net", bound=nn.Module)
MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers that depend on the seed alone."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def pixels(n: int, size: int | tuple[int, int], *, channels: int = 3, seed: int = 0) -> Tensor:
    """``n`` images of independent 8-bit pixels."""
    height, width = (size, size) if isinstance(size, int) else size
    bytes_ = np.random.default_rng(seed).integers(0, 256, (n, channels, height, width))
    return torch.from_numpy(bytes_).float() / 255


class Linear(nn.Module):
    """Logits ``weight @ flattened pixels + bias``: everything about this net can be said in plain numpy."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight)) if bias is None else bias)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T + self.bias


def linear_classifier(
    size: int | tuple[int, int] = 3, labels: int = 4, *, seed: int = 0, strength: float = 0.5, **options: Any
) -> Classifier:
    """A linear net with random weights; ``options`` as for the Classifier."""
    height, width = (size, size) if isinstance(size, int) else size
    options = {"mean": MEAN, "std": STD, **options}
    weight = strength * normal(labels, len(options["mean"]) * height * width, seed=seed)
    return Classifier(Linear(weight, 0.1 * normal(labels, seed=seed + 1)), size=size, **options)


def linear_probabilities(classifier: Classifier, image: np.ndarray) -> np.ndarray:
    """f(x, .) of a linear classifier for one image ``(C, H, W)``, in float64, by the formula."""
    net = classifier.net
    assert isinstance(net, Linear)
    mean, std = (np.array(v).reshape(-1, 1, 1) for v in (classifier.mean, classifier.std))
    x = ((image.astype(np.float64) - mean) / std).reshape(-1)
    z = net.weight.detach().numpy().astype(np.float64) @ x + net.bias.detach().numpy()
    if classifier.renormalise:
        outside = [a for a in range(len(z)) if a not in classifier.label_set]
        z[outside] = -np.inf
    e = np.exp(z - z.max())
    return e / e.sum()


def conv_net(labels: int = 4, *, seed: int = 0, channels: int = 3, width: int = 6) -> nn.Sequential:
    """Two convolutions, a rectifier after each, global pooling, a linear head."""
    net = nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, labels),
    )
    return drawn(net, seed)


def conv_classifier(
    size: int | tuple[int, int] = 8, labels: int = 4, *, seed: int = 0, **options: Any
) -> Classifier:
    """:func:`conv_net` with a normalisation; ``options`` as for the Classifier."""
    return Classifier(conv_net(labels, seed=seed), size=size, **{"mean": MEAN, "std": STD, **options})


def drawn(net: Net, seed: int = 0) -> Net:
    """The net in evaluation mode with weights that depend on the seed alone, spread enough to tell labels apart."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 4
            weight.copy_(normal(*weight.shape, seed=1000 * seed + k) * (2 / fan_in) ** 0.5)
    return net.eval()


class Tally:
    """Counts the batches and images that a net has seen; copies of the net share it."""

    def __init__(self) -> None:
        self.passes, self.images = 0, 0

    def __deepcopy__(self, memo: object) -> Tally:
        return self

    def reset(self) -> None:
        self.passes = self.images = 0


class Counted(nn.Module):
    """A net that keeps a tally of what goes through it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.tally = net, Tally()

    def forward(self, x: Tensor) -> Tensor:
        self.tally.images += len(x)
        self.tally.passes += 1
        out: Tensor = self.net(x)
        return out


def counted_classifier(
    net: nn.Module | None = None, *, size: int = 8, **options: Any
) -> tuple[Classifier, Tally]:
    """A classifier over a net (:func:`conv_net` when left out) and the tally of its passes, at zero."""
    inner = Counted(net or conv_net())
    f = Classifier(inner, size=size, **{"mean": MEAN, "std": STD, "batch_size": 64, **options})
    inner.tally.reset()
    return f, inner.tally
