"""Small nets with weights that depend on a seed alone, and inputs for them. The kinds of input are the only names that are not of ``import proofmap``."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.token_nets import TokenNet
from proofmap.core.inputs import Rows, Series, Text, Tokens

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)
Net = TypeVar("Net", bound=nn.Module)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def photos(n: int, height: int = 8, width: int = 10, *, seed: int = 5) -> Tensor:
    """Images of 8-bit pixels with some structure: a bright patch on noise."""
    bytes_ = np.random.default_rng(seed).integers(0, 160, (n, 3, height, width))
    for k in range(n):
        bytes_[k, k % 3, 1 + k % 3 : 5 + k % 3, 2 + k % 4 : 6 + k % 4] += 95
    return torch.from_numpy(bytes_).float() / 255


def drawn(net: Net, seed: int = 0) -> Net:
    """The net in evaluation mode, with random weights that are large enough to separate labels."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 4
            weight.copy_(normal(*weight.shape, seed=1000 * seed + k) * (2 / fan_in) ** 0.5)
    return net.eval()


def conv_net(labels: int = 4, *, seed: int = 0) -> nn.Sequential:
    """Two convolutions with batch norm and ReLU, global pooling, a linear head."""
    layers: list[nn.Module] = []
    for before, after, stride in ((3, 6, 1), (6, 12, 2)):
        layers += [nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU()]
    net = drawn(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, labels)), seed)
    for k, layer in enumerate(net):
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean = 0.1 * normal(layer.num_features, seed=50 + k)
            layer.running_var = 1 + 0.1 * normal(layer.num_features, seed=60 + k).abs()
            layer.weight.data.abs_().add_(0.5)
    return net


def conv(**options: Any) -> pm.Classifier:
    options = {"size": (8, 10), "mean": MEAN, "std": STD, "batch_size": 64, **options}
    return pm.Classifier(conv_net(), **options)


class PatchNet(nn.Module):
    """A vision transformer: patches of 2x2 pixels, a class token, two layers of attention, a linear head on the class token."""

    def __init__(self, size: tuple[int, int], labels: int = 4, *, width: int = 8) -> None:
        super().__init__()
        patches = (size[0] // 2) * (size[1] // 2)
        self.patches = nn.Conv2d(3, width, 2, stride=2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + patches, width))
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        return self.head(self.encoder(tokens + self.positions)[:, 0])


def vit(**options: Any) -> pm.Classifier:
    options = {"size": (8, 10), "mean": MEAN, "std": STD, "batch_size": 64, **options}
    return pm.Classifier(drawn(PatchNet((8, 10)), 2), **options)


def series(segments: int | None = None, **options: Any) -> pm.Classifier:
    """Two channels of 24 steps, three labels."""
    layers = [
        nn.Conv1d(2, 6, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(24, 3),
    ]
    cut = {} if segments is None else {"segments": segments}
    inputs = Series(length=24, mean=(0.5, -1.0), std=(1.0, 2.0), **cut)
    names = ["rest", "walk", "run"]
    return pm.Classifier(drawn(nn.Sequential(*layers)), inputs=inputs, names=names, batch_size=64, **options)


def beats(n: int) -> Tensor:
    return torch.tensor([0.5, -1.0])[:, None] + normal(n, 2, 24, seed=3)


def rows(**options: Any) -> pm.Classifier:
    """Six columns of numbers, three labels."""
    inputs = Rows(columns=6, mean=(1.0, 0.0, 3.0, 0.0, 0.0, -2.0), std=(1.0, 2.0, 1.0, 1.0, 0.5, 1.0))
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    return pm.Classifier(drawn(net), inputs=inputs, batch_size=64, **options)


def people(n: int) -> Tensor:
    return torch.tensor([1.0, 0.0, 3.0, 0.0, 0.0, -2.0]) + normal(n, 6, seed=4)


TABLE = np.round(np.random.default_rng(9).normal((1, 0, 3, 5), (1, 2, 0.5, 3), (40, 4)), 2)


def tabular(table: Any) -> np.ndarray:
    """Probabilities of three labels for a table of four columns, as a model without gradients gives them."""
    x = np.asarray(table, dtype=np.float64)
    logits = np.stack([x[:, 0] - x[:, 2], 0.3 * x[:, 3] * x[:, 1], x[:, 1] + x[:, 2] - 3], axis=1)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def table_model(**options: Any) -> pm.Classifier:
    return pm.Classifier(tabular, data=TABLE, names=["low", "mid", "high"], batch_size=64, **options)


TEXTS = [
    "Good, really good film.",
    "The plot is bad but the songs are good and the ending is great fun",
    "Neither good nor bad: great!",
    "A long and boring evening.",
]
WEIGHTS = {"good": 1.0, "great": 1.5, "fun": 0.5, "bad": -1.2, "boring": -2.0, "[mask]": 0.1, "songs": 0.3}


def review(texts: list[str]) -> list[list[float]]:
    """Three labels, from a bag of words in which neighbours interact."""
    found = []
    for text in texts:
        words = [WEIGHTS.get(word.strip(" .,:!").lower(), 0.02 * len(word)) for word in text.split()]
        score = sum(words) + 0.2 * sum(a * b for a, b in itertools.pairwise(words))
        powers = [math.exp(k * score) for k in (-1, 0, 1)]
        found.append([power / sum(powers) for power in powers])
    return found


def texts(**options: Any) -> pm.Classifier:
    names = ["bad", "mixed", "good"]
    return pm.Classifier(review, inputs=Text(length=24), names=names, batch_size=64, **options)


class Reader:
    """A tokenizer of words of three letters, with embeddings."""

    most = 40

    def __init__(self) -> None:
        self.table = normal(64, 8, seed=7)

    def pieces(self, text: str, units: str, slots: int) -> list[tuple[str, tuple[int, ...]]]:
        found = []
        for word in re.findall(r"\S+\s*", text):
            letters = word.strip().lower()
            numbers = [2 + sum(map(ord, letters[k : k + 3])) % 62 for k in range(0, len(letters), 3)]
            for k in range(0, len(numbers), slots):
                last = k + slots >= len(numbers)
                part = word[3 * k :] if last else word[3 * k : 3 * (k + slots)]
                found.append((part, tuple(numbers[k : k + slots])))
        return found

    def embedding(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]

    @property
    def mean(self) -> Tensor:
        return self.table.mean(dim=0)

    @property
    def vocabulary(self) -> dict[str, int]:
        return {str(number): number for number in range(len(self.table))}

    def token(self, which: str) -> int | None:
        return 0 if which == "mask" else 1


class Sentiment(TokenNet):
    """Two layers of attention, and a linear head on the mean of the tokens that attention is open to."""

    def __init__(self, labels: int = 3) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        super().__init__(encoder, normal(1, 8, seed=8), normal(1, 8, seed=9))
        self.head = nn.Linear(8, labels)
        self.places = nn.Parameter(torch.zeros(64, 8))

    def logits(self, tokens: Tensor, attention: Any) -> Tensor:
        states = self.model(tokens + self.places[: tokens.shape[1]], src_key_padding_mask=attention == 0)
        share = attention.to(states)[..., None]
        return self.head((states * share).sum(dim=1) / share.sum(dim=1))


def tokens(**options: Any) -> pm.Classifier:
    inputs = Tokens(width=8, slots=3, length=16, reader=Reader())
    return pm.Classifier(drawn(Sentiment()), inputs=inputs, names=["a", "b", "c"], batch_size=64, **options)
