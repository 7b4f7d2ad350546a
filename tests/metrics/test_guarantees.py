"""Guarantees: certificates against enumeration, SciPy and simulation."""

from __future__ import annotations

import itertools
import math

import pytest
import scipy
import torch
from torch import Tensor, nn

from proofmap import Classifier, evaluate
from proofmap.core import streams
from proofmap.methods import make_method
from proofmap.metrics import (
    CertifiedPixels,
    ConformalBound,
    ConformalCoverage,
    Judged,
    ProofSize,
    RunValues,
    SoftStability,
)
from proofmap.metrics.guarantees.conformal import bound
from proofmap.metrics.guarantees.stability import added_cells, least_count
from proofmap.testing.nets import conv_classifier, normal, pixels


def linear(weight: Tensor, *, size: tuple[int, int]) -> Classifier:
    """Two labels whose logits are linear in gray pictures: label 0 has the weights, label 1 nothing."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(weight.numel(), 2, bias=False))
    with torch.no_grad():
        net[1].weight.copy_(torch.stack([weight.flatten(), torch.zeros(weight.numel())]))
    return Classifier(net, size=size, mean=(0.0,), std=(1.0,))


# ---- soft stability ----------------------------------------------------------------------------------------------


def test_150_draws_are_what_eps_and_delta_of_a_tenth_take() -> None:
    assert SoftStability().samples == math.floor(math.log(20) / 0.02) + 1 == 150
    assert "within 0.1 of the truth with probability 0.9" in str(SoftStability().record({})["certificate"])


def test_sets_are_drawn_evenly_from_all_that_add_at_most_r_cells() -> None:
    shown = torch.tensor([True, False, False, True, False, False])
    keys = torch.tensor([streams.key_of("even", k) for k in range(6000)])
    drawn = added_cells(shown.expand(6000, -1), 2, keys)
    hidden = [1, 2, 4, 5]
    sets = [c for k in range(3) for c in itertools.combinations(hidden, k)]
    counts = dict.fromkeys(sets, 0)
    for row in drawn.tolist():
        counts[tuple(i for i in hidden if row[i])] += 1
        assert row[0] and row[3], "what was shown stays"
    expected = 6000 / len(sets)
    chi2 = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi2 < 30, counts  # 10 degrees of freedom: p < .001


def test_stability_is_within_eps_of_the_enumerated_truth() -> None:
    """One pixel a cell; all supersets can be listed for a net of nine pixels."""
    weight = torch.tensor([[2.0, -3.0, 1.0], [-2.0, 1.5, -1.0], [0.5, -0.5, 1.0]])
    f, x = linear(weight, size=(3, 3)), torch.ones(1, 1, 3, 3)
    heat = weight[None, None]
    metric = SoftStability(share=3 / 9, radius=3, cells=9, eps=0.05, delta=0.01)
    found = float(metric(Judged(f, x, torch.tensor([[0]]), heat)))
    top = set(weight.flatten().argsort(descending=True)[:3].tolist())
    rest = [i for i in range(9) if i not in top]
    sets = [set(c) | top for k in range(4) for c in itertools.combinations(rest, k)]
    flat = weight.flatten()
    said = [sum(float(flat[i]) for i in s) > 0 for s in sets]
    truth = sum(said) / len(said)
    assert 0.2 < truth < 0.95
    assert abs(found - truth) <= 0.05


# ---- the size of proofs ------------------------------------------------------------------------------------------


def test_the_size_of_a_proof_is_that_of_a_plain_loop() -> None:
    f, x = conv_classifier(), pixels(5, 8)
    labels = f.top(x, 2)
    heat = normal(5, 2, 8, 8)
    found = ProofSize(points=16).pairs(Judged(f, x, labels, heat))
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


# ---- conformal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("higher", [False, True])
def test_the_bound_covers_the_next_value_as_often_as_promised(higher: bool) -> None:
    """Simulated: 2,000 calibration sets of 39 values, each with one more; the coverage is exactly 38 / 40."""
    values = normal(2000, 40, seed=3)
    inside = 0
    for row in values:
        limit = bound(row[:39], 0.95, higher)
        inside += bool(row[39] >= limit) if higher else bool(row[39] <= limit)
    assert abs(inside / 2000 - 0.95) < 0.015


def test_too_few_images_promise_nothing() -> None:
    assert math.isnan(bound(torch.rand(18), 0.95, False))
    assert bound(torch.arange(19.0), 0.95, False) == 18.0
    assert math.isnan(bound(torch.rand(0), 0.5, True))


def test_a_holdout_keeps_to_the_bound_of_the_other_half() -> None:
    run = RunValues({"a": {"proof-size": normal(200, seed=1).sigmoid()}}, {"proof-size": False})
    (limit,), (coverage,) = ConformalBound().over_run(run), ConformalCoverage().over_run(run)
    assert limit.subject == "proof-size of a at 0.95" and limit.n == 200
    assert limit.value == sorted(run.values["a"]["proof-size"].tolist())[190]
    assert 0.93 < coverage.value < 0.98
    few = RunValues({"a": {"proof-size": torch.rand(30)}}, {"proof-size": False})
    assert math.isnan(ConformalCoverage().over_run(few)[0].value)


def test_tables_say_what_is_promised() -> None:
    f, x = conv_classifier(), pixels(20, 8)
    metrics = ["proof-size:points=4", "soft-stability:eps=0.5,cells=9", "conformal-bound"]
    table = evaluate(f, x, methods=["random"], labels="top2", metrics=metrics).table()
    assert "soft-stability: within 0.5 of the truth with probability 0.9" in table
    assert "conformal-bound: proof-size of random at 0.95" in table


# ---- certified pixels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n, tau, alpha", [(100, 0.75, 2e-8), (50, 0.6, 0.01), (10, 0.9, 0.5), (6, 0.75, 1e-4)]
)
def test_the_count_that_certifies_is_scipys(n: int, tau: float, alpha: float) -> None:
    expected = next((c for c in range(n + 1) if scipy.stats.binom.sf(c - 1, n, tau) <= alpha), n + 1)
    assert least_count(n, tau, alpha) == expected


def test_pixels_that_noise_cannot_turn_are_certified_and_others_abstain() -> None:
    """Maps are the pixels themselves: half are far apart, half equal, which noise orders by chance."""

    def brightness(f: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        return images[:, :1].expand(-1, labels.shape[1], -1, -1)

    f = linear(torch.ones(4, 4), size=(4, 4))
    x = torch.full((1, 1, 4, 4), 0.5)
    x[..., 0, :2], x[..., 3, :] = 0.95, 0.05
    labels = torch.tensor([[0, 1]])
    ready = make_method(brightness).prepare(f)
    metric = CertifiedPixels(samples=60, sigma=0.05, share=6 / 16, alpha=0.01)
    found = metric.certified(Judged(f, x, labels, ready(x, labels), method=ready))[0, 0]
    assert found[0, :2].tolist() == [1, 1]
    assert found[3].tolist() == [-1] * 4
    middle = found[1:3].flatten().tolist()
    assert middle.count(0) >= 6, "four of ten equal pixels are shown, now these, now those"
    values = metric(Judged(f, x, labels, ready(x, labels), method=ready))
    assert float(values) == pytest.approx(float((found != 0).float().mean()))


def test_a_map_that_does_not_look_at_the_input_is_certified_everywhere() -> None:
    f, x, labels = conv_classifier(), pixels(1, 8), torch.tensor([[0]])
    ready = make_method("centered-gaussian").prepare(f)
    metric = CertifiedPixels(samples=60, alpha=0.1)
    assert float(metric(Judged(f, x, labels, ready(x, labels), method=ready))) == 1.0
    assert "l2 radius 0.101" in str(metric.record({})["certificate"])
