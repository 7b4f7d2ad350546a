"""A small net for CIFAR-10 and its training, for studies that have to train: minutes on a CPU, seconds on a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.data.arrays import load_cifar
from proofmap.models.names import label_names

MEAN, STD = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)


def add_training(parser: argparse.ArgumentParser, *, epochs: int) -> None:
    """What a study that trains is told: how, on what, and where its numbers go."""
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--limit", type=int, default=None, help="images to train on, and to test on")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layers")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=None, help="where to write the numbers as JSON")


def read_images(
    folder: Path, limit: int | None, device: str
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Images and labels to train on, from all batches that are there, and to test on; the first ``limit`` of each."""
    batches = [load_cifar(path) for path in sorted(folder.glob("data_batch_*"))]
    if not batches:
        raise pm.InputError(f"{folder} has no file data_batch_1; name the folder cifar-10-batches-py")
    x, y = (torch.cat(parts)[:limit].to(device) for parts in zip(*batches, strict=True))
    test_x, test_y = (part[:limit].to(device) for part in load_cifar(folder / "test_batch"))
    return (x, y), (test_x, test_y)


def small_net(width: int = 32, labels: int = 10, seed: int = 0) -> nn.Sequential:
    """Five convolutions with batch-norm, global pooling, a linear head; weights that depend on the seed alone."""
    layers: list[nn.Module] = []
    before = 3
    for channels, stride in ((width, 1), (width, 1), (2 * width, 2), (2 * width, 1), (4 * width, 2)):
        layers += [
            nn.Conv2d(before, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        ]
        before = channels
    head = nn.Linear(before, labels)
    nn.init.zeros_(head.bias)
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.ndim > 1:
                fan_in = weight[0].numel()
                weight.copy_(torch.randn(weight.shape, generator=random) * (2 / fan_in) ** 0.5)
    return net


def train(
    x: Tensor,
    y: Tensor,
    *,
    epochs: int = 8,
    batch: int = 128,
    width: int = 32,
    seed: int = 0,
    augment: bool = True,
) -> nn.Module:
    """The small net trained on images ``(N, 3, 32, 32)`` in [0, 1]: SGD, one cycle, flips and shifts by up to four pixels.

    Without ``augment``, weight decay and smoothed labels, it can learn any labels by heart.
    """
    device = x.device
    net = small_net(width, seed=seed).to(device).train()
    mean, std = (torch.tensor(v, device=device).view(3, 1, 1) for v in (MEAN, STD))
    steps = epochs * -(-len(x) // batch)
    decay, smoothing = (5e-4, 0.1) if augment else (0.0, 0.0)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=decay, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.2, total_steps=steps)
    random = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for some in torch.randperm(len(x), generator=random).split(batch):
            images = (x[some.to(device)] - mean) / std
            if augment and float(torch.rand((), generator=random)) < 0.5:
                images = images.flip(3)
            if augment:
                dy, dx = torch.randint(0, 9, (2,), generator=random).tolist()
                images = F.pad(images, (4, 4, 4, 4))[..., dy : dy + 32, dx : dx + 32]
            loss = F.cross_entropy(net(images), y[some.to(device)], label_smoothing=smoothing)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return net.eval()


def classifier_of(net: nn.Module) -> pm.Classifier:
    """The net with the normalisation it was trained with."""
    return pm.Classifier(
        net, size=32, mean=MEAN, std=STD, names=label_names("cifar10"), name="small CIFAR-10 net"
    )


def accuracy(f: pm.Classifier, x: Tensor, y: Tensor) -> float:
    return float((f.probabilities(x).argmax(dim=1) == y).float().mean())
