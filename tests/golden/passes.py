"""How many inputs go through the net for a method and for a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import proofmap as pm
from tests.golden import nets

ROWS = [[0, 1, 2], [3, 1], [2]]


class Counter:
    """A function of images that counts them, with the answers of the conv net."""

    def __init__(self) -> None:
        self.net, self.count = nets.conv_net(), 0

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self.count += len(images)
        return self.net(images)


def free(f: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Maps that cost no passes, another one for each label."""
    return images[:, None, 0] * (1 + labels[:, :, None, None]) % 1


def other_free(f: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return images[:, None, 1] * (1 + labels[:, :, None, None]) % 1


def passes(methods: Sequence[Any], metrics: Sequence[str] | None) -> int:
    """The passes of an evaluation of three images, those of the classifier's own checks included."""
    counter = Counter()
    settings: dict[str, Any] = {"mean": nets.MEAN, "std": nets.STD, "batch_size": 64, "size": (8, 10)}
    f = pm.Classifier(lambda images: counter(images), **settings)
    pm.evaluate(f, nets.photos(3), methods=methods, labels=ROWS, metrics=metrics)
    return counter.count


def of_methods(methods: Sequence[str]) -> dict[str, int]:
    """The passes that a method needs to make its maps: what it adds to an evaluation, less what maps without passes add."""
    metrics = ["insertion:points=2"]
    base = passes([free, other_free], metrics)
    return {method: passes([free, method], metrics) - base for method in methods}


def of_metrics(metrics: Sequence[str]) -> dict[str, int]:
    """What a metric, and the insertion curves that are always kept, cost for one more method without passes of its own."""
    chosen: dict[str, list[str] | None] = {metric: [metric] for metric in metrics}
    chosen["the default metrics"] = None
    return {name: passes([free, other_free], m) - passes([free], m) for name, m in chosen.items()}
