"""Completeness, soundness, worst case and best effort: the paper's numbers, the edges, and what metrics make of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.metrics import Judged
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness
from proofmap.metrics.scores import (
    THRESHOLDS,
    Counted,
    Thresholds,
    best_effort,
    completeness,
    soundness,
    thresholds,
    worst_case,
)
from proofmap.session import Session
from tests.toys import Linear, linear_classifier, normal, pixels

NAN = math.nan
probabilities = st.floats(0, 1, width=32)


def alpha(auc: float, f: float, e1: float = 0.0) -> float:
    return completeness(torch.tensor(auc), torch.tensor(f), e1).item()


def beta(auc: float, f: float, e2: float = 0.0) -> float:
    return soundness(torch.tensor(auc), torch.tensor(f), e2).item()


# ---- the paper's photo of a desk with a desktop computer (its section 3.3) -----------------------------------


# ---- the edges ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "auc, f, e, complete, sound",
    [
        (0, 0, 0, 1, 1),  # nothing is believed, and nothing proved
        (0.4, 0, 0, 1, 0),  # an impossible label that is proved
        (0, 0.4, 0, 0, 1),
        (0, 0.01, 0.01, 1, 1),  # e1 is a floor under the proof, not a filter
        (0, 0.0125, 0.01, 0.8, 1),
        (1, 0, 0.1, 1, 0.1),  # e2 is a floor under f
        (0.5, 0.05, 0.1, 1, 0.2),
    ],
)
def test_floors_and_zeros(auc: float, f: float, e: float, complete: float, sound: float) -> None:
    assert alpha(auc, f, e) == pytest.approx(complete) and beta(auc, f, e) == pytest.approx(sound)


@given(auc=probabilities, f=probabilities, e1=st.floats(0, 0.5), e2=st.floats(0, 0.5))
def test_scores_are_their_formulas(auc: float, f: float, e1: float, e2: float) -> None:
    expected = min(max(auc, e1) / f, 1) if f > 0 else 1
    assert alpha(auc, f, e1) == pytest.approx(expected, rel=1e-5)
    expected = min(max(f, e2) / auc, 1) if auc > 0 else 1
    assert beta(auc, f, e2) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("auc, f", [(NAN, 0.5), (0.5, NAN), (NAN, NAN), (NAN, 0.0), (0.0, NAN)])
def test_where_there_is_no_label_there_is_no_score(auc: float, f: float) -> None:
    assert math.isnan(alpha(auc, f, 0.1)) and math.isnan(beta(auc, f, 0.1))


# ---- thresholds --------------------------------------------------------------------------------------------


def test_the_published_thresholds() -> None:
    published = {
        "paper": (0.01, 0.001),
        "restricted": (0.01, 0.1),
        "appendix": (0, 0.1),
        "released": (0.1, 0.1),
    }
    assert {name: (t.e1, t.e2) for name, t in THRESHOLDS.items()} == published


def test_thresholds_are_read_from_names_numbers_and_text() -> None:
    given = Thresholds(0.02, 0.03)
    assert thresholds(given) is given
    assert thresholds("appendix") == thresholds("0,0.1") == thresholds((0.0, 0.1)) == Thresholds(0.0, 0.1)


@pytest.mark.parametrize("text", ["papers", "0.1", "0.1,0.1,0.1", "a,b", ""])
def test_thresholds_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match=r"neither a preset \(paper, restricted, appendix, released\)"):
        thresholds(text)


@pytest.mark.parametrize("pair", [(-0.1, 0.1), (0.1, 1.1), (NAN, 0.1)])
def test_thresholds_are_probabilities(pair: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"e[12] must lie between 0 and 1"):
        thresholds(pair)


# ---- worst case --------------------------------------------------------------------------------------------


def test_the_worst_case_passes_over_places_without_a_label() -> None:
    worst = worst_case(torch.tensor([[0.9, NAN, 0.5], [NAN, NAN, NAN]]))
    assert worst[0] == 0.5 and worst[1].isnan()


# ---- best effort -------------------------------------------------------------------------------------------


def effort(
    auc: list[float],
    f: list[float],
    *,
    top: int = 0,
    second: float | None = None,
    e1: float = 0.01,
    counted: Counted = "believed",
) -> float:
    """Best effort of one image with labels 0, 1, ...; the second label's f as in the list unless given."""
    labels = torch.tensor([[NO_LABEL if math.isnan(p) else a for a, p in enumerate(f)]])
    top2 = torch.tensor([[top, (top + 1) % len(f)]])
    second = sorted((p for p in f if not math.isnan(p)), reverse=True)[1] if second is None else second
    return best_effort(
        torch.tensor([auc]), torch.tensor([f]), labels, top2, torch.tensor([second]), e1, counted
    ).item()


@pytest.mark.parametrize(
    "auc, f, options, expected",
    [
        ([0.0, 0.2, 0.1], [0.7, 0.2, 0.1], {}, 1),  # the top label's own failure is not asked about
        ([0.1, 0.2, 0.0], [0.2, 0.2, 0.6], {"top": 2}, 0.5),
        ([0.6, 0.02], [0.6, 0.04], {"second": 0.3}, 0.5),  # the second label need not be explained
        ([0.6, NAN, 0.1], [0.6, NAN, 0.2], {}, 0.5),
        ([0.6], [0.6], {"second": 0.3}, NAN),  # no label was asked for
        ([0.6, NAN], [0.6, NAN], {"second": 0.3}, NAN),
        ([0.6, NAN], [0.6, 0.3], {}, NAN),  # nothing was measured
        ([0.9], [0.9], {"second": 0.05, "e1": 0.1, "counted": "paper"}, NAN),
    ],
)
def test_labels_that_best_effort_asks_for(
    auc: list[float], f: list[float], options: dict[str, Any], expected: float
) -> None:
    assert effort(auc, f, **options) == pytest.approx(expected, nan_ok=True)


@given(
    f=st.lists(probabilities, min_size=2, max_size=5),
    auc=st.lists(probabilities, min_size=5, max_size=5),
    second=probabilities,
    e1=st.floats(0, 0.25, width=32),
)
def test_the_papers_best_effort_is_its_definition(
    f: list[float], auc: list[float], second: float, e1: float
) -> None:
    found = effort(auc[: len(f)], f, second=second, e1=e1, counted="paper")
    if second >= torch.tensor(0.01):
        assert found == min(alpha(a, p, e1) for a, p in zip(auc[1:], f[1:], strict=False))
    else:
        assert math.isnan(found)


@given(
    f=st.lists(probabilities, min_size=2, max_size=5),
    auc=st.lists(probabilities, min_size=5, max_size=5),
    second=probabilities,
    e1=st.floats(0, 0.25, width=32),
)
def test_best_effort_is_its_definition(f: list[float], auc: list[float], second: float, e1: float) -> None:
    asked = [alpha(a, p, e1) for a, p in zip(auc[1:], f[1:], strict=False) if p >= e1]
    found = effort(auc[: len(f)], f, second=second, e1=e1)
    if asked and second >= torch.tensor(0.01):
        assert found == min(asked)
    else:
        assert math.isnan(found)


# ---- what metrics make of them -------------------------------------------------------------------------------


N, LABELS, SIZE = 4, 3, 4


def judged(f: Classifier | None = None, *, labels: Tensor | None = None, seed: int = 0) -> Judged:
    f = f or linear_classifier(SIZE, LABELS, strength=0.4)
    labels = torch.arange(LABELS).expand(N, -1) if labels is None else labels
    return Judged(Session(f, seed=seed), pixels(N, SIZE), labels, normal(*labels.shape, SIZE, SIZE, seed=3))


# ---- what each metric says ---------------------------------------------------------------------------------


# ---- best effort and cheating ------------------------------------------------------------------------------


def two_objects() -> tuple[Classifier, Tensor]:
    """Two labels, each shown by its own half of the picture, the first more strongly; a third shown by neither."""
    weight = torch.zeros(3, 4, 4)
    weight[0, :, :2], weight[1, :, 2:], weight[2] = 0.55, 0.5, -0.3
    f = Classifier(Linear(weight.flatten(1)), size=4, mean=[0.0], std=[1.0])
    return f, torch.ones(1, 1, 4, 4)


def test_the_top_labels_map_for_every_label_lacks_effort() -> None:
    f, x = two_objects()
    labels = torch.tensor([[0, 1]])
    left, right = torch.zeros(2, 4, 4)
    left[:, :2], right[:, 2:] = 1, 1
    honest = Judged(Session(f), x, labels, torch.stack([left, right])[None])
    cheating = Judged(Session(f), x, labels, torch.stack([left, left])[None])
    assert honest.top2[0].tolist() == [[0, 1]] and honest.top2[1][0, 1] > 0.3
    effort = BestEffort()
    assert effort(honest).item() == 1
    assert effort(cheating).item() < 0.5
    assert Soundness()(cheating).item() > Soundness()(honest).item()  # what cheating buys


def test_best_effort_reads_the_top_label_from_the_net_not_from_the_list() -> None:
    f, x = two_objects()
    left, right = torch.zeros(2, 4, 4)
    left[:, :2], right[:, 2:] = 1, 1
    turned = Judged(Session(f), x, torch.tensor([[1, 0]]), torch.stack([right, left])[None])
    only_second = Judged(Session(f), x, torch.tensor([[1]]), right[None, None])
    assert BestEffort()(turned).item() == BestEffort()(only_second).item() == 1
    assert BestEffort()(Judged(Session(f), x, torch.tensor([[0]]), left[None, None])).isnan().all()


def test_a_confident_image_is_not_asked_for_effort() -> None:
    f = Classifier(Linear(torch.tensor([[6.0] * 4, [0.0] * 4])), size=2, mean=[0.0], std=[1.0])
    j = Judged(Session(f), torch.ones(1, 1, 2, 2), torch.tensor([[0, 1]]), torch.rand(1, 2, 2, 2))
    assert j.top2[1][0, 1] < 0.01
    assert BestEffort()(j).isnan().all()


def test_the_second_label_is_sought_inside_the_label_set() -> None:
    f = linear_classifier(SIZE, 5, label_set=[1, 3, 4])
    labels, p = judged(f, labels=torch.tensor([[1, 3, 4]] * N)).top2
    inside = f.probabilities(pixels(N, SIZE))[:, [1, 3, 4]].sort(dim=1, descending=True)
    assert torch.equal(p, inside.values[:, :2])
    assert torch.equal(labels, torch.tensor([1, 3, 4])[inside.indices[:, :2]])


def test_a_label_set_of_one_has_no_second_label() -> None:
    j = judged(linear_classifier(SIZE, 3, label_set=[2], renormalise=False), labels=torch.tensor([[2]] * N))
    assert j.top2[0].tolist() == [[2, 2]] * N and j.top2[1][:, 1].tolist() == [0.0] * N
    assert BestEffort()(j).isnan().all()
    assert Completeness()(j).isfinite().all()


# ---- each game is played once ------------------------------------------------------------------------------


# ---- what scores carry -------------------------------------------------------------------------------------
