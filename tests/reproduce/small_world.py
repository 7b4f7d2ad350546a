"""As little as possible of what recipes need: tiny nets under the names of large ones, and tiny data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from benchmarks.maskers.train import train_masker
from proofmap.data.imagenet_folders import IMAGENETTE
from proofmap.models import load_classifier, registry
from proofmap.models.names import label_names
from proofmap.models.weights import load_state
from tests.data.made_up import cifar_batch, imagenette_at, noise, save
from tests.docs.pages import few_distractors, few_draws

SIDE = 32
APPENDIX = [
    *(f"cifar10-{part}" for part in ("artifacts", "curves", "metrics", "range")),
    *(f"cifar100-{part}" for part in ("artifacts", "curves", "metrics", "range", "tv")),
    "imagenet",
    "imagenet-metrics",
]
"""The recipes that are run in ``test_appendix.py``."""
PICTURED = [
    "cifar10-masks",
    "cifar100-masks",
    "desk-photo",
    "figure1",
    "imagenette-best-effort",
    "imagenette-examples",
    "imagenette-gaussian",
    "imagenette-ties",
    "two-true-labels",
]
"""Those that are run in ``test_pictured.py``; all others are run in ``test_reproduce.py``."""


def small_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny nets under the names of the ResNet-56 of both CIFARs, and of EfficientNet-Lite0, and few distractors for them."""
    few_distractors(monkeypatch)
    few_draws(monkeypatch)
    own = registry._OWN
    small = {"size": SIDE, "resize": SIDE, "names": label_names("imagenet")}
    for name, outputs in (("cifar10-resnet56", 10), ("cifar100-resnet56", 100), ("efficientnet-lite0", 1000)):
        arguments = own[name].arguments if outputs < 1000 else lambda: dict(small)
        changed = replace(own[name], build=_net(outputs), arguments=arguments, read=load_state)
        monkeypatch.setitem(own, name, changed)


def small_data(folder: Path) -> Path:
    """What the recipes need, below one folder."""
    cifar_batch(folder / "cifar-10-batches-py" / "test_batch", 6)
    cifar_batch(folder / "cifar-10-batches-py" / "data_batch_1", 8, seed=1)
    cifar_batch(folder / "cifar-100-python" / "test", 6, key="fine_labels")
    cifar_batch(folder / "cifar-100-python" / "train", 8, seed=1, key="fine_labels")
    imagenette_at(folder / "imagenette", each=1, size=(SIDE, SIDE))
    for k in range(2):
        save(folder, f"two_objects/elephant_zebra_{k}.png", noise(k, SIDE, SIDE))
    for k in range(3):
        save(folder, f"imagenet_val/{k:04d}.png", noise(10 + k, SIDE, SIDE))
    (folder / "imagenet_val" / "labels.csv").write_text(
        "file,class_index\n" + "".join(f"{k:04d}.png,{k}\n" for k in range(3))
    )
    (folder / "weights").mkdir()
    for outputs in (10, 100):
        save_file(_net(outputs)().state_dict(), folder / "weights" / f"cifar{outputs}_resnet56.safetensors")
    torch.save(_net(1000)().state_dict(), folder / "weights" / "efficientnet_lite0.pth")
    return folder


def _net(outputs: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 4, 5, stride=4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, outputs),
        )

    return build


def small_maskers(data: Path) -> None:
    """Maskers of the tiny net, trained for one step."""
    classifier = load_classifier("efficientnet-lite0", weights=data / "weights" / "efficientnet_lite0.pth")
    images = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    labels = list(IMAGENETTE.values())  # all of them, so that nothing is said of those that are not there
    images, truth = images.repeat(5, 1, 1, 1), torch.tensor(labels)
    for kind in ("dabkowski", "phang-ca"):
        out = data / "maskers" / f"efficientnet-lite0.{kind}.safetensors"
        out.parent.mkdir(exist_ok=True)
        train_masker(kind, classifier, images, truth, out=out, steps=1, batch=2, width=4)
