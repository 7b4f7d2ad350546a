"""Gray pictures of bars, discs and rings, as an X-ray is gray; and a small net that tells them apart."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

NAMES = ("bar", "disc", "ring")
SIZE = 24
RIGHT = f"size={SIZE}, mean=(0.3,), std=(0.25,), names={list(NAMES)}"
"""What the net's Classifier must be told."""

_FILE = """
import torch
from torch import nn

import proofmap as pm

def shapes():
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(144, 3),
    )
    net.load_state_dict(torch.load("weights.pt", weights_only=True))
    return pm.Classifier(net, ARGUMENTS)
"""


def picture(kind: str, rng: np.random.Generator) -> np.ndarray:
    """One shape at a random place, in noise."""
    y, x = np.mgrid[:SIZE, :SIZE]
    across, down = rng.integers(8, SIZE - 8, 2)
    radius = rng.integers(4, 7)
    far = np.hypot(x - across, y - down)
    shape = {
        "bar": (abs(x - across) < 2) & (abs(y - down) < 7),
        "disc": far < radius,
        "ring": (far < radius + 1) & (far > radius - 1),
    }[kind]
    return np.clip(shape * 150 + rng.normal(70, 15, (SIZE, SIZE)), 0, 255).astype(np.uint8)


def save_pictures(folder: Path, each: int = 5, called: tuple[str, ...] = NAMES) -> None:
    """A folder per label, under the names that someone gives them."""
    rng = np.random.default_rng(1)
    for kind, name in zip(NAMES, called, strict=True):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            Image.fromarray(picture(kind, rng)).save(folder / name / f"{name}{i}.png")


@functools.cache
def trained() -> dict[str, Tensor]:
    """The weights of a net that tells the shapes apart."""
    rng = np.random.default_rng(0)
    truth = torch.arange(240) % 3
    pixels = np.stack([picture(NAMES[int(kind)], rng) for kind in truth])[:, None] / 255
    x = (torch.tensor(pixels, dtype=torch.float32) - 0.3) / 0.25
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(144, 3),
    )  # fmt: skip
    adam = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(10):
        for some, right in zip(x.split(40), truth.split(40), strict=True):
            loss = nn.functional.cross_entropy(net(some), right)
            adam.zero_grad()
            loss.backward()
            adam.step()
    assert float((net(x).argmax(dim=1) == truth).float().mean()) > 0.95
    return net.state_dict()


def save_weights(path: Path) -> None:
    torch.save(trained(), path)


def write_net(path: Path, arguments: str = RIGHT) -> None:
    """The file of a person who tells the Classifier this about the net."""
    path.write_text(_FILE.replace("ARGUMENTS", arguments))
