"""Pictures with several true labels: which labels are judged, when the net is right, and what a run keeps of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.core.labels import LabelRule
from proofmap.data.photos import load_images
from proofmap.judging import evaluate, explain
from proofmap.study import Run, Selection, Study, run_study, verify_run
from proofmap.study.run import preview
from tests.study.studies import NAMES, classifier_of, toy_study
from tests.toys import conv_classifier, pixels


def judged_study(folder: Path, rows: dict[str, tuple[str, ...]], **changes: Any) -> Study:
    """One cheap method on pictures with these true labels, in a table beside them."""
    study = toy_study(folder, len(rows), methods=["random"], metrics=["completeness"], labels="true")
    table = folder / "photos" / "labels.csv"
    table.write_text("file,label\n" + "".join(f"{name},{';'.join(own)}\n" for name, own in rows.items()))
    return replace(study, data=str(table), **changes)


ROWS = {
    "00.png": ("cup", "cat"),
    "01.png": (),
    "02.png": ("car",),
    "03.png": ("cat", "dog", "rocket"),
}


# ---- judging --------------------------------------------------------------------------------------------------------


def test_the_true_labels_of_each_image_are_judged() -> None:
    f, x = conv_classifier(labels=3), pixels(3, 8)
    truth = [[f.names[2], f.names[0], 2], f.names[1], [2, None]]
    found = evaluate(f, x, methods=["random"], metrics=["completeness"], labels="true", truth=truth)
    assert found.labels.tolist() == [[2, 0], [1, -1], [2, -1]] and found.settings["labels"] == "true"
    proof = explain(f, x, method="random", labels="true", truth=torch.tensor([2, 0, 1]))
    assert proof.evaluation.labels.tolist() == [[2], [0], [1]]


def test_an_image_without_a_true_label_is_refused_by_name() -> None:
    f, x = conv_classifier(labels=3), pixels(2, 8)
    with pytest.raises(InputError, match=r"none is known for 1 image, 'b\.png' first"):
        evaluate(f, x, methods=["random"], labels="true", truth=[0, None], names=["a.png", "b.png"])
    with pytest.raises(InputError, match="none are known here: in Python pass truth="):
        evaluate(f, x, methods=["random"], labels="true")
    with pytest.raises(InputError, match="boxes has boxes for 'image-1', which has several true labels"):
        evaluate(
            f, x, methods=["random"], truth=[0, [1, 2]], boxes=[[(0, 0, 2, 2)]] * 2, metrics=["pointing-game"]
        )


def test_a_label_named_true_is_named_in_a_list() -> None:
    assert str(LabelRule.parse(["true"], ["false", "true"])) == "1"
    assert str(LabelRule.parse("true", ["false", "true"])) == "true"


def test_every_true_label_points_at_its_own_things() -> None:
    f, x = conv_classifier(labels=3), pixels(1, 8)
    whole, corner = (0, 0, x.shape[-1], x.shape[-2]), (0, 0, 1, 1)
    found = evaluate(
        f,
        x,
        methods=["random"],
        metrics=["pointing-game", "energy-inside"],
        labels="true",
        truth=[[0, 2]],
        objects=[{0: [whole], 2: [corner]}],
    )
    inside = found.results[0].pairs["energy-inside"][0].tolist()
    assert found.labels.tolist() == [[0, 2]] and inside[0] == pytest.approx(1) and inside[1] < 0.5


# ---- studies --------------------------------------------------------------------------------------------------------


def test_a_study_judges_true_labels_and_leaves_out_pictures_without(tmp_path: Path) -> None:
    study = judged_study(tmp_path, ROWS)
    run_study(study, tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert {row.name: row.labels for row in run.images} == {
            name: tuple(NAMES.index(label) for label in own) for name, own in ROWS.items() if own
        }
        assert [row.true_labels for row in run.images] == [row.labels for row in run.images]
        assert "1 image without a known true label is left out, since true labels are judged" in run.notes()
    assert verify_run(tmp_path / "run") == []


@pytest.mark.parametrize("changes", [{}, {"labels": "top1", "images": Selection(correct=True)}])
def test_a_run_whose_true_labels_changed_is_not_continued(tmp_path: Path, changes: dict[str, Any]) -> None:
    rows = {"00.png": NAMES, "01.png": NAMES[:4]}
    study = judged_study(tmp_path, rows, **changes)
    run_study(study, tmp_path / "run")
    judged_study(tmp_path, {**rows, "00.png": NAMES[::-1]})
    assert run_study(study, tmp_path / "run").units == 0, "another order says the same"
    judged_study(tmp_path, {**rows, "01.png": NAMES[1:]})
    with pytest.raises(InputError, match=r"the true labels of 01\.png have changed\. Restore"):
        run_study(study, tmp_path / "run")


def test_a_dry_run_does_not_promise_pictures_without_true_labels(tmp_path: Path) -> None:
    study = judged_study(tmp_path, ROWS)
    assert not preview(study, tmp_path / "run").sure


def test_the_net_is_right_if_its_top_label_is_a_true_one(tmp_path: Path) -> None:
    study = judged_study(tmp_path, ROWS)
    f = classifier_of(study)
    top = f.top(load_images(sorted((tmp_path / "photos").glob("*.png")), f), 1).flatten().tolist()
    other = [NAMES[(a + 1) % 5] for a in top]
    rows = {
        "00.png": (other[0], NAMES[top[0]]),
        "01.png": (other[1],),
        "02.png": (),
        "03.png": (NAMES[top[3]],),
    }
    study = judged_study(tmp_path, rows, labels="top1")
    run_study(study, tmp_path / "all")
    with Run(tmp_path / "all") as run:
        sanity = run.manifest.sanity
        assert sanity is not None and (sanity["right"], sanity["known"]) == (2, 3)
        assert any("sanity of 4 images: 2 of 3 right" in note for note in run.notes())
        assert [row.truth for row in run.images][1:] == [NAMES.index(other[1]), None, top[3]]
    run_study(replace(study, images=Selection(correct=True)), tmp_path / "right")
    with Run(tmp_path / "right") as run:
        assert [row.name for row in run.images] == ["00.png", "03.png"]


@pytest.mark.parametrize(
    "rows, told",
    [
        ({"00.png": (), "01.png": ()}, "labels 'true' needs true labels, but labels.csv has none"),
        (
            {"00.png": ("cat",), "01.png": ("cat", "roket")},
            "01.png in labels.csv has the label 'roket', .*Did you mean 'rocket'",
        ),
    ],
)
def test_true_labels_that_are_not_there_are_refused(
    tmp_path: Path, rows: dict[str, tuple[str, ...]], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        run_study(judged_study(tmp_path, rows), tmp_path / "run")
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())
