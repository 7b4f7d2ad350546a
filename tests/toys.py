"""Small nets for our own tests, some of which have answers that can be worked out otherwise; and those of the contracts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.inputs import Text, TextInputs, Tokens
from proofmap.testing.plugins import (
    PICTURES,
    ROWS,
    SERIES,
    PatchNet,
    classifier_of,
    drawn,
    net_for,
    normal,
    values,
)

__all__ = [
    "PICTURES",
    "ROWS",
    "SERIES",
    "PatchNet",
    "classifier_of",
    "drawn",
    "net_for",
    "normal",
    "values",
]
MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)
TEXT = Text(length=5, width=8)


def pixels(n: int, size: int | tuple[int, int], *, channels: int = 3, seed: int = 0) -> Tensor:
    """``n`` images of independent 8-bit pixels."""
    height, width = (size, size) if isinstance(size, int) else size
    bytes_ = np.random.default_rng(seed).integers(0, 256, (n, channels, height, width))
    return torch.from_numpy(bytes_).float() / 255


def conv_net(labels: int = 4, *, seed: int = 0, channels: int = 3, width: int = 6) -> nn.Sequential:
    """A net of two convolutions, each followed by a ReLU, then global pooling and a linear head. Weights depend only on the seed."""
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


def token_net(size: tuple[int, int], labels: int = 4, *, seed: int = 0, channels: int = 3) -> PatchNet:
    """:class:`PatchNet` with weights that depend on the seed alone."""
    return drawn(PatchNet(size, labels, channels=channels), seed)


def conv_classifier(
    size: int | tuple[int, int] = 8, labels: int = 4, *, seed: int = 0, **options: Any
) -> Classifier:
    """A classifier with the net :func:`conv_net` and a normalisation. ``options`` are arguments of Classifier."""
    return Classifier(conv_net(labels, seed=seed), size=size, **{"mean": MEAN, "std": STD, **options})


class PassCounter:
    """Counts the batches and images that go through a net. Copies of the net share the counter."""

    def __init__(self) -> None:
        self.passes, self.images = 0, 0

    def __deepcopy__(self, memo: object) -> PassCounter:
        return self

    def reset(self) -> None:
        self.passes = self.images = 0


class Counted(nn.Module):
    """A net that counts the images that go through it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.tally = net, PassCounter()

    def forward(self, x: Tensor) -> Tensor:
        self.tally.images += len(x)
        self.tally.passes += 1
        return self.net(x)


def counted_classifier(
    net: nn.Module | None = None, *, size: int | tuple[int, int] = 8, **options: Any
) -> tuple[Classifier, PassCounter]:
    """A classifier with the net ``net`` (by default :func:`conv_net`), and the counter of the net's passes, which starts at zero."""
    inner = Counted(net or conv_net())
    f = Classifier(inner, size=size, **{"mean": MEAN, "std": STD, "batch_size": 64, **options})
    inner.tally.reset()
    return f, inner.tally


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
    mean, std = (np.array(v).reshape(-1, 1, 1) for v in (classifier.mean, classifier.std))
    x = ((image.astype(np.float64) - mean) / std).reshape(-1)
    z = net.weight.detach().numpy().astype(np.float64) @ x + net.bias.detach().numpy()
    if classifier.renormalise:
        outside = [a for a in range(len(z)) if a not in classifier.label_set]
        z[outside] = -np.inf
    e = np.exp(z - z.max())
    return e / e.sum()


# ---- texts --------------------------------------------------------------------------------------------------

WIDTH, SLOTS, MASK, UNKNOWN = 8, 3, 0, 1


class ToyReader:
    """A tokenizer for tests, with embeddings. It splits words into tokens of three letters. The vocabulary id of a token is computed from
    its letters."""

    most = 40
    has_mask = True

    def __init__(self) -> None:
        self.table = normal(64, WIDTH, seed=7)

    def numbers(self, word: str) -> list[int]:
        word = word.strip().lower()
        found = [word[k : k + 3] for k in range(0, len(word), 3)]
        return [UNKNOWN if "?" in piece else 2 + sum(map(ord, piece)) % 62 for piece in found]

    def pieces(self, text: str, units: str, slots: int) -> list[tuple[str, tuple[int, ...]]]:
        found: list[tuple[str, tuple[int, ...]]] = []
        for word in TextInputs.in_units(text, units):
            numbers = self.numbers(word)
            for k in range(0, len(numbers), slots):
                last = k + slots >= len(numbers)
                found.append(
                    (word[3 * k :] if last else word[3 * k : 3 * (k + slots)], tuple(numbers[k : k + slots]))
                )
        return found

    def embedding(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]

    @property
    def mean(self) -> Tensor:
        return self.table.mean(dim=0)

    def token(self, which: str) -> int | None:
        return (MASK if self.has_mask else None) if which == "mask" else UNKNOWN


def toy_tokens(length: int = 12) -> Tokens:
    """The description of inputs that :class:`ToyReader` tokenizes: texts of up to ``length`` words."""
    return Tokens(width=WIDTH, slots=SLOTS, length=length, reader=ToyReader())
