"""Is a map a proof? Completeness, soundness, their worst case over labels, and best effort (the paper's section 3.2).

    alpha(x, a) = min( max(AUC, e1) / f , 1 )            completeness: what the net believes can be proved
    beta(x, a)  = min( max(f, e2) / AUC , 1 )            soundness: what it does not believe cannot

with f = f(x, a), AUC = AUC(x, a, M_a), and 0/0 = 1. e1 and e2 are floors, not filters: a label with f <= e1 has
alpha = 1, and beta is never below e2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError

SECOND_LABEL_FLOOR = 0.01
"""Best effort looks at images whose second label has at least this probability."""
Counted = Literal["believed", "paper"]
"""Which labels best effort uses: those with f >= e1, or all labels except the top one, as in the paper."""


@dataclass(frozen=True)
class Thresholds:
    """The floors e1 and e2 in the definitions of completeness and soundness."""

    e1: float
    e2: float

    def __post_init__(self) -> None:
        for name, value in (("e1", self.e1), ("e2", self.e2)):
            if not 0 <= value <= 1:
                raise InputError(f"{name} must lie between 0 and 1, not {value}")


THRESHOLDS: Mapping[str, Thresholds] = {
    "paper": Thresholds(0.01, 0.001),
    "restricted": Thresholds(0.01, 0.1),
    "appendix": Thresholds(0.0, 0.1),
    "released": Thresholds(0.1, 0.1),
}
"""Presets by name. ``paper``: the paper's main text. ``restricted``: its table over the range 0.2 to 0.6. ``appendix``: its CIFAR
and ImageNet tables. ``released``: the script that its authors published.
"""


def thresholds(which: str | tuple[float, float] | Thresholds) -> Thresholds:
    """The thresholds: by name, from two numbers, from the text ``"0.01,0.001"``, or unchanged.

    >>> thresholds("released"), thresholds("0,0.1")
    (Thresholds(e1=0.1, e2=0.1), Thresholds(e1=0.0, e2=0.1))
    """
    if isinstance(which, Thresholds):
        return which
    if not isinstance(which, str):
        return Thresholds(*which)
    if which in THRESHOLDS:
        return THRESHOLDS[which]
    try:
        e1, e2 = (float(part) for part in which.split(","))
    except ValueError:
        raise InputError(
            f"thresholds {which!r} are neither a preset ({', '.join(THRESHOLDS)}) nor two numbers such as 0.01,0.001"
        ) from None
    return Thresholds(e1, e2)


def completeness(auc: Tensor, f: Tensor, e1: float = 0.0) -> Tensor:
    """Completeness alpha(x, a) from areas and f, elementwise; NaN where the area or f is NaN.

    >>> completeness(torch.tensor([0.65, 0.43]), torch.tensor([0.67, 0.67]))
    tensor([0.9701, 0.6418])
    """
    proved = auc.clamp_min(e1)
    ratio = torch.where(f > 0, proved / f, _perfect(auc, f))
    return ratio.clamp_max(1.0)


def soundness(auc: Tensor, f: Tensor, e2: float = 0.0) -> Tensor:
    """Soundness beta(x, a) from areas and f, elementwise; NaN where the area or f is NaN.

    >>> soundness(torch.tensor([0.29, 0.0]), torch.tensor([0.13, 0.0]))
    tensor([0.4483, 1.0000])
    """
    believed = f.clamp_min(e2)
    ratio = torch.where(auc > 0, believed / auc, _perfect(auc, f))
    return ratio.clamp_max(1.0)


def _perfect(auc: Tensor, f: Tensor) -> Tensor:
    """1, or NaN where either input is NaN, in the dtype of their ratio."""
    return torch.where(f.isnan() | auc.isnan(), torch.nan, 1.0).to((auc / 1).dtype)


def worst_case(scores: Tensor) -> Tensor:
    """The minimum ``(N,)`` of scores ``(N, L)`` over the labels of each image. Entries without a label (NaN) do not count.

    >>> worst_case(torch.tensor([[0.9, 0.4, float("nan")]]))
    tensor([0.4000])
    """
    lowest = scores.nan_to_num(nan=torch.inf).amin(dim=1)
    return lowest.masked_fill(scores.isnan().all(dim=1), torch.nan)


def best_effort(
    auc: Tensor,
    f: Tensor,
    labels: Tensor,
    top2: Tensor,
    f_second: Tensor,
    e1: float,
    counted: Counted = "believed",
) -> Tensor:
    """Worst completeness over the labels that the net does not put first, on images whose second label has f >= .01: ``(N,)``.

    ``counted`` decides which labels are used, and so which images count. Other images are NaN.

        believed    labels with f >= e1 other than the top one; an image that was judged for none of them does not count
        paper       all labels other than the top one; one with f <= e1 has completeness 1, by the floor in its definition

    At e1 <= .01 the two are the same where the second label was judged. For a larger e1 the paper's rule also counts images on which every
    map scores 1: for example, f = .09 for the second label and e1 = .1. A method that shows the top label's map for every
    label scores low by both rules, even if it is sound.

    Args:
        auc, f, labels: ``(N, L)``.
        top2: the two most probable labels of each image, ``(N, 2)``.
        f_second: f of the second one, ``(N,)``.
    """
    asked = (labels != top2[:, :1]) & (f_second >= SECOND_LABEL_FLOOR)[:, None]
    if counted == "believed":
        asked &= f >= e1
    return worst_case(completeness(auc, f, e1).masked_fill(~asked, torch.nan))


def peak_of(values: Tensor, weights: Tensor, q: float = 1.0) -> Tensor:
    """The q-quantile ``(N, L)`` of curves ``(N, L, S)`` whose points have the weights ``weights`` ``(S,)``: the least value such that
    the points above it have a total weight of at most 1 - q.

    >>> curve = torch.tensor([[[0.1, 0.9, 0.4, 0.4]]])
    >>> [round(peak_of(curve, torch.full((4,), 0.25), q).item(), 2) for q in (1.0, 0.75)]
    [0.9, 0.4]
    """
    falling, order = values.sort(dim=-1, descending=True)
    above = weights.to(values.device)[order].cumsum(dim=-1) - weights.to(values.device)[order]
    counts = above <= 1 - q + 1e-9
    return falling.gather(-1, (counts.sum(dim=-1, keepdim=True) - 1).clamp_min(0))[..., 0]


def reach_of(values: Tensor, shares: Tensor, f: Tensor, part: float = 0.9) -> Tensor:
    """The smallest of the shares ``(S,)`` at which curves ``(N, L, S)`` reach ``part * f``, ``(N, L)``; 1 if they never do.

    >>> curve = torch.tensor([[[0.1, 0.5, 0.4]]])
    >>> reach_of(curve, torch.tensor([0.2, 0.6, 1.0]), torch.tensor([[0.4]])).item()
    0.6000000238418579
    """
    there = values >= part * f[..., None]
    return torch.where(there.any(dim=-1), shares[there.int().argmax(dim=-1)], 1.0)
