"""Small nets and inputs for tests, the same on every machine, and a counter of the passes through a net."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.inputs import Inputs, Pictures, Rows, Series, Text, TextInputs, Tokens
from proofmap.core.inputs.text import SPLITS
from proofmap.core.inputs.tokens import Piece

Net = TypeVar("Net", bound=nn.Module)
MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)

PICTURES = Pictures(size=(8, 10), mean=MEAN, std=STD)
SERIES = Series(length=12, mean=(1.0, -2.0), std=(3.0, 0.5))
ROWS = Rows(columns=7, mean=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0), std=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0))
TEXT = Text(length=5, width=8)
KINDS: tuple[Inputs, ...] = (PICTURES, SERIES, ROWS)
"""Descriptions of small inputs, one of each kind, to test plug-ins on."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers, the same for the same seed."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def pixels(n: int, size: int | tuple[int, int], *, channels: int = 3, seed: int = 0) -> Tensor:
    """``n`` images of independent 8-bit pixels."""
    height, width = (size, size) if isinstance(size, int) else size
    bytes_ = np.random.default_rng(seed).integers(0, 256, (n, channels, height, width))
    return torch.from_numpy(bytes_).float() / 255


def values(inputs: Inputs, n: int, *, seed: int = 0) -> Tensor:
    """``n`` inputs ``(n, *shape)`` of independent values: 8-bit pixels, rows of a table, or normal numbers around the mean."""
    if isinstance(inputs, Pictures):
        return pixels(n, inputs.size, channels=inputs.channels, seed=seed)
    if isinstance(inputs, TextInputs) or (isinstance(inputs, Rows) and inputs.table is not None):
        return inputs.strong_noise(n + seed)[seed:]
    mean, std = (inputs.per_channel(torch.tensor(v)) for v in (inputs.mean, inputs.std))
    drawn = mean + std * normal(n, *inputs.shape, seed=seed)
    return drawn if inputs.limits is None else drawn.clamp(*inputs.limits)


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


class PatchNet(nn.Module):
    """A vision transformer: patches of 2x2 pixels, a class token, two layers of attention, a linear head on the class token."""

    def __init__(self, size: tuple[int, int], labels: int = 4, *, channels: int = 3, width: int = 8) -> None:
        super().__init__()
        patches = (size[0] // 2) * (size[1] // 2)
        self.patches = nn.Conv2d(channels, width, 2, stride=2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + patches, width))
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        logits: Tensor = self.head(self.encoder(tokens + self.positions)[:, 0])
        return logits


def token_net(size: tuple[int, int], labels: int = 4, *, seed: int = 0, channels: int = 3) -> PatchNet:
    """:class:`PatchNet` with weights that depend on the seed alone."""
    return drawn(PatchNet(size, labels, channels=channels), seed)


def conv_classifier(
    size: int | tuple[int, int] = 8, labels: int = 4, *, seed: int = 0, **options: Any
) -> Classifier:
    """A classifier with the net :func:`conv_net` and a normalisation. ``options`` are arguments of Classifier."""
    return Classifier(conv_net(labels, seed=seed), size=size, **{"mean": MEAN, "std": STD, **options})


def net_for(inputs: Inputs, labels: int = 4, *, attention: bool = False) -> nn.Module:
    """A net for pictures, :func:`conv_net` or, with ``attention``, :func:`token_net`; for other kinds :func:`linear_net`."""
    if not isinstance(inputs, Pictures):
        return linear_net(inputs, labels)
    if attention:
        return token_net(inputs.size, labels, channels=inputs.channels)
    return conv_net(labels, channels=inputs.channels)


def classifier_of(
    inputs: Inputs, labels: int = 4, *, batch_size: int = 64, attention: bool = False
) -> Classifier:
    """A classifier with the small net of :func:`net_for`."""
    return Classifier(net_for(inputs, labels, attention=attention), inputs=inputs, batch_size=batch_size)


def linear_net(inputs: Inputs, labels: int = 4) -> nn.Sequential:
    """A net of two linear layers with a ReLU between them, for any kind of input."""
    layers = nn.Flatten(), nn.Linear(math.prod(inputs.shape), 16), nn.ReLU(), nn.Linear(16, labels)
    return drawn(nn.Sequential(*layers))


def drawn(net: Net, seed: int = 0) -> Net:
    """The net in evaluation mode with random weights that depend on the seed alone, large enough to separate labels."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 4
            weight.copy_(normal(*weight.shape, seed=1000 * seed + k) * (2 / fan_in) ** 0.5)
    return net.eval()


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
        out: Tensor = self.net(x)
        return out


def counted_classifier(
    net: nn.Module | None = None, *, size: int | tuple[int, int] = 8, **options: Any
) -> tuple[Classifier, PassCounter]:
    """A classifier with the net ``net`` (by default :func:`conv_net`), and the counter of the net's passes, which starts at zero."""
    inner = Counted(net or conv_net())
    f = Classifier(inner, size=size, **{"mean": MEAN, "std": STD, "batch_size": 64, **options})
    inner.tally.reset()
    return f, inner.tally


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

    def pieces(self, text: str, units: str, slots: int) -> list[Piece]:
        found: list[Piece] = []
        for word in SPLITS[units](text):
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
