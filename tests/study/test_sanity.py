"""Before a study works, it says whether the net sees its pictures; a run remembers what was seen."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import proofmap as pm
from proofmap.study.sanity import sanity_notes
from tests.command import run as command
from tests.study.studies import photos, toy_study

SEEN = {
    "images": 30,
    "of": 90,
    "noun": "images",
    "known": 30,
    "right": 28,
    "chosen": False,
    "labels": 10,
    "truths": 9,
    "tops": 8,
    "moves": 0.9,
    "fills": [{"fill": "gray", "label": "web", "f": 0.1}],
    "copies": 0,
    "by_order": "",
}
COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


class Colour(nn.Module):
    """Knows the colour of a picture: red, green or blue."""

    def forward(self, x: Tensor) -> Tensor:
        return 20 * x.mean(dim=(2, 3))


def colour_net(names: tuple[str, ...] = ("red", "green", "blue"), **options: Any) -> pm.Classifier:
    return pm.Classifier(Colour(), size=8, names=names, **options)


def colour_study(folder: Path, n: int = 4) -> pm.Study:
    for name, colour in COLOURS.items():
        (folder / "photos" / name).mkdir(parents=True)
        for k in range(n):
            picture = np.clip(np.array(colour) + 10 * k, 0, 255).astype(np.uint8)
            Image.fromarray(np.broadcast_to(picture, (8, 8, 3)).copy()).save(
                folder / "photos" / name / f"{k}.png"
            )
    return pm.Study(data=(str(folder / "photos"),), methods=("random",), labels="all")


def seen(folder: Path, study: pm.Study, net: pm.Classifier) -> dict[str, Any]:
    found = pm.run_study(study, folder / "run", classifier=net).plan.sanity
    with pm.Run(folder / "run") as run:
        assert run.manifest.sanity == found
    return dict(found)


def test_a_net_that_knows_its_pictures_is_not_suspicious(tmp_path: Path) -> None:
    found = seen(tmp_path, colour_study(tmp_path), colour_net())
    counts = {"images": 12, "of": 12, "known": 12, "right": 12, "truths": 3, "tops": 3}
    assert counts.items() <= found.items()
    assert found["moves"] == pytest.approx(2 / 3, abs=0.01)  # three certain answers, each a third of the time
    assert found["fills"] == [{"fill": "gray", "label": "red", "f": pytest.approx(1 / 3, abs=1e-5)}]
    assert sanity_notes(found)[1:] == []
    with pm.Run(tmp_path / "run") as run:
        assert any(
            "sanity of 12 images: 12 of 12 right; f moves by .67 from one to another (above .01: nothing to do)"
            in note
            for note in run.notes()
        )


def test_labels_that_were_found_by_their_order_alone_are_named(tmp_path: Path) -> None:
    """Outputs without names: the folders blue, green and red are taken as outputs 0, 1 and 2, which is wrong here."""
    found = seen(tmp_path, colour_study(tmp_path), colour_net(names=("0", "1", "2")))
    assert (
        "4 of 12 right, with blue, green, red as outputs 0, 1, ... in this order: name the outputs"
        in (sanity_notes(found)[0])
    )


def test_copies_of_pictures_are_suspicious(tmp_path: Path) -> None:
    study = colour_study(tmp_path)
    for k in (1, 2, 3):  # as a reader that loses pixels would give them
        shutil.copyfile(tmp_path / "photos/red/0.png", tmp_path / f"photos/red/{k}.png")
    found = seen(tmp_path, study, colour_net())
    assert (found["copies"], found["of"]) == (3, 12)
    _, warning = sanity_notes(found)
    assert warning.startswith("suspicious: 3 of 12 images are copies of others")
    assert sanity_notes({**SEEN, "copies": 9, "of": 1000})[1:] == []  # a data set may have a few


def test_names_in_the_wrong_order_are_suspicious(tmp_path: Path) -> None:
    found = seen(tmp_path, colour_study(tmp_path), colour_net(("green", "blue", "red")))
    assert found["right"] == 0
    _, told = sanity_notes(found)
    assert told.startswith("suspicious: 0 of 12 right: check the names of the labels")


def test_a_net_that_sees_nothing_is_suspicious(tmp_path: Path) -> None:
    """What mean and std in the wrong units do: noise then scores 1, and no score can tell."""
    net = colour_net(mean=(0.5, 0.4, 0.4), std=(2.0, 2.0, 2.0))
    blind = pm.Classifier(lambda x: 1e-4 * x.mean(dim=(2, 3)), size=8, names=net.names)
    study = colour_study(tmp_path)
    found = seen(tmp_path, study, blind)
    assert found["moves"] < 1e-4
    assert any("f hardly moves from one of the images to another" in told for told in sanity_notes(found))
    with pm.Run(tmp_path / "run") as run:
        assert any("suspicious: f hardly moves" in note for note in run.notes())
        scores = {score.kind: score.value for score in run.evaluation().results[0].scores}
    assert min(scores["completeness"], scores["soundness"]) > 0.99, "noise is a perfect proof"


def test_what_is_suspicious_depends_on_the_numbers() -> None:
    assert sanity_notes(SEEN)[1:] == []

    def told(**changes: object) -> str:
        return " | ".join(sanity_notes({**SEEN, **changes})[1:]).replace("suspicious: ", "")

    assert told(right=0, chosen=True) == "" and told(known=4, right=0) == ""
    assert told(right=3).startswith("3 of 30 right is no better than guessing one of 10 labels")
    assert told(tops=1) == "the net gives all 30 images one label, but they have 9 true ones"
    assert told(tops=1, truths=1) == "" == told(known=0, right=0, truths=0, tops=1)
    assert "'web' with f = .95: that label is proved before anything is shown" in told(
        fills=[{"fill": "gray", "label": "web", "f": 0.95}]
    )
    assert "f hardly moves" in told(moves=0.002) and told(images=1, moves=0.0) == ""


def test_it_is_computed_once_and_again_for_more_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    pm.run_study(study, tmp_path / "run")
    monkeypatch.setattr("proofmap.study.run.measure_sanity", lambda *_, **__: pytest.fail("looked again"))
    pm.run_study(study, tmp_path / "run")
    monkeypatch.undo()
    photos(tmp_path / "photos", 2, first=3)
    pm.run_study(study, tmp_path / "run")
    with pm.Run(tmp_path / "run") as run:
        found = run.manifest.sanity
    assert found is not None and found["of"] == found["images"] == 5


def test_only_some_of_many_images_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofmap.study.sanity.LOOKED_AT", 3)
    found = seen(tmp_path, colour_study(tmp_path, 5), colour_net())
    assert (found["images"], found["of"], found["right"]) == (3, 15, 3), "spread over all of them"


def test_the_command_line_and_the_audit_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    run = str(tmp_path / "run")
    told = "sanity of 3 images: true labels are not known; f moves by"
    arguments = ["evaluate", "--data", str(study.data[0]), "--model", study.model, "--methods", "random"]
    assert command(monkeypatch, *arguments, "--labels", "all", "--out", run, "--no-pictures") == 0
    assert " ".join(capsys.readouterr().err.split()).count(told) == 1
    command(monkeypatch, "audit", run, "--min-soundness", "0", "--method", "random")
    assert told in " ".join(capsys.readouterr().err.split())


def test_every_fill_that_metrics_use_is_looked_at(tmp_path: Path) -> None:
    study = replace(colour_study(tmp_path), metrics=("insertion", "deletion", "soundness:fill=blur"))
    found = seen(tmp_path, study, colour_net())
    assert [fill["fill"] for fill in found["fills"]] == ["gray", "blur"]
    assert found["fills"][1]["f"] < 0.5 and torch.isfinite(torch.tensor(found["moves"]))
