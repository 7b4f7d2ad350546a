"""Small nets and seats for the tests of mask methods."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.methods.masks.engine import Slots
from tests.sessions import Bound
from tests.toys import MEAN, STD, drawn, pixels

SIZE = (12, 16)
PATCH = (slice(3, 8), slice(5, 11))


def lively(labels: int = 4, **options: Any) -> Classifier:
    """A net that looks at every place."""
    layers = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d((3, 4)),
        nn.Flatten(),
        nn.Linear(72, labels),
    )
    return Classifier(drawn(layers), **{"size": SIZE, "mean": MEAN, "std": STD, "batch_size": 64, **options})


class Patch(nn.Module):
    """Looks at one patch alone: the brighter, the more it is label 0."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.front = nn.Conv2d(3, 2, 1)
        self.strength = strength
        with torch.no_grad():
            self.front.weight.fill_(1 / 3)
            self.front.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        seen = self.strength * self.front(x)[:, :, PATCH[0], PATCH[1]].mean(dim=(1, 2, 3))
        return torch.stack([seen, -seen, torch.zeros_like(seen)], dim=1)


def patch_task(strength: float = 1.0) -> tuple[Classifier, Tensor]:
    """The net that looks at a patch, and one dark image in which that patch is bright."""
    net = Patch(strength).eval()
    f = Classifier(net, size=SIZE, mean=(0.5,) * 3, std=(0.25,) * 3, batch_size=64)
    image = 0.3 * pixels(1, SIZE, seed=3)
    image[:, :, PATCH[0], PATCH[1]] += 0.7
    return f, image


def seated(method: Bound, images: Tensor, labels: Tensor) -> tuple[Any, Slots]:
    """The problem of a mask method, and the pairs ``(images[p], labels[p])`` in its slots."""
    problem = method.problem(method.classifier.frozen())
    keys = streams.pair_keys(images, list(enumerate(labels.tolist())), 0, method.thing.name)
    slots = {
        "images": images,
        "image_of": torch.arange(len(images)),
        "labels": labels,
        "keys": keys,
        "step": torch.zeros_like(labels),
    }
    slots |= {name: rows.clone() for name, rows in problem.enter(slots).items()}
    return problem, slots | {name: torch.zeros_like(slots["weights"]) for name in ("first", "second")}


def gradient_of(problem: Any, weights: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
    """The losses ``(P,)`` and their gradient."""
    weights = weights.detach().clone().requires_grad_(True)
    losses = problem.losses(weights, slots)
    (gradient,) = torch.autograd.grad(losses.sum(), weights)
    return losses.detach(), gradient


def unnormalised(f: Classifier, x: Tensor) -> Tensor:
    """Inputs in their own units, in float64, from what the net takes."""
    mean, std = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1) for v in (f.mean, f.std))
    return x.double() * std + mean


def logits_of(f: Classifier, x: Tensor) -> Tensor:
    """Logits ``(A,)`` of one input in float64, differentiable."""
    mean, std = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1) for v in (f.mean, f.std))
    exact = copy.deepcopy(f.net).double()  # type: ignore[union-attr]
    return exact(((x - mean) / std)[None])[0]
