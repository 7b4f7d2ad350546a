"""Other people's completeness and soundness: plain loops, a linear net, Captum."""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from proofmap import Classifier
from proofmap.metrics import Judged
from proofmap.metrics.other_definitions import (
    LiCompleteness,
    LiSoundness,
    MerlinArthurCompleteness,
    MerlinArthurSoundness,
    ProofSize,
    SumToLogit,
)
from proofmap.session import Session
from tests.toys import conv_classifier, normal, pixels


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
