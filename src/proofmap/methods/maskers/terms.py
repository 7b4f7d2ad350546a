"""The terms of the maskers' losses, each a pure function that keeps the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.methods.masks.terms import total_variation


def hinge(log_f: Tensor, labels: Tensor, shown: Tensor, *, lead: float, lag: float) -> Tensor:
    """Carlini and Wagner's hinge ``(N,)`` on the lead d = log f_a - max over other labels, from log f ``(N, A)``.

    Where the label is to be ``shown``, relu(lead - d); where it is to be gone, relu(d + lag).

    >>> log_f = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    >>> hinge(log_f, torch.tensor([0, 0]), torch.tensor([True, False]), lead=5.0, lag=1.0)
    tensor([3., 3.])
    """
    own = log_f.gather(1, labels[:, None])[:, 0]
    others = log_f.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    d = own - others
    return torch.where(shown, lead - d, d + lag).relu()


def area(masks: Tensor, power: float) -> Tensor:
    """mean over positions of (m + .0005)^power, ``(N,)``: the term that keeps masks ``(N, H, W)`` small.

    >>> area(torch.tensor([[[0.0, 1.0]]]), 1.0)
    tensor([0.5005])
    """
    return (masks + 0.0005).pow(power).mean(dim=(1, 2))


def smoothness(masks: Tensor, border: float = 0.3) -> Tensor:
    """Half the sum of squared differences of neighbours and of ``border`` times the squares along the border, ``(N,)``.

    >>> smoothness(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]))  # (1 + 1 + .3 (1 + 1 + 2)) / 2
    tensor([1.6000])
    """
    edge = [masks[:, -1], masks[:, 0], masks[:, :, -1], masks[:, :, 0]]
    along = sum(side.square().sum(dim=1) for side in edge)
    return (total_variation(masks) + border * along) / 2


def entropy(log_f: Tensor) -> Tensor:
    """-sum over labels of f log f, ``(N,)``; labels that do not count (log f = -infinity) add nothing.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0]]).log())
    tensor([0.6931])
    """
    return -(log_f.exp() * log_f.clamp_min(-80.0)).sum(dim=1)


def reward(masks: Tensor, event: Tensor) -> Tensor:
    """relu(1[event] - mean m), ``(N,)``: what a small mask is worth once it has done its work.

    >>> reward(torch.full((2, 2, 2), 0.25), torch.tensor([True, False]))
    tensor([0.7500, 0.0000])
    """
    return (event.float() - masks.mean(dim=(1, 2))).relu()
