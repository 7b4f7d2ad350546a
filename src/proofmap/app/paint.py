"""Painted proofs: f of the photo when only the painted pixels (or the chosen columns or words) are shown, and f of the methods' proofs of the same size.

The net sees M x + (1 - M) x', as in the games: x where the mask M is 1, the fill x' elsewhere. For a random fill, x' is the first
draw, whose picture the page shows. A method's proof of the same size shows the same number of pixels, the first ones of its map.
"""

from __future__ import annotations

import base64
import binascii
import math

import numpy as np
import torch
from torch import Tensor

from proofmap.app.beliefs import top_labels
from proofmap.app.job_answers import MachineProof, MapAnswer, PaintAnswer, PaintAsked, PaintedBelief
from proofmap.app.jobs import MapJob
from proofmap.app.nets import Nets, Subject, check_known, hidden_by
from proofmap.core.errors import InputError
from proofmap.fills import Fill

TOP = 5
"""The most probable labels that are always in the answer."""


def painted(nets: Nets, asked: PaintAsked, photo: Subject, fill: Fill, job: MapJob | None) -> PaintAnswer:
    """The net's answer to a painted proof; in the worker's thread."""
    facts = nets.facts(asked.net)
    check_known(asked.labels, facts)
    classifier, image = nets.at_own_length(asked.net, nets.seen(photo, asked.net))
    keep = mask_from(asked.mask, classifier.inputs.positions)
    count = int(keep.sum())
    maps = sorted(job.maps.items()) if job is not None else []
    whole = torch.ones_like(keep)
    ranked = (ranks_of(answer).view(keep.shape) < count for _, answer in maps)
    masks = torch.stack([keep, whole, *ranked]).to(classifier.device)
    image = image.to(classifier.device)
    hidden = hidden_by(nets.fill(asked.net, photo, fill), image, asked.seed)
    shown = classifier.inputs.composite(
        masks, image.expand(len(masks), *image.shape[1:]), hidden.expand(len(masks), *hidden.shape[1:])
    )
    f = classifier.frozen().probabilities(shown).cpu()
    labels = list(dict.fromkeys([*top_labels(f[0], classifier.label_set, TOP), *asked.labels]))
    return PaintAnswer(
        share=count / keep.numel(),
        labels=[
            PaintedBelief(label=a, name=facts.names[a], f=float(f[0, a]), whole=float(f[1, a]))
            for a in labels
        ],
        machine=[
            MachineProof(method=method, label=label, f=float(row[label]))
            for row, ((method, label), _) in zip(f[2:], maps, strict=True)
        ],
    )


def mask_from(text: str, positions: tuple[int, ...]) -> Tensor:
    """A mask ``(*positions)``, boolean, from packed bits in base64.

    >>> mask_from("oA==", (1, 3))
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


def ranks_of(answer: MapAnswer) -> Tensor:
    """The rank of each pixel ``(H, W)`` of a finished map."""
    kind = np.dtype(answer.order_type).newbyteorder("<")
    ranks = np.frombuffer(base64.b64decode(answer.order), dtype=kind).astype(np.int64)
    return torch.from_numpy(ranks).view(answer.height, answer.width)
