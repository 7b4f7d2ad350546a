"""Other people's completeness and soundness, roughness, labels against labels: plain loops, Captum; and what must not change a measure."""

from __future__ import annotations

import importlib
import itertools
import math
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Rows
from proofmap.metrics import Judged, insertion, make_game, make_metric
from proofmap.metrics.other_definitions import (
    LiCompleteness,
    LiSoundness,
    MerlinArthurCompleteness,
    MerlinArthurSoundness,
    ProofSize,
    SumToLogit,
)
from proofmap.metrics.proof_scores import ClassSensitivity, Completeness, SecondSoundness, Soundness
from proofmap.metrics.roughness import Roughness
from proofmap.session import Session
from tests.toys import MEAN, STD, conv_classifier, conv_net, drawn, normal, pixels


def judged(heat: Tensor | None = None, labels: int = 3, **options: Tensor) -> Judged:
    f, x = conv_classifier(), pixels(3, 8)
    maps = normal(3, labels, 8, 8) if heat is None else heat
    return Judged(Session(f), x, f.top(x, labels), maps, **options)


def test_li_soundness_is_that_of_a_plain_loop() -> None:
    j = judged()
    found, gray = LiSoundness(points=8, threshold=0.002).pairs(j), j.classifier.blank(1)
    for i in range(3):
        for a in range(3):
            order = j.maps[i, a].flatten().argsort(descending=True, stable=True)
            values, label = j.maps[i, a].flatten().clamp_min(0), int(j.labels[i, a])
            false, shown_before, p_before, ratios = 0.0, 0.0, 0.0, []
            for count in range(8, 65, 8):
                keep = torch.zeros(64)
                keep[order[:count]] = 1
                mask = keep.view(1, 1, 8, 8)
                p = float(
                    j.classifier.probabilities(mask * j.images[i : i + 1] + (1 - mask) * gray)[0, label]
                )
                shown = float(values[order[:count]].sum())
                ratios.append((shown - false) / shown)
                if p - p_before <= 0.002:
                    false += shown - shown_before
                shown_before, p_before = shown, p
            assert float(found[i, a]) == pytest.approx(sum(ratios) / 8, abs=1e-4)


def test_li_soundness_of_a_map_without_attribution_says_nothing() -> None:
    assert bool(LiSoundness(points=4)(judged(-torch.ones(3, 3, 8, 8))).isnan().all())


def test_li_completeness_is_that_of_a_plain_loop_and_goes_by_value() -> None:
    j = judged()
    found, gray = LiCompleteness(levels=5).pairs(j), j.classifier.blank(1)
    for i in range(3):
        x, label = j.images[i : i + 1], int(j.labels[i, 1])
        lost = []
        for t in (0.2, 0.4, 0.6, 0.8):
            keep = (j.maps[i, 1] < t * j.maps[i, 1].max()).float()
            left = j.classifier.probabilities(keep * x + (1 - keep) * gray)[0, label]
            lost.append(float(j.classifier.probabilities(x)[0, label] - left))
        assert float(found[i, 1]) == pytest.approx(sum(lost) / 4, abs=1e-5)
    wide = LiCompleteness(levels=5)(judged((normal(3, 3, 8, 8) > 1).float() + 0.5))
    narrow = LiCompleteness(levels=5)(judged((normal(3, 3, 8, 8) > 1).float()))
    assert not torch.allclose(wide, narrow), "the same order, other values"
    assert bool((LiCompleteness()(judged(torch.zeros(3, 3, 8, 8))).abs() < 1e-6).all()), "nothing is marked"


def halves() -> tuple[Classifier, Tensor]:
    """Label 0 is the brightness of the left half, a little more than label 1, the right half's; label 2 is less than both."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    weight = torch.zeros(3, 4, 4)
    weight[0, :, :2], weight[1, :, 2:] = 1.1, 1.0
    with torch.no_grad():
        net[1].weight.copy_(weight.flatten(1))
        net[1].bias.copy_(torch.tensor([0.0, 0.0, -1.0]))
    return Classifier(net, size=4, mean=(0.0,), std=(1.0,)), torch.ones(1, 1, 4, 4)


def test_merlin_convinces_and_morgana_fools_where_they_can() -> None:
    f, x = halves()
    labels = torch.tensor([[0, 1, 2]])
    left, right = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)
    left[..., :2] = right[..., 2:] = 1.0
    honest = torch.stack([left, right, left], dim=1)
    same = torch.stack([left, left, left], dim=1)
    wrong = torch.stack([right, left, left], dim=1)

    def scores(maps: Tensor, **options: Tensor) -> tuple[float, float]:
        j = Judged(Session(f), x, labels, maps, **options)
        return float(MerlinArthurCompleteness(share=0.5)(j)), float(MerlinArthurSoundness(share=0.5)(j))

    assert scores(honest) == (1.0, 0.0), "the right half alone makes the net say label 1"
    assert scores(same) == (1.0, 1.0), "one map for all labels fools nobody"
    assert scores(wrong) == (0.0, 1.0)
    assert scores(honest, truth=torch.tensor([1])) == (1.0, 0.0), "the truth decides who is Merlin"
    assert scores(same, truth=torch.tensor([1])) == (0.0, 0.0)
    both = torch.tensor([[1, 0]])
    assert scores(honest, truth=both) == (1.0, 1.0), "both halves are right, so nobody is fooled"
    assert scores(same, truth=both) == (0.0, 1.0), "Merlin must convince of each true label"
    assert scores(same, truth=torch.tensor([[-1, -1]])) == scores(same), "nothing is known"


def test_gradient_times_input_adds_up_on_a_linear_net() -> None:
    f, x = halves()
    labels = torch.tensor([[0, 1]])
    weight = f.net[1].weight.detach().view(3, 4, 4)[:2]
    j = Judged(Session(f), x, labels, weight[None] * x)
    assert float(SumToLogit()(j)) < 1e-6
    doubled = Judged(Session(f), x, labels, 2 * weight[None] * x)
    assert float(SumToLogit()(doubled)) == pytest.approx(1.0)
    nothing = Judged(Session(f), x, torch.tensor([[2]]), weight[None, :1])
    assert bool(SumToLogit()(nothing).isnan().all()), "label 2 gains nothing"


def test_the_error_is_captums_convergence_delta(captum: ModuleType) -> None:
    attr = importlib.import_module("captum.attr")
    f, x = conv_classifier(), pixels(2, 8)
    labels = f.top(x, 1)
    blank = f.blank(2)
    maps, delta = attr.IntegratedGradients(f).attribute(
        x, blank, target=labels[:, 0], n_steps=8, return_convergence_delta=True
    )
    found = SumToLogit()(Judged(Session(f), x, labels, maps.detach().sum(dim=1, keepdim=True)))
    gained = (f.logits(x) - f.logits(blank)).gather(1, labels)[:, 0]
    torch.testing.assert_close(found, (delta.detach() / gained).abs().float(), atol=1e-4, rtol=1e-3)


def test_the_size_of_a_proof_is_that_of_a_plain_loop() -> None:
    f, x = conv_classifier(), pixels(5, 8)
    labels = f.top(x, 2)
    heat = normal(5, 2, 8, 8)
    found = ProofSize(points=16).pairs(Judged(Session(f), x, labels, heat))
    gray = f.blank(1)
    for i in range(5):
        order = heat[i, 0].flatten().argsort(descending=True)
        size = math.nan
        for count in [round(j * 64 / 16) for j in range(16, -1, -1)]:
            keep = torch.zeros(64)
            keep[order[:count]] = 1
            mask = keep.view(1, 1, 8, 8)
            if int(f.top(mask * x[i : i + 1] + (1 - mask) * gray, 1)) != int(labels[i, 0]):
                break
            size = count / 64
        assert found[i, 0] == pytest.approx(size)
    assert bool(found[:, 1].isnan().all()), "the second label is not the answer to the whole image"


# ---- roughness -----------------------------------------------------------------------------------------------


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
    return metric(Judged(Session(f), images, labels, maps)).tolist()


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


# ---- labels against labels -----------------------------------------------------------------------------------


def judged_labels(labels: int = 4, *, shared: bool = False) -> Judged:
    f, x = conv_classifier(), pixels(3, 8)
    heat = normal(3, labels, 8, 8)
    return Judged(Session(f), x, f.top(x, labels), heat[:, :1].expand_as(heat) if shared else heat)


def test_class_sensitivity_is_that_of_a_plain_loop() -> None:
    j = judged_labels(3)
    found = ClassSensitivity(points=8).pairs(j)
    for i in range(3):
        for a in range(3):
            areas = []
            for b in range(3):  # label a under the map of b
                one = insertion(
                    j.classifier,
                    j.images[i : i + 1],
                    j.maps[i : i + 1, b : b + 1],
                    j.labels[i : i + 1, a : a + 1],
                    points=8,
                )
                areas.append(float(one.auc))
            others = [area for b, area in enumerate(areas) if b != a]
            assert float(found[i, a]) == pytest.approx(areas[a] - sum(others) / 2, abs=1e-5)


def test_one_map_for_all_labels_is_not_sensitive_to_them_and_one_label_says_nothing() -> None:
    assert float(ClassSensitivity(points=8)(judged_labels(shared=True)).abs().max()) < 1e-6
    assert bool(ClassSensitivity(points=8)(judged_labels(1)).isnan().all())


def test_too_many_labels_for_the_matrix_are_refused() -> None:
    f, x = conv_classifier(8, 70), pixels(1, 8)
    j = Judged(Session(f), x, f.top(x, 70), normal(1, 70, 8, 8))
    with pytest.raises(InputError, match="judge fewer labels"):
        ClassSensitivity(points=2)(j)


def test_second_soundness_is_that_of_the_nets_second_label() -> None:
    j = judged_labels(4)
    turned = Judged(Session(j.classifier), j.images, j.labels.flip(1), j.maps.flip(1))
    expected = Soundness(points=8).pairs(j)[:, 1]  # labels go by their probability
    assert torch.equal(SecondSoundness(points=8)(j), expected)
    torch.testing.assert_close(SecondSoundness(points=8)(turned), expected)
    alone = Judged(Session(j.classifier), j.images, j.labels[:, :1], j.maps[:, :1])
    assert bool(SecondSoundness(points=8)(alone).isnan().all())


@pytest.mark.parametrize("kind", [Completeness, Soundness])
def test_more_labels_never_raise_a_worst_case(kind: type[Completeness] | type[Soundness]) -> None:
    j = judged_labels(4)
    values = [kind(points=8, top=k)(j) for k in (1, 2, 3, 4)] + [kind(points=8)(j)]
    for few, more in itertools.pairwise(values):
        assert bool((more <= few).all())
    assert torch.equal(values[3], values[4])
    pairs = kind(points=8).pairs(j)
    assert torch.equal(values[1], pairs[:, :2].amin(dim=1)), "the first two labels are the most probable ones"


# ---- the list of metrics -----------------------------------------------------------------------------------------


# ---- what must not change a measure --------------------------------------------------------------------------


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


def judged_objects(maps: Tensor, *, images: Tensor | None = None, **options: Any) -> Judged:
    f = pm.Classifier(conv_net(), size=SIZE, mean=MEAN, std=STD)
    x = pixels(N, SIZE) if images is None else images
    return Judged(Session(f), x, LABELS, maps, **{"objects": OBJECTS, **options})


def maps() -> Tensor:
    return normal(N, 2, SIZE, SIZE, seed=4)


@pytest.mark.parametrize("spec", BY_RANK)
def test_measures_of_order_do_not_see_another_scale(spec: str) -> None:
    metric = make_metric(spec)
    torch.testing.assert_close(
        metric(judged_objects(maps())),
        metric(judged_objects(5 * maps().exp() - 3)),
        equal_nan=True,
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("spec", BY_SCALED_VALUE)
def test_measures_of_values_do_not_see_where_they_begin_and_end(spec: str) -> None:
    metric = make_metric(spec)
    torch.testing.assert_close(
        metric(judged_objects(maps())),
        metric(judged_objects(4 * maps() + 8)),
        equal_nan=True,
        rtol=1e-3,
        atol=1e-4,
    )


class Mirrored(nn.Module):
    """The net behind a mirror."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.flip(-1))


@pytest.mark.parametrize("spec", [*BY_RANK, *BY_SCALED_VALUE, "energy-inside", "saliency-area"])
def test_a_mirror_changes_nothing(spec: str) -> None:
    metric, plain = make_metric(spec), judged_objects(maps())
    mirrored = judged_objects(
        maps().flip(-1),
        images=pixels(N, SIZE).flip(-1),
        objects=[
            {a: [(SIZE - r, t, SIZE - left, b) for left, t, r, b in boxes] for a, boxes in known.items()}
            for known in OBJECTS
        ],
    )
    mirrored.session = Session(pm.Classifier(Mirrored(conv_net()), size=SIZE, mean=MEAN, std=STD))
    torch.testing.assert_close(metric(mirrored), metric(plain), equal_nan=True, rtol=1e-3, atol=1e-4)
