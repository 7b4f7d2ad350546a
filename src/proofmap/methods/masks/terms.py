"""Terms of the objectives of mask methods, and fast noise.

Each term is a pure function that sums over a mask and keeps the batch axes. New noise for every picture would cost as much as a pass of a
small net. So one long sequence of normal numbers is drawn once. Each draw of noise is a piece of this sequence, with a random start and a
random sign. Such noise smooths a gradient as well as independent noise does.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from proofmap.core import streams

Objective = Literal["nll", "nll-of-mean", "released"]
Variation = Literal["squared", "absolute"]


def total_variation(
    masks: Tensor, *, power: Variation = "squared", border: bool = True, axes: int = 2
) -> Tensor:
    """Sum of squared (or absolute) differences of neighbours along the last ``axes`` of masks ``(..., *positions)``.

    ``border=False`` uses only differences that start in the first (H-1) x (W-1) positions. It leaves out those along the last row and
    column, as the released code of the paper does.

    >>> total_variation(torch.tensor([[0.0, 1.0], [0.0, 3.0]]))
    tensor(14.)
    >>> total_variation(torch.tensor([[0.0, 1.0], [0.0, 3.0]]), border=False)
    tensor(1.)
    """
    total: Tensor | None = None
    for axis in range(-axes, 0):
        difference = masks.diff(dim=axis)
        if not border:
            for other in range(-axes, 0):
                if other != axis:
                    difference = difference.narrow(other, 0, difference.shape[other] - 1)
        size = difference.square() if power == "squared" else difference.abs()
        summed = size.sum(dim=tuple(range(-axes, 0)))
        total = summed if total is None else total + summed
    assert total is not None, "masks have at least one axis"
    return total


def data_term(log_p: Tensor, labels: Tensor, members: Tensor | None, objective: Objective) -> Tensor:
    """Data term ``(P,)`` of each pair's loss: how weakly its D composites show its label.

    ``log_p`` ``(P, D, A)`` has log f, the log-probability of each of A labels for each composite. ``members`` is the label set; None if
    labels are independent.

    - ``nll``: the mean of -log f over the composites, as the paper prints it;
    - ``nll-of-mean``: -log of the mean f;
    - ``released``: the paper's code passes mean *probabilities* p to a cross-entropy, which takes their softmax again: -p_a + log sum_c
      exp(p_c) over the label set. The range of this term is only 1 wide, so the penalty on the mask's size can outweigh it for a label that
      the net finds impossible. Independent labels share no softmax. Each has the two labels {a, not a}:
      -p_a + log(exp(p_a) + exp(1 - p_a)), again 1 wide.

    >>> log_p = torch.tensor([[[0.5, 0.5], [0.9, 0.1]]]).log()
    >>> data_term(log_p, torch.tensor([0]), torch.tensor([0, 1]), "released")  # -0.7 + log(e^0.7 + e^0.3)
    tensor([0.5130])
    """
    index = labels.view(-1, 1, 1).expand(-1, log_p.shape[1], 1)
    if objective == "nll":
        return -log_p.gather(2, index).squeeze(2).mean(dim=1)
    if objective == "nll-of-mean":
        own = log_p.gather(2, index).squeeze(2)
        return -(own.logsumexp(dim=1) - math.log(own.shape[1]))
    p = log_p.exp().mean(dim=1)
    own = p.gather(1, labels[:, None])[:, 0]
    if members is None:
        return torch.logaddexp(own, 1 - own) - own
    return p[:, members].logsumexp(dim=1) - own


_PLACES = 1 << 18
"""Number of indices of the noise sequence at which a piece may start."""


def noise_like(values: Tensor, keys: Tensor) -> Tensor:
    """Standard normal noise with the shape of ``values``, whose first axes are those of ``keys``. Each key has its own draw; equal keys have
    equal draws.

    >>> keys = torch.tensor([3, 4, 3])
    >>> noise = noise_like(torch.zeros(3, 5, 7), keys)
    >>> torch.equal(noise[0], noise[2]), torch.equal(noise[0], noise[1])
    (True, False)
    """
    pieces, signs = _drawn(values, keys)
    return pieces * signs


def add_noise_(values: Tensor, keys: Tensor, sigma: float) -> Tensor:
    """Add ``sigma`` times :func:`noise_like` to ``values`` in place. In half precision, the noise is rounded too.

    >>> keys = torch.tensor([3, 4])
    >>> values = add_noise_(torch.ones(2, 5), keys, 0.5)
    >>> torch.equal(values, 1 + 0.5 * noise_like(values, keys))
    True
    """
    return values.addcmul_(*_drawn(values, keys), value=sigma)


def _drawn(values: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """For each key, a piece of the noise sequence in the shape of the key's values, and the sign of the piece."""
    shape = values.shape[keys.ndim :]
    pieces = _line(shape.numel(), values.device, values.dtype).unfold(0, shape.numel(), 1)
    drawn = streams.random_words(keys, 2)
    signs = (1 - 2 * (drawn[..., 1] & 1)).to(values.dtype)
    places = (drawn[..., 0] * _PLACES) >> 32
    return pieces[places].view(values.shape), signs.view(*keys.shape, *[1] * len(shape))


@cache
def _line(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    key = torch.tensor(streams.key_of("line of noise"), device=device)
    return streams.normal(key, _PLACES + length).to(dtype)
