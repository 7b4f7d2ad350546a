"""Labels to suggest for a photo: the most probable, those of its parts, and wrong ones that no map should prove."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from proofmap.core.labels import NO_LABEL, LabelRule, wrong_keys

FIRST = 3
"""The most probable labels that are chosen at first."""
SEEN_IN_PART = 0.2
"""The least probability with which a part of the photo suggests a label."""
MOST_SUGGESTED = 4
PARTS = 3
"""Parts per side. Each has half the height and half the width of the photo; neighbours overlap by half."""


def top_labels(f: Tensor, label_set: Sequence[int], number: int) -> list[int]:
    """The most probable labels of the label set, best first, for probabilities ``(A,)``.

    >>> top_labels(torch.tensor([0.1, 0.6, 0.3]), [0, 1, 2], 2)
    [1, 2]
    """
    members = torch.tensor(list(label_set))
    order = f[members].argsort(descending=True, stable=True)[:number]
    found: list[int] = members[order].tolist()
    return found


def wrong_labels(f: Tensor, label_set: Sequence[int], image: Tensor, seed: int = 0) -> list[int]:
    """The wrong labels that the rule ``top3+wrong`` adds (:mod:`proofmap.core.labels`), for probabilities ``(A,)`` of an image
    ``(1, C, H, W)``: a near one and a far one. If the net believes all labels a little, the least probable one.

    >>> wrong_labels(torch.tensor([0.5, 0.2, 0.3]), range(3), torch.zeros(1, 3, 2, 2))
    [1]
    """
    keys = wrong_keys(image, seed)
    row = LabelRule.parse(f"top{FIRST}+wrong", ()).choose(f[None], label_set, keys=keys)[0].tolist()
    found: list[int] = [label for label in row[min(FIRST, len(label_set)) :] if label != NO_LABEL]
    return found or top_labels(f, label_set, len(label_set))[-1:]


def parts_of(image: Tensor) -> Tensor:
    """Overlapping parts ``(PARTS ** 2, C, H, W)`` of an image ``(1, C, H, W)``, each enlarged to its size."""
    height, width = image.shape[-2:]
    tall, wide = -(-height // 2), -(-width // 2)
    cut = [
        image[..., y : y + tall, x : x + wide]
        for y in (k * (height - tall) // (PARTS - 1) for k in range(PARTS))
        for x in (k * (width - wide) // (PARTS - 1) for k in range(PARTS))
    ]
    return interpolate(torch.cat(cut), size=(height, width), mode="bilinear", antialias=True)


def seen_in_parts(whole: Tensor, parts: Tensor, label_set: Sequence[int]) -> list[tuple[int, float]]:
    """Labels that lead in a part of the photo with at least :data:`SEEN_IN_PART` and twice their f, and that f.

    ``whole`` ``(A,)`` and ``parts`` ``(P, A)`` are probabilities; the clearest label comes first.
    """
    leading = {top_labels(row, label_set, 1)[0] for row in parts}
    best = {label: float(parts[:, label].max()) for label in leading}
    found = [(a, p) for a, p in best.items() if p >= SEEN_IN_PART and p >= 2 * float(whole[a])]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MOST_SUGGESTED]
