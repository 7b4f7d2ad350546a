"""How ragged what a map shows is, against a count by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.core.inputs import Rows
from proofmap.metrics import Judged, make_game, make_metric
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


# ---- what is left if a map is blurred ----------------------------------------------------------------------------


def blurred_by_hand(map_: torch.Tensor, sigma: float) -> list[int]:
    """The positions of a map in the order of its blurred ranks, best first."""
    height, width = map_.shape
    best_first = sorted(range(height * width), key=lambda i: -map_.flatten()[i].item())
    places = {position: place for place, position in enumerate(best_first)}
    radius = math.ceil(4 * sigma)
    window = [(di, dj) for di in range(-radius, radius + 1) for dj in range(-radius, radius + 1)]

    def blurred(i: int, j: int) -> float:
        total = 0.0
        for di, dj in window:
            row, column = min(max(i + di, 0), height - 1), min(max(j + dj, 0), width - 1)
            total += math.exp(-(di * di + dj * dj) / (2 * sigma**2)) * places[row * width + column]
        return total

    return sorted(range(height * width), key=lambda i: blurred(*divmod(i, width)))


def area_by_hand(f: pm.Classifier, image: torch.Tensor, order: list[int], label: int) -> float:
    seen = [f.gray.view(3, 1, 1).expand_as(image).clone()]
    for position in order:
        row, column = divmod(position, image.shape[-1])
        seen.append(seen[-1].clone())
        seen[-1][:, row, column] = image[:, row, column]
    return f.probabilities(torch.stack(seen[1:]))[:, label].mean().item()


def test_what_survives_a_blur_is_the_worst_score_with_a_blurred_map_over_that_with_the_map() -> None:
    f = pm.Classifier(drawn(nn.Sequential(nn.Flatten(), nn.Linear(108, 3))), size=6)
    images, labels, maps = torch.rand(2, 3, 6, 6), torch.tensor([[0, 1], [2, 0]]), normal(2, 2, 6, 6, seed=4)
    values = survival(f, images, labels, maps, blur=0.7)
    assert min(values) < 0.95
    for image, own, ms, value in zip(images, labels.tolist(), maps, values, strict=True):
        p = f.probabilities(image[None])[0]
        worst = []
        for orders in (
            [m.flatten().argsort(descending=True).tolist() for m in ms],
            [blurred_by_hand(m, 0.7) for m in ms],
        ):
            areas = [area_by_hand(f, image, order, a) for order, a in zip(orders, own, strict=True)]
            worst.append(
                min(min(area / p[a].item(), p[a].item() / area) for area, a in zip(areas, own, strict=True))
            )
        assert value == pytest.approx(min(worst[1] / worst[0], 1), rel=1e-4)


def survival(
    f: pm.Classifier, images: torch.Tensor, labels: torch.Tensor, maps: torch.Tensor, **settings: float
) -> list[float]:
    metric = make_metric({"metric": "blur-survival", "points": "all", "e1": 0, "e2": 0, **settings})
    found: list[float] = metric(Judged(Session(f), images, labels, maps)).tolist()
    return found


def test_a_smooth_order_survives_a_blur() -> None:
    f = pm.Classifier(drawn(nn.Sequential(nn.Flatten(), nn.Linear(432, 2))), size=12)
    images, labels = torch.rand(1, 3, 12, 12), torch.tensor([[0]])
    assert survival(f, images, labels, torch.arange(144.0).view(1, 1, 12, 12))[0] > 0.98


def test_a_cell_is_a_part_of_the_longest_side_and_at_least_one_position() -> None:
    game, keys = make_game("blurred-insertion"), torch.zeros(1, dtype=torch.long)
    for shape, sigma in (((6, 7), 0.5), ((5, 112), 1.0)):
        map_ = normal(*shape, seed=2)
        order = game.order(map_[None], keys)[0].argsort().tolist()
        assert order == blurred_by_hand(map_, sigma)


def test_rows_have_no_neighbours_to_blur() -> None:
    rows = torch.rand(2, 4)
    net = pm.Classifier(drawn(nn.Linear(4, 2)), inputs=Rows(columns=4, mean=(0.5,) * 4, std=(0.3,) * 4))
    with pytest.raises(pm.InputError, match=r"blurred-insertion needs neighbours.*rows have none"):
        pm.evaluate(net, rows, methods=["random"], metrics=["blur-survival"])
