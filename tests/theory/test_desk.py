"""The desk example gives the paper's numbers, up to the last digit of its rounded inputs."""

from __future__ import annotations

import pytest

from proofmap.theory.desk import DESK, Belief, Case

COMPLETE = {"desk": (0.97, 1.0, 0.64), "desktop computer": (1.0, 1.0, 0.58)}
SOUND = {"desk": (1.0, 0.95, 1.0), "desktop computer": (0.89, 0.44, 1.0)}
"""As printed in section 3.3, for its three methods."""
ROUNDING = 0.025
"""What inputs of two decimals allow: .13 / .15 may be anything from .806 to .931, and .89 is printed."""


@pytest.mark.parametrize("method", range(3))
@pytest.mark.parametrize("label", range(2), ids=list(COMPLETE))
def test_each_pair_scores_what_the_paper_prints(method: int, label: int) -> None:
    case, name = DESK.cases[method], DESK.labels[label]
    assert case.beliefs[label].completeness() == pytest.approx(COMPLETE[name][method], abs=0.005)
    assert case.beliefs[label].soundness() == pytest.approx(SOUND[name][method], abs=ROUNDING)


def test_worst_cases_are_the_papers() -> None:
    assert [c.completeness() for c in DESK.cases] == pytest.approx([0.97, 1.0, 0.58], abs=0.005)
    assert [c.soundness() for c in DESK.cases] == pytest.approx([0.89, 0.44, 1.0], abs=ROUNDING)


def test_completeness_alone_would_choose_the_unsound_method() -> None:
    by_completeness = max(DESK.cases, key=Case.completeness)
    assert by_completeness.method == "learned mask, TV .001"
    assert by_completeness.soundness() == min(c.soundness() for c in DESK.cases)


def test_the_printed_inputs_could_have_been_the_unrounded_ones() -> None:
    """Each printed score lies between those of the ends of its inputs' rounding intervals."""
    for case, sound in zip(DESK.cases, SOUND["desktop computer"], strict=True):
        b = case.beliefs[1]
        least = Belief(b.label, b.f - 0.005, b.auc + 0.005).soundness()
        most = Belief(b.label, b.f + 0.005, max(b.auc - 0.005, 0.0)).soundness()
        assert least <= sound + 0.005 and sound - 0.005 <= most


def test_floors_work_as_in_the_definition() -> None:
    weak = Belief("a", f=0.2, auc=0.05)
    assert weak.completeness() == pytest.approx(0.25) and weak.completeness(e1=0.1) == pytest.approx(0.5)
    strong = Belief("a", f=0.001, auc=0.5)
    assert strong.soundness() == pytest.approx(0.002) and strong.soundness(e2=0.1) == pytest.approx(0.2)
    assert Belief("a", f=0.0, auc=0.0).soundness() == Belief("a", f=0.0, auc=0.0).completeness() == 1.0
