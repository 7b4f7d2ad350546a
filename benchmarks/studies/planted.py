"""Planted evidence: a net with hand-set weights, and pictures in which the evidence for each label is known.

The net has four labels. The probability of *object* grows with the visible part of a bright square of 8 x 8 pixels. That of *trigger* needs
nearly all of a small chequered patch of 4 x 4. *neither* and *nothing* have no evidence anywhere: their logits are constant.
Every picture holds one square and one patch, apart from each other, at random places on noise that the net does not see:

    logits   object 3,  trigger 6,  neither 0,  nothing 0          f   .05, .95, .002, .002

So the net predicts *trigger*, which is wrong (the picture shows an object), and the evidence for this wrong label is known: it is
exactly the patch. A method passes if its map of a label ranks that label's own evidence first. A metric passes if it ranks methods by
how well they do this.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.ranking import rank

SIDE, OBJECT, PATCH = 24, 8, 4
NAMES = ("object", "trigger", "neither", "nothing")
EVIDENCE = ("object", "trigger")
"""The labels that have evidence, in the order of their numbers."""
_STRENGTH = (3.0, 6.0)
_LEAST = 0.75
"""Share of a window that must fit before it counts."""


def chequered(side: int = PATCH) -> Tensor:
    """The patch: 1 and -1 in turn, ``(side, side)``."""
    place = torch.arange(side)
    return 1.0 - 2.0 * ((place[:, None] + place) % 2)


def planted_classifier() -> Classifier:
    """The net: two filters of 4 x 4, a rectifier, a sum over places, and a linear head, all set by hand."""
    filters, head = nn.Conv2d(1, 2, PATCH), nn.Linear(2, len(NAMES))
    places = (SIDE - PATCH + 1) ** 2
    inside = (OBJECT - PATCH + 1) ** 2  # windows that lie in the square as a whole
    with torch.no_grad():
        filters.weight[0, 0], filters.weight[1, 0] = 1 / PATCH**2, chequered() / PATCH**2
        filters.bias = nn.Parameter(torch.full((2,), -_LEAST))
        head.weight.zero_()
        head.bias.zero_()
        for label, windows in enumerate((inside, 1)):
            head.weight[label, label] = _STRENGTH[label] * places / (windows * (1 - _LEAST))
    net = nn.Sequential(filters, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    return Classifier(net.eval(), size=SIDE, mean=(0.5,), std=(0.5,), names=NAMES, name="planted evidence")


def planted_images(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pictures ``(n, 1, 24, 24)``, and boolean masks ``(n, 2, 24, 24)`` of the evidence for each label that has any."""
    keys = torch.tensor([streams.key_of(seed, "planted", i) for i in range(n)])
    noise = 0.05 * (2 * streams.uniform(keys, SIDE * SIDE).view(n, 1, SIDE, SIDE) - 1)
    images, evidence = 0.5 + noise, torch.zeros(n, 2, SIDE, SIDE, dtype=torch.bool)
    half = SIDE // 2
    for i, drawn in enumerate(streams.random_words(keys, 6, start=SIDE * SIDE).tolist()):
        rows = drawn[0] % 2  # the square is in the left half and the patch in the right one, or the reverse
        for k, side in enumerate((OBJECT, PATCH)):
            left = (half if (k == 0) == (rows == 0) else 0) + drawn[1 + k] % (half - side + 1)
            top = drawn[3 + k] % (SIDE - side + 1)
            evidence[i, k, top : top + side, left : left + side] = True
            images[i, 0, top : top + side, left : left + side] = (
                1.0 if k == 0 else 0.5 + 0.5 * chequered().to(images)
            )
    return images, evidence


def hits(maps: Tensor, evidence: Tensor) -> Tensor:
    """Share of the evidence ``(N, K, *positions)`` that a map ``(N, K, *positions)`` ranks first, ``(N, K)``.

    With e positions of evidence: the share of the map's top e that are among them.
    """
    marked = evidence.flatten(2)
    ranks = rank(maps.flatten(0, 1)).view(marked.shape)
    size = marked.sum(dim=2, keepdim=True)
    found = (marked & (ranks < size)).sum(dim=2)
    return found / size[..., 0].clamp_min(1)


def notices(scores: Mapping[str, float], truth: Mapping[str, float], higher_is_better: bool = True) -> float:
    """Spearman's correlation between a metric's order of methods and the true order: 1 if they agree, NaN if one is constant."""
    methods = [m for m in scores if m in truth and scores[m] == scores[m]]
    one, other = (
        torch.tensor([values[m] for m in methods], dtype=torch.float64) for values in (scores, truth)
    )
    a, b = (_ranks(v) - _ranks(v).mean() for v in ((one if higher_is_better else -one), other))
    return float((a * b).sum() / (a.square().sum() * b.square().sum()).sqrt())


def _ranks(values: Tensor) -> Tensor:
    """Ranks with the mean rank for ties."""
    below = (values[:, None] > values).sum(dim=1)
    equal = (values[:, None] == values).sum(dim=1)
    return below + (equal - 1) / 2
