"""How ragged what a map shows is, against a count by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.metrics import Judged, make_metric
from proofmap.metrics.roughness import Roughness
from proofmap.session import Session
from tests.toys import drawn, normal


def by_hand(shown: torch.Tensor) -> float:
    height, width = shown.shape
    border = sum(
        bool(shown[i, j]) != bool(shown[k, m])
        for i in range(height)
        for j in range(width)
        for k, m in ((i + 1, j), (i, j + 1))
        if k < height and m < width
    )
    return border / (4 * math.sqrt(int(shown.sum())))


def test_it_is_the_border_counted_by_hand() -> None:
    shown = normal(6, 7, 9, seed=3) > 0.4
    assert Roughness.of_masks(shown).tolist() == pytest.approx([by_hand(mask) for mask in shown])


def test_squares_and_checkerboards_of_any_size() -> None:
    for side in (2, 4, 8):
        square = torch.zeros(1, 20, 20, dtype=torch.bool)
        square[0, 3 : 3 + side, 5 : 5 + side] = True
        assert Roughness.of_masks(square).item() == pytest.approx(1.0)
    board = (torch.arange(20)[:, None] + torch.arange(20)) % 2 == 0
    assert Roughness.of_masks(board[None]).item() == pytest.approx(2 * 20 * 19 / (4 * math.sqrt(200)))


def test_in_one_dimension_it_counts_pieces() -> None:
    line = torch.tensor([[0, 1, 1, 0, 0, 1, 0, 0]], dtype=torch.bool)
    assert Roughness.of_masks(line).item() == 2.0


def test_the_metric_is_the_mean_over_labels_of_the_top_share() -> None:
    f = pm.Classifier(drawn(nn.Sequential(nn.Flatten(), nn.Linear(300, 3))), size=10)
    images, labels = torch.rand(2, 3, 10, 10), torch.tensor([[0, 1], [2, -1]])
    maps = normal(2, 2, 10, 10, seed=4)
    judged = Judged(session=Session(f), images=images, labels=labels, maps=maps)
    metric = make_metric("roughness:share=0.3")
    values = metric.pairs(judged)
    assert values is not None and bool(values[1, 1].isnan())
    top = maps[0, 1] >= maps[0, 1].flatten().sort(descending=True).values[29]
    assert values[0, 1].item() == pytest.approx(by_hand(top))
    assert metric(judged).tolist() == pytest.approx([values[0].mean().item(), values[1, 0].item()])
    assert not metric.higher_is_better
