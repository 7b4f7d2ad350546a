"""What must not change a measure: another scale of the map, a mirror; and what must not raise a worst case: more labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.inputs import Box
from proofmap.metrics import Judged, make_metric
from proofmap.session import Session
from tests.toys import MEAN, STD, conv_net, normal, pixels

SIZE, N = 8, 3
LABELS = torch.tensor([[0, 1], [2, 3], [1, 0]])
OBJECTS: list[dict[int, list[Box]]] = [
    {0: [(0, 0, 3, 8)], 1: [(4, 0, 8, 5)]},
    {2: [(2, 2, 6, 6)], 3: [(6, 6, 8, 8)]},
    {1: [(1, 0, 5, 3)], 0: [(5, 5, 8, 8)]},
]
BY_RANK = (
    "morf:points=4",
    "lerf:points=4",
    "srg:points=4",
    "average-drop:share=0.3",
    "sufficient-region:points=4",
    "soundness:points=4,base=lerf,target=rival",
    "two-objects",
    "pointing-game:tolerance=0",
)
BY_SCALED_VALUE = ("average-drop", "increase-in-confidence", "saliency-metric", "box-iou")


def judged(maps: Tensor, *, images: Tensor | None = None, **options: Any) -> Judged:
    f = pm.Classifier(conv_net(), size=SIZE, mean=MEAN, std=STD)
    x = pixels(N, SIZE) if images is None else images
    return Judged(Session(f), x, LABELS, maps, **{"objects": OBJECTS, **options})


def maps() -> Tensor:
    return normal(N, 2, SIZE, SIZE, seed=4)


@pytest.mark.parametrize("spec", BY_RANK)
def test_measures_of_order_do_not_see_another_scale(spec: str) -> None:
    metric = make_metric(spec)
    torch.testing.assert_close(
        metric(judged(maps())), metric(judged(5 * maps().exp() - 3)), equal_nan=True, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("spec", BY_SCALED_VALUE)
def test_measures_of_values_do_not_see_where_they_begin_and_end(spec: str) -> None:
    metric = make_metric(spec)
    torch.testing.assert_close(
        metric(judged(maps())), metric(judged(4 * maps() + 8)), equal_nan=True, rtol=1e-3, atol=1e-4
    )


class Mirrored(nn.Module):
    """The net behind a mirror."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x.flip(-1))
        return out


@pytest.mark.parametrize("spec", [*BY_RANK, *BY_SCALED_VALUE, "energy-inside", "saliency-area"])
def test_a_mirror_changes_nothing(spec: str) -> None:
    metric, plain = make_metric(spec), judged(maps())
    mirrored = judged(
        maps().flip(-1),
        images=pixels(N, SIZE).flip(-1),
        objects=[
            {a: [(SIZE - r, t, SIZE - left, b) for left, t, r, b in boxes] for a, boxes in known.items()}
            for known in OBJECTS
        ],
    )
    mirrored.session = Session(pm.Classifier(Mirrored(conv_net()), size=SIZE, mean=MEAN, std=STD))
    torch.testing.assert_close(metric(mirrored), metric(plain), equal_nan=True, rtol=1e-3, atol=1e-4)
