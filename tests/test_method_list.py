"""The list of methods: what ``proofmap list methods`` and the documentation say of each."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from proofmap.cli.lists import methods_by_family
from proofmap.methods import METHODS, Cost, Method
from proofmap.methods.controls import Random, TopLabel
from proofmap.methods.gradients.plain import Gradient, GradientInput
from tests.command import run


def test_every_method_stands_in_its_family_once() -> None:
    listed = [(title, facts["name"]) for title, members in methods_by_family().items() for facts in members]
    assert sorted(name for _, name in listed) == sorted(METHODS)
    assert all(title == Method.FAMILIES[METHODS[name].family] for title, name in listed)


def test_facts_are_those_of_the_method() -> None:
    assert Method.passes_text(Gradient.facts()["passes"]) == "1 per label" and not Gradient.facts()["signed"]
    assert GradientInput.facts()["signed"] and GradientInput.facts()["needs"] == ["gradients"]
    assert Random.facts()["label_free"] and Random.facts()["stochastic"]
    assert Method.passes_text(Random.facts()["passes"]) == "none"
    wrapper = TopLabel.facts()
    assert wrapper["passes"]["wraps"] and Method.passes_text(wrapper["passes"]) == "METHOD's + 1"
    assert wrapper["signed"] is None and wrapper["stochastic"] is None and wrapper["label_free"]


@pytest.mark.parametrize(
    "labels, expected", [(lambda n: 3 + 2 * n, "3 + 2 per label"), (lambda n: n * n, None)]
)
def test_passes_are_a_line_in_the_number_of_labels_or_not_known(labels: object, expected: object) -> None:
    class Costly(Method):
        name: ClassVar[str] = "costly"

        def cost(self, labels_: int) -> Cost:
            return Cost(forward=labels(labels_))  # type: ignore[operator]

    assert Method.passes_text(Costly.facts()["passes"]) == expected


@pytest.mark.parametrize("width", [60, 120])
def test_the_list_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(monkeypatch, "list", "methods") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for members in methods_by_family().values():
        for facts in members:
            assert f"\n  {facts['name']}\n" in text and facts["reference"] in words
    assert "passes: 1 per label" in words and "needs distractors and gradients" in words


def test_the_command_says_it_to_people_and_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, "list", "methods", "--json") == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert records["gradient"]["passes"] == {"fixed": 0, "per_label": 1, "wraps": False}
    assert records["gradient-x-input"]["signed"] and records["random"]["label_free"]
    assert records["grad-cam"]["family"] == "cam" and records["grad-cam"]["needs"] == ["gradients", "layer"]
    assert run(monkeypatch, "list", "methods") == 0
    assert "Class activation maps\n  grad-cam\n" in capsys.readouterr().out
    assert run(monkeypatch, "list", "methods", "learned-mask") == 0
    shown = capsys.readouterr().out
    assert "passes: 200 per label" in " ".join(shown.split())
    assert (
        "preset=NAME sets several settings at once:\n    fast: the defaults" in shown
        and max(map(len, shown.splitlines()[1:])) <= 80
    )
