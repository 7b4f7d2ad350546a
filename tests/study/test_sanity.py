"""Before a study works, it says whether the net sees its pictures; a run remembers what was seen."""

from __future__ import annotations

import dataclasses
import functools
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
from proofmap.methods import make_method
from proofmap.methods.controls import control_rows
from proofmap.results.audit import audit
from proofmap.results.statistics import Score
from proofmap.results.verdict import role_of, soundness_notes
from proofmap.study import Run, Study, run_study
from proofmap.study.sanity import sanity_notes
from tests.command import run
from tests.command import run as command
from tests.study.studies import methods_of, photos, toy_study
from tests.toys import PICTURES, ROWS, conv_classifier, pixels

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
    monkeypatch.setattr("proofmap.study.survey.Survey.sanity", lambda *_: pytest.fail("looked again"))
    pm.run_study(study, tmp_path / "run")
    monkeypatch.undo()
    photos(tmp_path / "photos", 2, first=3)
    pm.run_study(study, tmp_path / "run")
    with pm.Run(tmp_path / "run") as run:
        found = run.manifest.sanity
    assert found is not None and found["of"] == found["images"] == 5


def test_only_some_of_many_images_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofmap.study.survey.LOOKED_AT", 3)
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


# ---- Control rows: on request in every evaluation and audit, and what they say about a method's soundness -------------


CONTROLS = ["random", "centered-gaussian", "blurred:gradient", "top-label:gradient"]


def rows(*methods: str, inputs: object = PICTURES) -> list[str]:
    return [control.title() for control in control_rows([make_method(m) for m in methods], inputs)]  # type: ignore[arg-type]


def test_controls_are_noise_the_middle_and_each_methods_maps_blurred_and_cheating() -> None:
    assert rows("gradient") == CONTROLS
    assert rows("gradient", "random", "top-label:gradient") == ["centered-gaussian", "blurred:gradient"]
    assert rows("gradient", "grad-cam")[2:] == [
        f"{wrapper}:{method}" for method in ("gradient", "grad-cam") for wrapper in ("blurred", "top-label")
    ]
    assert rows("gradient", inputs=ROWS) == ["random", "top-label:gradient"]
    assert rows("edges") == ["random", "centered-gaussian"]


@functools.cache
def evaluation() -> pm.Evaluation:
    """A method and its controls on six images."""
    return pm.evaluate(
        conv_classifier(8),
        pixels(6, 8),
        methods=["gradient"],
        labels="all",
        metrics=["soundness:points=4"],
        controls=True,
    )


def test_an_evaluation_has_them_on_request() -> None:
    assert [result.name for result in evaluation().results] == ["gradient", *CONTROLS]
    assert [role_of(r, evaluation().results) for r in evaluation().results] == [
        "method",
        "noise",
        "noise",
        "companion",
        "companion",
    ]
    alone = [r for r in evaluation().results if r.name == "blurred:gradient"]
    assert role_of(alone[0], alone) == "method"  # what it is a control of is not there


# ---- when soundness is explained ----------------------------------------------------------------------------------


def with_soundness(**values: list[float]) -> pm.Evaluation:
    """The evaluation with these values of soundness: gradient, noise, blurred, cheating."""
    results = []
    for result, key in zip(
        evaluation().results, ("gradient", "noise", "noise", "blurred", "cheating"), strict=True
    ):
        found = torch.tensor(values.get(key, [0.0] * 6))
        score = Score("soundness").over(found)
        results.append(dataclasses.replace(result, values={"soundness": found}, scores=(score,)))
    return dataclasses.replace(evaluation(), results=tuple(results))


GOOD = [0.7, 0.8, 0.75, 0.9, 0.85, 0.8]
WORSE = [v - 0.3 - 0.01 * k for k, v in enumerate(GOOD)]


@pytest.mark.parametrize(
    "controls, told",
    [
        (
            {"blurred": GOOD},
            [
                "soundness is explained by blur: it is not clearly higher than that of blurred maps (in brackets): gradient .80 (blurred:gradient .80)"
            ],
        ),
        ({"noise": GOOD}, ["one map for all labels (in brackets): gradient .80 (random .80)"]),
        ({"cheating": GOOD}, ["one map for all labels (in brackets): gradient .80 (top-label:gradient .80)"]),
        ({"noise": WORSE, "blurred": WORSE, "cheating": WORSE}, []),
        ({"blurred": [0.1, 0.9, 0.1, 1.0, 0.9, 0.9]}, []),  # not surely below, but far from it on average
        ({"blurred": [v - 0.02 * (k % 3 - 0.9) for k, v in enumerate(GOOD)]}, ["blurred:gradient .80"]),
    ],
)
def test_a_control_that_is_as_sound_explains_soundness(
    controls: dict[str, list[float]], told: list[str]
) -> None:
    evaluation = with_soundness(gradient=GOOD, **controls)
    notes = [note for note in soundness_notes(evaluation) if "fill alone" not in note]
    assert [words in note for words, note in zip(told, notes, strict=True)] == [True] * len(told)
    assert all(note in str(evaluation) for note in notes)
    assert soundness_notes(evaluation, ["random"]) == []


def test_a_fill_that_proves_a_label_alone_explains_soundness() -> None:
    result = evaluation()["gradient"]
    curves = result.insertion
    pairs = torch.full((6, 4), 1.0)
    pairs[:, 2] = 0.5
    pairs[5] = 1.0  # a sound image does not count
    for alone, area, told in ((0.3, 0.4, "75 %"), (0.1, 0.4, None), (0.9, 0.3, "100 %")):
        probabilities = torch.zeros_like(curves.probabilities)
        probabilities[:, 2, 0] = alone
        probabilities[5, :, 0] = 1.0
        changed = dataclasses.replace(
            curves, probabilities=probabilities, auc=torch.full_like(curves.auc, area)
        )
        own = dataclasses.replace(result, insertion=changed, pairs={"soundness": pairs})
        notes = soundness_notes(dataclasses.replace(evaluation(), results=(own,)))
        assert [f"gradient ({told})" in note for note in notes] == ([True] if told else [])


def test_the_controls_of_an_audit_are_shown_and_only_noise_decides() -> None:
    evaluation = with_soundness(gradient=GOOD, noise=WORSE, blurred=GOOD, cheating=GOOD)
    result = audit(evaluation, bars={"soundness": 0.7})
    assert result.passes and {line.method for line in result.lines} == {"gradient"}
    assert {line.method for line in result.controls} == {"random", "centered-gaussian"}
    verdicts = [row[-1] for row in result.tables()[0][1]]
    assert verdicts == ["passes", *["control: misses it"] * 2]
    assert any("explained by blur" in note for note in result.notes)
    named = audit(evaluation, bars={"soundness": 0.7}, methods="blurred:gradient")
    assert [line.method for line in named.lines] == ["blurred:gradient"]


# ---- runs ---------------------------------------------------------------------------------------------------------


def study(folder: Path, **changes: object) -> Study:
    return toy_study(folder, 2, **{"methods": ["gradient"], "metrics": ["soundness:points=2"], **changes})


def test_a_study_has_them_on_request_(tmp_path: Path) -> None:
    asked = study(tmp_path, controls=True)
    run_study(asked, tmp_path / "run")
    with Run(tmp_path / "run") as opened:
        assert list(opened.methods) == ["gradient", *CONTROLS] and not opened.unfinished()
    with pytest.raises(pm.InputError, match="controls must be true or false"):
        Study.from_table({"data": "photos", "methods": ["random"], "controls": "yes"})


def test_the_commands_of_statistics_read_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = study(
        tmp_path, methods=["gradient", "random"], metrics=["soundness:points=2", "insertion:points=2"]
    )
    folder = str(tmp_path / "run")
    run_study(asked, folder)
    assert run(monkeypatch, "compare", folder, "--detect", "0.1") == 0
    told = capsys.readouterr().out
    assert "a difference of 0.1" in told and "2 images can never decide one of 2 lines" in told
    assert run(monkeypatch, "compare", folder, "--detect", "-1") == 2


def test_the_command_judges_controls_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = study(tmp_path)
    usual = ["--data", str(tmp_path / "photos"), "--model", asked.model, "--methods", "gradient"]
    usual += ["--labels", "top2", "--metrics", "soundness:points=2", "--no-pictures"]
    assert run(monkeypatch, "evaluate", *usual, "--out", str(tmp_path / "out"), "--controls") == 0
    assert "blurred:gradient" in capsys.readouterr().out
    assert methods_of(tmp_path / "out") == ["gradient", *CONTROLS]
