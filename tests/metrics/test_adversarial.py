"""Adversarial soundness: strong proofs of wrong labels are found, within the stated passes, and never count for less."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from proofmap import Classifier
from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.methods.controls import Random
from proofmap.metrics import Insertion, Judged
from proofmap.metrics.adversarial import AdversarialSoundness
from proofmap.metrics.proof_scores import Soundness
from proofmap.session import Session
from tests.sessions import bound
from tests.toys import conv_classifier, counted_classifier, pixels

SMALL = {"points": 8, "passes": 60}


def judged(f: Classifier, labels: torch.Tensor, *, method: str = "random") -> Judged:
    x = pixels(len(labels), f.inputs.positions)
    ready = bound(make_method(method), f)
    return Judged(Session(f), x, labels, ready(x, labels), method=ready)


def two_patches() -> Classifier:
    """Label 0 is proved by the left half's brightness, label 1 by the right half's, and label 0 more."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2))
    weight = torch.zeros(2, 3, 8, 8)
    weight[0, :, :, :4], weight[1, :, :, 4:] = 0.12, 0.1
    with torch.no_grad():
        net[1].weight.copy_(weight.flatten(1))
        net[1].bias.zero_()
    return Classifier(net, size=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


@pytest.mark.parametrize("search", ["greedy", "mask"])
def test_a_strong_proof_of_the_wrong_label_is_found(search: str) -> None:
    """On black, the right half alone proves label 1: its best order is known, and its area is nearly reached."""
    f = two_patches()
    x = torch.full((1, 3, 8, 8), 0.9)
    labels = torch.tensor([[0, 1]])
    flat = torch.zeros(1, 2, 8, 8)
    j = Judged(Session(f), x, labels, flat, method=bound(Random(), f))
    best = torch.zeros(1, 2, 8, 8)
    best[:, 0, :, :4] = best[:, 1, :, 4:] = 1.0
    ideal = Insertion(points=8).pairs(Judged(Session(f), x, labels, best))[0, 1]
    metric = AdversarialSoundness(points=8, passes=120, search=search)
    assert metric.strongest(j)[0, 1] > 0.9 * ideal
    value, plain = metric(j)[0], Soundness(points=8).pairs(j)[0, 1]
    assert value < 0.6 and value < plain - 0.1


def test_it_is_never_above_soundness_over_the_wrong_labels_and_leaves_the_top_label_out() -> None:
    f = conv_classifier()
    labels = torch.tensor([[0, 1, 2, 3]] * 3)
    j = judged(f, labels)
    metric = AdversarialSoundness(**SMALL, search="greedy")
    own, pairs = Soundness(points=8).pairs(j), metric.pairs(j)
    top = labels == j.top2[0][:, :1]
    assert torch.equal(pairs.isnan(), top)
    assert bool((pairs <= own + 1e-6)[~top].all())
    assert torch.equal(metric(j), pairs.nan_to_num(nan=2.0).amin(dim=1))


def test_searches_keep_to_the_passes_and_are_made_once_for_all_methods() -> None:
    f, tally = counted_classifier()
    labels = torch.tensor([[0, 1, 2]])
    metric = AdversarialSoundness(**SMALL)
    first, second = judged(f, labels), judged(f, labels, method="gradient-x-input")
    second.session = first.session  # as those that are judged together have it
    tally.reset()
    metric(first)
    searched = tally.images
    assert searched <= metric.cost(3, None).passes + 3 * 8 + 3
    tally.reset()
    metric(second)
    assert tally.images < searched / 4, "only the curves of the other method's own maps are new"


def test_a_search_that_cannot_be_paid_says_what_to_do() -> None:
    from proofmap.core.inputs import Rows

    rows = Rows(columns=100, mean=(0.0,) * 100, std=(1.0,) * 100)
    with pytest.raises(InputError, match="raise passes or use search=mask"):
        AdversarialSoundness(passes=20).searches(rows)
