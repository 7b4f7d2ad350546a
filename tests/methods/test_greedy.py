"""Greedy insertion against a plain loop, and at the game that it optimises."""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.methods.perturbation.additive import GreedyInsertion, Shapley
from proofmap.methods.perturbation.regions import cut
from tests.toys import conv_classifier, linear_classifier, pixels

SIZE = 6
LABELS = torch.tensor([[0, 2, 1], [1, 3, 0]])


def greedy_order(f: Classifier, image: Tensor, index: Tensor, count: int, label: int) -> list[int]:
    shown: list[int] = []
    while len(shown) < count:
        best, value = -1, -1.0
        for region in sorted(set(range(count)) - set(shown)):
            keep = torch.isin(index, torch.tensor([*shown, region]))
            x = torch.where(keep, image, f.gray.view(3, 1, 1))
            found = float(f.probabilities(x[None])[0, label])
            best, value = (region, found) if found > value else (best, value)
        shown.append(best)
    return shown


def test_it_is_the_order_of_a_plain_search() -> None:
    f, images = conv_classifier(SIZE), pixels(2, SIZE)
    maps = GreedyInsertion(regions=6)(f, images, LABELS)
    regions = cut(images, f.inputs, 6, "slic", 10.0)
    for i in range(2):
        for j in range(3):
            order = greedy_order(f, images[i], regions.index[i], regions.count, int(LABELS[i, j]))
            for place, region in enumerate(order):
                values = maps[i, j][regions.index[i] == region]
                assert (values == 1 - place / regions.count).all()


def test_on_a_linear_net_it_is_the_order_of_what_regions_add() -> None:
    """Of the two labels' difference of logits, since the others gain what one loses."""
    f, images = linear_classifier(SIZE, 2), pixels(1, SIZE)
    labels = torch.tensor([[0, 1]])
    maps = GreedyInsertion(regions=9, superpixels="grid")(f, images, labels)[0]
    added = Shapley(orders=1, regions=9, superpixels="grid", quantity="logit")(f, images, labels)[0]
    ranks = (added[0] - added[1]).flatten().argsort(stable=True)
    assert (maps[0].flatten()[ranks].diff() >= 0).all() and (maps[1].flatten()[ranks].diff() <= 0).all()


def test_one_candidate_at_a_time_still_orders_all_regions() -> None:
    f, labels = conv_classifier(SIZE), torch.tensor([[0, 1, 2, 3]])
    maps = GreedyInsertion(regions=4, superpixels="grid", candidates=1)(f, pixels(1, SIZE), labels)[0]
    assert all(map_.unique().tolist() == [0.25, 0.5, 0.75, 1.0] for map_ in maps)


def test_a_label_that_is_impossible_until_late_still_gets_an_order_of_all_regions() -> None:
    def corner(x: Tensor) -> Tensor:
        seen = (x[:, 0, -1, -1] > 0.5).float()
        return torch.stack([seen, 1 - seen], dim=1)

    f, images = Classifier(corner, size=SIZE, outputs="probabilities"), torch.ones(1, 3, SIZE, SIZE)
    maps = GreedyInsertion(regions=4, superpixels="grid")(f, images, torch.tensor([[0, 1]]))[0]
    assert maps[0, -1, -1] == 1 and maps[1, -1, -1] == 0.25
    assert all(map_.unique().tolist() == [0.25, 0.5, 0.75, 1.0] for map_ in maps)
