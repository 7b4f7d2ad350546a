"""Tables, pages, pictures and audits go by what a score measures, never by what it is called."""

from __future__ import annotations

from typing import ClassVar

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness
from proofmap.report.choice import Choice
from proofmap.report.figures.scatter import scatter_figure, scatter_panels
from proofmap.results.audit import audit
from proofmap.results.proof_shape import proof_values
from proofmap.results.statistics import Score
from proofmap.results.verdict import verdict
from tests.report.pages import judged


class Reaches(Completeness):
    name: ClassVar[str] = "reaches"
    kind: ClassVar[str] = "completeness"


class StaysBelow(Soundness):
    name: ClassVar[str] = "stays-below"
    kind: ClassVar[str] = "soundness"


class Tries(BestEffort):
    name: ClassVar[str] = "tries"
    kind: ClassVar[str] = "best-effort"


class Impostor(Soundness):
    """Bears a famous name, and says that it measures something else."""

    name: ClassVar[str] = "soundness"
    kind: ClassVar[str] = "something-else"


METHODS = ("gradient", "random")


@pytest.fixture(scope="module")
def usual() -> pm.Evaluation:
    metrics = [Completeness(), Soundness(), BestEffort()]
    return judged(4, labels="top3", methods=METHODS, metrics=metrics)


@pytest.fixture(scope="module")
def renamed() -> pm.Evaluation:
    return judged(4, labels="top3", methods=METHODS, metrics=[Reaches(), StaysBelow(), Tries()])


def test_a_score_without_a_kind_is_its_own() -> None:
    assert Score("area", 0.5, 0.4, 0.6, 3, True).kind == "area"


def test_scores_under_other_names_give_the_same_verdict_panels_and_pictures(
    usual: pm.Evaluation, renamed: pm.Evaluation
) -> None:
    assert verdict(renamed) == verdict(usual)
    ours, theirs = scatter_panels(renamed), scatter_panels(usual)
    assert [(p.x, p.y) for p in ours] == [("reaches", "stays-below"), ("tries", "stays-below")]
    assert [p.points for p in ours] == [p.points for p in theirs]
    assert scatter_figure(renamed) == scatter_figure(usual)
    assert [p.kind for p in ours] == ["completeness", "best-effort"]
    for a, b in zip(renamed.results, usual.results, strict=True):
        for i in range(4):
            assert proof_values(renamed, a, i, 1) == proof_values(usual, b, i, 1)


def test_the_worst_images_are_chosen_by_kind(usual: pm.Evaluation, renamed: pm.Evaluation) -> None:
    assert Choice.of(renamed, worst=1, random=1) == Choice.of(usual, worst=1, random=1)
    assert "worst in soundness" in Choice.of(renamed, worst=1, random=1).rule


def test_bars_are_for_kinds(renamed: pm.Evaluation) -> None:
    bars = {"stays-below": 0.0}
    both = [result.name for result in renamed.results]
    result = audit(renamed, min_completeness=0.0, min_soundness=1.1, bars=bars, method=both)
    assert [line.metric for line in result.lines] == ["reaches", "stays-below"] * 2
    assert result.passes  # the bar by name goes before the one by kind
    with pytest.raises(InputError, match="gradient was not judged by soundness; there are completeness"):
        audit(judged(1, methods=["gradient"], metrics=[Completeness()]), min_soundness=0.5)


def test_a_famous_name_alone_is_no_kind() -> None:
    found = judged(2, labels="top2", methods=METHODS, metrics=[Completeness(), Impostor()])
    assert scatter_panels(found) == []
    assert "not both judged" in verdict(found).reasons[0]
    result = found.results[0]
    assert result.first_score("soundness") is None and result.pairs_of_kind("soundness") is None


def test_of_two_scores_of_a_kind_the_first_is_read() -> None:
    found = judged(2, labels="top2", methods=["gradient"], metrics=[StaysBelow(), Soundness(), Reaches()])
    result = found.results[0]
    first = result.first_score("soundness")
    assert first is not None and first.name == "stays-below"
    assert (result.pairs_of_kind("soundness") == result.pairs["stays-below"].numpy()).all()
    panels = [(p.x, p.y) for p in scatter_panels(found)]
    assert panels == [("reaches", "stays-below"), ("reaches", "soundness")]
