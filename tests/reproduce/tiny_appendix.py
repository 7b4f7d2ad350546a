"""Tiny data and tiny nets under the names of those that the appendix's recipes need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from proofmap.models import registry
from proofmap.models.names import imagenet_names
from tests.data.made_up import cifar_batch, noise, save

APPENDIX = [
    *(f"cifar10-{part}" for part in ("artifacts", "curves", "metrics", "range")),
    *(f"cifar100-{part}" for part in ("artifacts", "curves", "metrics", "range", "tv")),
    "imagenet",
    "imagenet-metrics",
]
"""The recipes whose tests are in ``test_appendix.py``; ``cifar10-tv`` is in ``test_reproduce.py``."""
SIDE = 16
"""Of the tiny net in place of EfficientNet-Lite0."""


def tiny_net(outputs: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        conv, last = nn.Conv2d(3, 4, 5, stride=4), nn.Linear(4, outputs)
    return nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)


def _photo_arguments() -> dict[str, Any]:
    return {"size": SIDE, "mean": (0.5,) * 3, "std": (0.5,) * 3, "names": imagenet_names()}


def tiny_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets of one convolution under the names of the ResNet-56 of both CIFARs, and of EfficientNet-Lite0."""
    for name, outputs in (("cifar10-resnet56", 10), ("cifar100-resnet56", 100), ("efficientnet-lite0", 1000)):
        own = registry._OWN[name]
        build: Callable[[], nn.Module] = partial(tiny_net, outputs)
        arguments = _photo_arguments if outputs == 1000 else own.arguments
        changed = replace(own, build=build, renamed=dict, arguments=arguments)
        monkeypatch.setitem(registry._OWN, name, changed)


def tiny_data(folder: Path) -> Path:
    """A few pictures of each dataset, and the weights of the tiny nets."""
    cifar_batch(folder / "cifar-10-batches-py" / "test_batch", 6)
    cifar_batch(folder / "cifar-10-batches-py" / "data_batch_1", 8, seed=1)
    cifar_batch(folder / "cifar-100-python" / "test", 6, key="fine_labels")
    cifar_batch(folder / "cifar-100-python" / "train", 8, seed=1, key="fine_labels")
    for i in range(5):
        save(folder / "imagenet_val", f"{i}.png", noise(i, SIDE, SIDE))
    rows = "".join(f"{i}.png,{i}\n" for i in range(5))
    (folder / "imagenet_val" / "labels.csv").write_text("file,class_index\n" + rows)
    weights = folder / "weights"
    weights.mkdir()
    save_file(tiny_net(10).state_dict(), weights / "cifar10_resnet56.safetensors")
    save_file(tiny_net(100).state_dict(), weights / "cifar100_resnet56.safetensors")
    torch.save(tiny_net(1000).state_dict(), weights / "efficientnet_lite0.pth")
    return folder
