"""An encoder: maps that prove a label by their outline alone, drawn on purpose. A good judge finds them out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.fills import Images
from proofmap.methods.grids import enlarged, upsamplings
from proofmap.session import Session

_CELLS, _STEPS, _INPUTS, _SHARE, _RATE = 14, 20, 2, 0.25, 0.2


def codes(session: Session, images: Tensor, labels: Tensor) -> Tensor:
    """Maps ``(N, *positions)`` of one label each ``(N,)``, learned on *other* inputs z, so that they know nothing of the image itself:

        minimise over m    mean over z of -log f(m z + (1 - m) gray, a)  +  4 (mean of m - 1/4)^2

    The mask m in [0, 1] has 14 cells along the longest side (one for each position if positions have no neighbours); 20 steps of normalised
    gradients with momentum see two random inputs each, from the half that methods learn on. It needs gradients.
    """
    inputs, net = session.inputs, session.net.frozen()
    fill = Images()
    session.prepare(fill)
    long = max(inputs.positions)
    cells = tuple(max(1, -(-side * _CELLS // long)) for side in inputs.positions)
    up = None
    if inputs.has_neighbours and long > _CELLS:
        up = upsamplings(cells, inputs.positions, device=images.device)
    keys = streams.image_keys(images, session.seed, "code")
    drawn = [
        [
            fill(session, images, streams.image_keys(images, session.seed, "code", step, k))
            for k in range(_INPUTS)
        ]
        for step in range(4)
    ]

    def one_batch(start: int, stop: int) -> Tensor:
        grid = inputs.positions if up is None else cells
        noise = streams.normal(keys[start:stop], math.prod(grid))
        logits = (0.1 * noise.view(-1, *grid)).requires_grad_(True)
        pace = torch.zeros_like(logits)
        wanted = labels[start:stop, None]
        for step in range(_STEPS):
            mask = logits.sigmoid() if up is None else enlarged(logits.sigmoid(), up)
            loss = 4 * (mask.flatten(1).mean(dim=1) - _SHARE).square().sum()
            for each in drawn[step % len(drawn)]:
                z = each[start:stop]
                made = inputs.composite(mask, z, inputs.blank_like(z))
                loss = loss - net.log_f(net(made)).gather(1, wanted).clamp_min(-30.0).sum() / _INPUTS
            (slope,) = torch.autograd.grad(loss, logits)
            size = slope.abs().flatten(1).mean(dim=1).clamp_min(1e-12).view(-1, *[1] * len(grid))
            pace = 0.8 * pace + slope / size  # torch's optimisers take seconds to import
            logits = (logits.detach() - _RATE * pace).requires_grad_(True)
        found = logits.detach()
        return found if up is None else enlarged(found, up)

    with torch.enable_grad(), steady_kernels(tf32=False):
        return torch.cat(in_batches(one_batch, len(images), net.batches[1]))
