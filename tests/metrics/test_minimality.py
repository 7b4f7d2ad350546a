"""The smallest regions that suffice: against loops over every size, and on nets made for it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.metrics import Judged, make_metric
from proofmap.metrics.minimality import SufficientRegion, sufficient_subsets
from proofmap.session import Session
from tests.toys import Linear, conv_classifier, normal, pixels

SIZE, N = 4, 3
LABELS = torch.tensor([[0, 2], [1, 3], [2, -1]])


def judged(f: pm.Classifier | None = None) -> Judged:
    return Judged(
        Session(f or conv_classifier(SIZE, 4)), pixels(N, SIZE), LABELS, normal(N, 2, SIZE, SIZE, seed=6)
    )


def by_hand(j: Judged, i: int, k: int, keeps: str, level: float) -> float:
    """Try every size."""
    order = j.maps[i, k].flatten().argsort(descending=True)
    x, gray, a = j.images[i].flatten(1), j.classifier.gray[:, None], int(LABELS[i, k])

    def kept(shown: Tensor) -> bool:
        p = j.classifier.probabilities(torch.where(shown, x, gray).view(1, 3, SIZE, SIZE))[0]
        if keeps == "label":
            return int(p.argmax()) == a
        return float(p[a]) >= (level * f if keeps == "share" else level)

    f = float(j.classifier.probabilities(j.images[i : i + 1])[0, a])
    whole = kept(torch.ones(SIZE * SIZE, dtype=torch.bool))
    for s in range(SIZE * SIZE + 1):
        top = torch.zeros(SIZE * SIZE, dtype=torch.bool)
        top[order[:s]] = True
        if whole and kept(top):
            return s / (SIZE * SIZE)
    return math.nan


@pytest.mark.parametrize("keeps, level", [("share", 0.9), ("value", 0.2), ("label", 0.9)])
def test_sizes_are_those_found_by_trying_every_one(keeps: str, level: float) -> None:
    j = judged()
    found = make_metric(f"sufficient-region:points=all,keeps={keeps},level={level}").pairs(j)
    assert found is not None and math.isnan(found[2, 1].item())
    for i, k in (LABELS >= 0).nonzero().tolist():
        expected = by_hand(j, i, k, keeps, level)
        assert found[i, k].item() == pytest.approx(expected, abs=1e-6, nan_ok=True)


def either(*groups: tuple[int, ...]) -> tuple[pm.Classifier, Tensor]:
    """A net that says yes where the pixels of one of these groups are all there: each group is a reason of its own."""

    class Either(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(40.0))

        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            whole = torch.stack([flat[:, list(group)].amin(dim=1) for group in groups], dim=1)
            yes = self.scale * (whole.amax(dim=1) - 0.5)
            return torch.stack([yes, -yes], dim=1)

    return pm.Classifier(Either(), size=3, mean=[0.0], std=[1.0]), torch.ones(1, 1, 3, 3)


def test_a_net_with_two_reasons_has_two_subsets() -> None:
    f, x = either((0, 1), (4, 5, 8))
    order = torch.tensor([4, 5, 2, 8, 0, 1, 3, 6, 7])  # the second reason first, with one position too many
    map_ = torch.zeros(9)
    map_[order] = torch.arange(9, 0, -1).float()
    j = Judged(Session(f), x, torch.tensor([[0]]), map_.view(1, 1, 3, 3))
    every = SufficientRegion(points="all")
    assert (every(j) * 9).round().item() == 4
    subsets = sufficient_subsets(j, every)
    shown = [set(mask.flatten().nonzero()[:, 0].tolist()) for mask in subsets]
    assert shown == [{4, 5, 2, 8}, {0, 1}]


def test_one_reason_gives_one_subset_and_most_is_a_limit() -> None:
    f, x = either((0, 1))
    map_ = torch.arange(9, 0, -1).float().view(1, 1, 3, 3)
    j = Judged(Session(f), x, torch.tensor([[0]]), map_)
    every = SufficientRegion(points="all")
    assert len(sufficient_subsets(j, every)) == 1
    both, _ = either((0, 1), (2, 3), (4, 5))
    j = Judged(Session(both), x, torch.tensor([[0]]), map_)
    assert len(sufficient_subsets(j, every)) == 3 and len(sufficient_subsets(j, every, most=2)) == 2


def test_a_label_that_the_fill_alone_keeps_needs_no_position() -> None:
    f = pm.Classifier(Linear(torch.zeros(2, 9), torch.tensor([1.0, -1.0])), size=3, mean=[0.0], std=[1.0])
    j = Judged(Session(f), torch.ones(1, 1, 3, 3), torch.tensor([[0]]), normal(1, 1, 3, 3))
    assert make_metric("sufficient-region")(j).item() == 0.0
    assert make_metric("sufficient-region:keeps=value,level=0.99")(j).isnan().all()
