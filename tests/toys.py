"""Small nets whose answers can be worked out otherwise, beside those of :mod:`proofmap.testing.nets`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.testing.nets import (
    MEAN,
    STD,
    Counted,
    PassCounter,
    conv_classifier,
    conv_net,
    counted_classifier,
    drawn,
    normal,
    pixels,
)

__all__ = [
    "MEAN",
    "STD",
    "Counted",
    "Linear",
    "PassCounter",
    "conv_classifier",
    "conv_net",
    "counted_classifier",
    "drawn",
    "linear_classifier",
    "linear_probabilities",
    "normal",
    "pixels",
]


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
