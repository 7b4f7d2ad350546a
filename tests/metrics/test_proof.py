"""Completeness, soundness, worst case and best effort: the paper's numbers, the edges, and what always holds."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
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

NAN = math.nan
probabilities = st.floats(0, 1, width=32)


def alpha(auc: float, f: float, e1: float = 0.0) -> float:
    return completeness(torch.tensor(auc), torch.tensor(f), e1).item()


def beta(auc: float, f: float, e2: float = 0.0) -> float:
    return soundness(torch.tensor(auc), torch.tensor(f), e2).item()


def digits(values: Tensor, n: int) -> list[float]:
    return [round(v, n) for v in values.tolist()]


# ---- the paper's photo of a desk with a desktop computer (its section 3.3) -----------------------------------

F = torch.tensor([0.67, 0.13]).expand(3, 2)
AUC = torch.tensor([[0.65, 0.15], [0.70, 0.29], [0.43, 0.075]])
"""Three methods by the labels desk and desktop computer; .075 is what the printed completeness .58 stands for."""


def test_the_desk_completeness() -> None:
    scores = completeness(AUC, F)
    assert digits(scores[:, 0], 2) == [0.97, 1.0, 0.64]
    assert digits(scores[:, 1], 2) == [1.0, 1.0, 0.58]
    assert digits(worst_case(scores), 2) == [0.97, 1.0, 0.58]


def test_the_desk_soundness() -> None:
    """The paper prints .95 for .957, .44 for .448, and .89 for 0.13 / 0.15 = .867."""
    scores = soundness(AUC, F)
    assert digits(scores[:, 0], 3) == [1.0, 0.957, 1.0]
    assert digits(scores[:, 1], 3) == [0.867, 0.448, 1.0]
    assert digits(worst_case(scores), 3) == [0.867, 0.448, 1.0]


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


@given(auc=probabilities, f=probabilities, e=st.floats(0, 0.5))
def test_scores_are_shares_and_one_of_the_two_is_always_perfect(auc: float, f: float, e: float) -> None:
    a, b = alpha(auc, f, e), beta(auc, f, e)
    assert 0 <= a <= 1 and 0 <= b <= 1
    assert max(a, b) == 1  # a proof is too weak or too strong, never both


@given(auc=probabilities, f=probabilities, e1=st.floats(0, 0.5), e2=st.floats(0, 0.5))
def test_scores_are_their_formulas(auc: float, f: float, e1: float, e2: float) -> None:
    expected = min(max(auc, e1) / f, 1) if f > 0 else 1
    assert alpha(auc, f, e1) == pytest.approx(expected, rel=1e-5)
    expected = min(max(f, e2) / auc, 1) if auc > 0 else 1
    assert beta(auc, f, e2) == pytest.approx(expected, rel=1e-5)


@given(low=probabilities, high=probabilities, f=probabilities, e=st.floats(0, 0.5))
def test_a_stronger_proof_is_never_less_complete_nor_more_sound(
    low: float, high: float, f: float, e: float
) -> None:
    low, high = sorted((low, high))
    assert alpha(low, f, e) <= alpha(high, f, e)
    assert beta(low, f, e) >= beta(high, f, e)


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
    e1=st.floats(0, 0.009999999776482582, width=32),
)
def test_up_to_e1_of_a_hundredth_both_rules_of_best_effort_are_the_same(
    f: list[float], auc: list[float], e1: float
) -> None:
    f = sorted(f, reverse=True)
    believed, paper = (effort(auc[: len(f)], f, e1=e1, counted=rule) for rule in get_args(Counted))
    assert believed == paper or (math.isnan(believed) and math.isnan(paper))


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
