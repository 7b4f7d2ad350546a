"""Control rows: on request in every evaluation and audit, and what they say about a method's soundness."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.methods import make_method
from proofmap.methods.controls import control_rows
from proofmap.results.audit import audit
from proofmap.results.statistics import mean_score
from proofmap.results.verdict import role_of, soundness_notes
from proofmap.study import Run, Study, run_study
from tests.command import run
from tests.study.studies import methods_of, toy_study
from tests.toys import PICTURES, ROWS, conv_classifier, pixels

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
        score = mean_score("soundness", found, higher_is_better=True)
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
    named = audit(evaluation, bars={"soundness": 0.7}, method="blurred:gradient")
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
    runs = [str(tmp_path / f"run-{seed}") for seed in range(2)]
    for seed, folder in enumerate(runs):
        run_study(dataclasses.replace(asked, seed=seed), folder)
    assert run(monkeypatch, "compare", runs[0], "--detect", "0.1") == 0
    told = capsys.readouterr().out
    assert "a difference of 0.1" in told and "2 images can never decide one of 2 lines" in told
    assert run(monkeypatch, "compare", runs[0], "--detect", "-1") == 2


def test_the_command_judges_controls_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = study(tmp_path)
    usual = [
        "evaluate",
        "--data",
        str(tmp_path / "photos"),
        "--model",
        asked.model,
        "--methods",
        "gradient",
        "--labels",
        "top2",
    ]
    usual += [
        "--metrics",
        "soundness:points=2",
        "--out",
        str(tmp_path / "out"),
        "--quiet",
        "--no-pictures",
        "--device",
        "cpu",
    ]
    assert run(monkeypatch, *usual, "--controls") == 0
    assert "blurred:gradient" in capsys.readouterr().out
    assert methods_of(tmp_path / "out") == ["gradient", *CONTROLS]
