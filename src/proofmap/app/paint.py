"""Painted proofs: the net's probabilities f if only the painted pixels (or the chosen columns or words) of a photo are shown.

They are compared with the methods' proofs of the same size, which show the same number of pixels: the highest ranked ones of a map.

The net sees M x + (1 - M) x', as in the insertion and deletion games: the photo x where the mask M is 1, the fill x' elsewhere. For a
random fill, x' is the first draw, which the page shows as a picture.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import interpolate

from proofmap.app.jobs import MOST_LABELS, JobId, LabelIndex, MapJob, Name, PhotoId, Spec, StrictRequest
from proofmap.app.nets import Nets, Subject, check_known
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, LabelRule, wrong_keys
from proofmap.fills import Fill

FIRST = 3
"""The number of most probable labels that are chosen by default."""
SEEN_IN_PART = 0.2
"""Least probability that a label must have for a part of the photo to be suggested."""
MOST_SUGGESTED = 4
PARTS = 3
"""Number of parts per side of a photo. Each part has half the height and half the width of the photo; neighbours overlap by half."""


def top_labels(f: Tensor, label_set: Sequence[int], number: int) -> list[int]:
    """The ``number`` most probable labels of the label set, most probable first, given the probabilities ``f`` ``(A,)`` of all labels.

    >>> top_labels(torch.tensor([0.1, 0.6, 0.3]), [0, 1, 2], 2)
    [1, 2]
    """
    members = torch.tensor(list(label_set))
    order = f[members].argsort(descending=True, stable=True)[:number]
    found: list[int] = members[order].tolist()
    return found


def wrong_labels(f: Tensor, label_set: Sequence[int], image: Tensor, seed: int = 0) -> list[int]:
    """The near and the far wrong label that the rule ``top3+wrong`` adds; see :mod:`proofmap.core.labels`.

    ``f`` ``(A,)`` has the probabilities of the image ``(1, C, H, W)``. If the rule finds no wrong label, because the net believes all labels a
    little, the least probable label is returned.

    >>> wrong_labels(torch.tensor([0.5, 0.2, 0.3]), range(3), torch.zeros(1, 3, 2, 2))
    [1]
    """
    keys = wrong_keys(image, seed)
    row = LabelRule.parse(f"top{FIRST}+wrong", ()).choose(f[None], label_set, keys=keys)[0].tolist()
    found: list[int] = [label for label in row[min(FIRST, len(label_set)) :] if label != NO_LABEL]
    return found or top_labels(f, label_set, len(label_set))[-1:]


def parts_of(image: Tensor) -> Tensor:
    """Overlapping parts ``(PARTS ** 2, C, H, W)`` of an image ``(1, C, H, W)``, each enlarged to the size of the image."""
    height, width = image.shape[-2:]
    tall, wide = -(-height // 2), -(-width // 2)
    cut = [
        image[..., y : y + tall, x : x + wide]
        for y in (k * (height - tall) // (PARTS - 1) for k in range(PARTS))
        for x in (k * (width - wide) // (PARTS - 1) for k in range(PARTS))
    ]
    return interpolate(torch.cat(cut), size=(height, width), mode="bilinear", antialias=True)


def seen_in_parts(whole: Tensor, parts: Tensor, label_set: Sequence[int]) -> list[tuple[int, float]]:
    """Labels that a part of the photo suggests, each with its largest probability for a part, in decreasing order.

    A label is suggested if it is the most probable label of a part, and its largest probability for a part is at least :data:`SEEN_IN_PART`
    and at least twice its probability for the whole photo. ``whole`` ``(A,)`` and ``parts`` ``(P, A)`` are the net's probabilities.
    """
    leading = {top_labels(row, label_set, 1)[0] for row in parts}
    best = {label: float(parts[:, label].max()) for label in leading}
    found = [(a, p) for a, p in best.items() if p >= SEEN_IN_PART and p >= 2 * float(whole[a])]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MOST_SUGGESTED]


_TOP = 5
"""The number of most probable labels that are always in the answer."""


class PaintAsked(StrictRequest):
    """A painted proof. ``mask`` is base64 of one bit per pixel, column or word of the net's input, row by row, the first one in the highest
    bit; 1 means shown."""

    photo: PhotoId
    net: Name
    fill: Spec = "gray"
    mask: Annotated[str, Field(max_length=700_000)]
    labels: list[LabelIndex] = Field(default_factory=list, max_length=MOST_LABELS)
    job: JobId | None = None
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


def painted(nets: Nets, asked: PaintAsked, photo: Subject, fill: Fill, job: MapJob | None) -> dict[str, Any]:
    """The net's probabilities for a painted proof (``f``) and for the whole input (``whole``), and for the maps of ``job`` at the same size
    (``machine``). Must run in the worker's thread."""
    facts = nets.facts(asked.net)
    check_known(asked.labels, facts)
    classifier, image = nets.at_own_length(asked.net, nets.seen(photo, asked.net))
    keep = _mask_from(asked.mask, classifier.inputs.positions)
    count = int(keep.sum())
    maps = sorted(job.maps.items()) if job is not None else []
    ranked = (_ranks_of(answer).view(keep.shape) < count for _, answer in maps)
    masks = torch.stack([keep, torch.ones_like(keep), *ranked]).to(classifier.device)
    image = image.to(classifier.device)
    hidden = nets.hidden(asked.net, photo, fill, image, asked.seed)
    shown = classifier.inputs.composite(
        masks, image.expand(len(masks), *image.shape[1:]), hidden.expand(len(masks), *hidden.shape[1:])
    )
    f = classifier.frozen().probabilities(shown).cpu()
    labels = dict.fromkeys([*top_labels(f[0], classifier.label_set, _TOP), *asked.labels])
    return {
        "share": count / keep.numel(),
        "labels": [
            {"label": a, "name": facts.names[a], "f": float(f[0, a]), "whole": float(f[1, a])} for a in labels
        ],
        "machine": [
            {"method": method, "label": label, "f": float(row[label])}
            for row, ((method, label), _) in zip(f[2:], maps, strict=True)
        ],
    }


def _mask_from(text: str, positions: tuple[int, ...]) -> Tensor:
    """A boolean mask of shape ``positions``, read from packed bits in base64.

    >>> _mask_from("oA==", (1, 3))
    tensor([[ True, False,  True]])
    """
    count = math.prod(positions)
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError):
        raise InputError("mask must be base64 of packed bits") from None
    if len(packed) != -(-count // 8):
        each = f"{' x '.join(map(str, positions))} {'pixels' if len(positions) > 1 else 'positions'}"
        raise InputError(
            f"mask must hold one bit for each of {each}, {-(-count // 8)} bytes, not {len(packed)}"
        )
    bits = np.unpackbits(packed, count=count)
    return torch.from_numpy(bits.astype(bool)).view(positions)


def _ranks_of(answer: Mapping[str, Any]) -> Tensor:
    """The rank of each pixel of a finished map ``(H, W)``; 0 is the most important pixel."""
    kind = np.dtype(answer["order_type"]).newbyteorder("<")
    ranks = np.frombuffer(base64.b64decode(answer["order"]), dtype=kind).astype(np.int64)
    return torch.from_numpy(ranks).view(answer["height"], answer["width"])
