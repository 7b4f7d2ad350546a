"""The desk example gives the paper's numbers, up to the last digit of its rounded inputs."""

from __future__ import annotations

import pytest

from proofmap.theory.desk import AREAS, LABELS, F, scores

COMPLETE = {"desk": (0.97, 1.0, 0.64), "desktop computer": (1.0, 1.0, 0.58)}
SOUND = {"desk": (1.0, 0.95, 1.0), "desktop computer": (0.89, 0.44, 1.0)}
"""As printed in section 3.3, for its three methods."""
ROUNDING = 0.025
"""What inputs of two decimals allow: .13 / .15 may be anything from .806 to .931, and .89 is printed."""


WORST = {method: tuple(map(min, zip(*scores(F, areas), strict=True))) for method, areas in AREAS.items()}
"""Completeness and soundness of each method: the smallest over the labels."""


@pytest.mark.parametrize("method", range(3))
@pytest.mark.parametrize("label", range(2), ids=list(COMPLETE))
def test_each_pair_scores_what_the_paper_prints(method: int, label: int) -> None:
    complete, sound = scores(F, [*AREAS.values()][method])[label]
    assert complete == pytest.approx(COMPLETE[LABELS[label]][method], abs=0.005)
    assert sound == pytest.approx(SOUND[LABELS[label]][method], abs=ROUNDING)


def test_worst_cases_are_the_papers() -> None:
    assert [complete for complete, _ in WORST.values()] == pytest.approx([0.97, 1.0, 0.58], abs=0.005)
    assert [sound for _, sound in WORST.values()] == pytest.approx([0.89, 0.44, 1.0], abs=ROUNDING)


def test_completeness_alone_would_choose_the_unsound_method() -> None:
    chosen = max(WORST, key=lambda method: WORST[method][0])
    assert chosen == "learned mask, TV .001"
    assert WORST[chosen][1] == min(sound for _, sound in WORST.values())


def test_the_printed_inputs_could_have_been_the_unrounded_ones() -> None:
    """Each printed score lies between those of the ends of its inputs' rounding intervals."""
    for (_, auc), sound in zip(AREAS.values(), SOUND["desktop computer"], strict=True):
        ((_, least),) = scores([F[1] - 0.005], [auc + 0.005])
        ((_, most),) = scores([F[1] + 0.005], [max(auc - 0.005, 0.0)])
        assert least <= sound + 0.005 and sound - 0.005 <= most


def test_floors_work_as_in_the_definition() -> None:
    assert scores([0.2], [0.05])[0][0] == pytest.approx(0.25)
    assert scores([0.2], [0.05], e1=0.1)[0][0] == pytest.approx(0.5)
    assert scores([0.001], [0.5])[0][1] == pytest.approx(0.002)
    assert scores([0.001], [0.5], e2=0.1)[0][1] == pytest.approx(0.2)
    assert scores([0.0], [0.0]) == [(1.0, 1.0)]
