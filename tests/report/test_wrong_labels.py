"""Labels that the net does not believe: judged by Python and by a run alike, and marked wherever labels are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.core.labels import UNBELIEVED
from proofmap.report.html import write_report
from proofmap.results import score_tables
from proofmap.results.label_matrix import label_matrices
from proofmap.study import run_study
from tests.report.pages import PageParts
from tests.study.studies import net_file, toy_study
from tests.toys import linear_classifier, pixels


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    """A net that is sure of one of twelve labels."""
    net = linear_classifier(8, 12, strength=0.5, names=[f"name {k}" for k in range(12)])
    return pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="top1+wrong", seed=3)


def test_two_labels_are_judged_that_the_net_does_not_believe(evaluation: pm.Evaluation) -> None:
    assert evaluation.labels.shape == (3, 3) and evaluation.settings["labels"] == "top1+wrong"
    assert bool((evaluation.f[:, 1:] < UNBELIEVED).all())
    assert [evaluation.wrong_kind(0, j) for j in range(3)] == ["", "near", "far"]
    assert label_matrices(evaluation).names == ("label 1", "near wrong", "far wrong")


def test_they_change_soundness_and_not_completeness(evaluation: pm.Evaluation) -> None:
    """Completeness of a label with f < e1 is 1; soundness is the worst over labels, so more labels cannot raise it."""
    net = linear_classifier(8, 12, strength=0.5, names=[f"name {k}" for k in range(12)])
    top = pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="top1", seed=3)
    for ours, theirs in zip(evaluation.results, top.results, strict=True):
        assert torch.equal(ours.values["completeness"], theirs.values["completeness"])
        assert bool((ours.values["soundness"] <= theirs.values["soundness"]).all())
    least = min(
        float((t.values["soundness"] - o.values["soundness"]).max())
        for o, t in zip(evaluation.results, top.results, strict=True)
    )
    assert least > 0, "a wrong label decides the soundness of an image"


def test_tables_and_pages_mark_them(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    table = score_tables.pair_table(evaluation, methods=1).splitlines()
    assert [", a wrong one, to test" in line for line in table[1:4]] == [False, True, True]
    assert "labels top1 and two wrong ones (near, far)" in evaluation.table()
    page = PageParts(write_report(evaluation, tmp_path / "r.html"))
    assert [a["wrong"] for a in page.record["pictured"][0]["labels"]] == ["", "near", "far"]
    assert page.text.count("a wrong one, to test") == 6


@pytest.mark.parametrize(
    "labels, strength, told",
    [
        (3, 0.0, "labels top2 and 0 of two wrong ones (too few labels have f < 0.01)"),
        (2, 0.0, "labels top2 and 0 of two wrong ones (too few labels have f < 0.01)"),
        (3, 20.0, "labels top2 and 1 of two wrong ones (too few labels have f < 0.01)"),
    ],
)
def test_what_was_judged_is_said_where_no_wrong_label_was_left(
    labels: int, strength: float, told: str, tmp_path: Path
) -> None:
    net = linear_classifier(8, labels, strength=strength)
    found = pm.evaluate(
        net, pixels(2, 8), methods=["random"], labels="top2+wrong", metrics=["insertion:points=4"]
    )
    assert told in found.table()
    assert told in PageParts(write_report(found, tmp_path / "r.html")).text


def test_a_run_judges_the_same_wrong_labels_as_python(tmp_path: Path) -> None:
    """Whatever the blocks of the run; the net is so sure that it does not believe four of its five labels."""
    (tmp_path / "sure").mkdir()
    model = net_file(tmp_path / "sure", forward="200 * self.layers(x)")
    study = toy_study(tmp_path, 4, model=model, labels="top1+wrong", methods=("gradient",), seed=5)
    run_study(study, tmp_path / "run")
    with pm.Run(tmp_path / "run") as run:
        stored = run.evaluation()
    net = pm.load_classifier(model)
    photos = pm.load_images([str(tmp_path / "photos")], net)
    again = pm.evaluate(
        net, photos, methods=["gradient"], labels="top1+wrong", metrics=["soundness:points=4"], seed=5
    )
    assert torch.equal(stored.labels, again.labels) and stored.labels.shape[1] == 3
    assert stored.wrong_kind(0, 1) == "near" and bool((stored.f[:, 1] < UNBELIEVED).any())
    other = pm.evaluate(
        net, photos, methods=["gradient"], labels="top1+wrong", metrics=["soundness:points=4"], seed=6
    )
    assert not torch.equal(other.labels, again.labels), "the seed draws them"
