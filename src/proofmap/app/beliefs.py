"""Which labels of a photo are worth a proof: the most probable, those of its parts, and wrong ones that no map should prove."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from proofmap.core import streams

UNBELIEVED = 0.01
"""A label with a smaller f counts as wrong; the floor e1 of completeness."""
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
    """A near and a far wrong label, for probabilities ``(A,)`` of an image ``(1, C, H, W)``.

    The near one is the most probable label with f below :data:`UNBELIEVED`. The far one is drawn, by the seed and the image, from the less
    probable half of all labels with f below it. If all labels are believed, only the least probable one is returned.

    >>> f = torch.tensor([0.9, 0.09, 0.006, 0.004])
    >>> wrong_labels(f, range(4), torch.zeros(1, 3, 2, 2))
    [2, 3]
    """
    order = top_labels(f, label_set, len(label_set))
    unbelieved = [label for label in order if f[label] < UNBELIEVED]
    if not unbelieved:
        return order[-1:]
    far = [label for label in order[len(order) // 2 :] if f[label] < UNBELIEVED and label != unbelieved[0]]
    draw = int(streams.image_keys(image, seed, "wrong label")[0]) % max(len(far), 1)
    return [unbelieved[0], *far[draw : draw + 1]]


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
