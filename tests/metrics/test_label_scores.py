"""Scores of labels against labels, worst cases over some of them, and the frontier, by hand and by plain loops."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.metrics import (
    METRICS,
    ClassSensitivity,
    Completeness,
    Judged,
    SecondSoundness,
    Soundness,
    insertion,
)
from proofmap.results.frontier import frontier
from proofmap.session import Session
from proofmap.study import run_study
from proofmap.testing.nets import conv_classifier, normal, pixels
from tests.command import run as command
from tests.study.studies import toy_study


def judged(labels: int = 4, *, shared: bool = False) -> Judged:
    f, x = conv_classifier(), pixels(3, 8)
    heat = normal(3, labels, 8, 8)
    return Judged(Session(f), x, f.top(x, labels), heat[:, :1].expand_as(heat) if shared else heat)


def test_class_sensitivity_is_that_of_a_plain_loop() -> None:
    j = judged(3)
    found = ClassSensitivity(points=8).pairs(j)
    for i in range(3):
        for a in range(3):
            areas = []
            for b in range(3):  # label a under the map of b
                one = insertion(
                    j.classifier,
                    j.images[i : i + 1],
                    j.maps[i : i + 1, b : b + 1],
                    j.labels[i : i + 1, a : a + 1],
                    points=8,
                )
                areas.append(float(one.auc))
            others = [area for b, area in enumerate(areas) if b != a]
            assert float(found[i, a]) == pytest.approx(areas[a] - sum(others) / 2, abs=1e-5)


def test_one_map_for_all_labels_is_not_sensitive_to_them_and_one_label_says_nothing() -> None:
    assert float(ClassSensitivity(points=8)(judged(shared=True)).abs().max()) < 1e-6
    assert bool(ClassSensitivity(points=8)(judged(1)).isnan().all())


def test_too_many_labels_for_the_matrix_are_refused() -> None:
    f, x = conv_classifier(8, 70), pixels(1, 8)
    j = Judged(Session(f), x, f.top(x, 70), normal(1, 70, 8, 8))
    with pytest.raises(InputError, match="judge fewer labels"):
        ClassSensitivity(points=2)(j)


def test_second_soundness_is_that_of_the_nets_second_label() -> None:
    j = judged(4)
    turned = Judged(Session(j.classifier), j.images, j.labels.flip(1), j.maps.flip(1))
    expected = Soundness(points=8).pairs(j)[:, 1]  # labels go by their probability
    assert torch.equal(SecondSoundness(points=8)(j), expected)
    torch.testing.assert_close(SecondSoundness(points=8)(turned), expected)
    alone = Judged(Session(j.classifier), j.images, j.labels[:, :1], j.maps[:, :1])
    assert bool(SecondSoundness(points=8)(alone).isnan().all())


@pytest.mark.parametrize("kind", [Completeness, Soundness])
def test_more_labels_never_raise_a_worst_case(kind: type[Completeness] | type[Soundness]) -> None:
    j = judged(4)
    values = [kind(points=8, top=k)(j) for k in (1, 2, 3, 4)] + [kind(points=8)(j)]
    for few, more in itertools.pairwise(values):
        assert bool((more <= few).all())
    assert torch.equal(values[3], values[4])
    pairs = kind(points=8).pairs(j)
    assert torch.equal(values[1], pairs[:, :2].amin(dim=1)), "the first two labels are the most probable ones"


def test_tables_say_over_how_many_labels_the_worst_case_is() -> None:
    found = pm.evaluate(
        conv_classifier(),
        pixels(2, 8),
        methods=["random"],
        labels="top3",
        metrics=["soundness:top=2", "soundness"],
    )
    table = found.table()
    assert "soundness over 3 of 4 labels: the worst case of the 2 most probable of them" in table
    assert "soundness-2 over 3 of 4 labels: the worst case of the labels judged" in table


# ---- the frontier ------------------------------------------------------------------------------------------------


def with_means(values: dict[str, tuple[float, float]], n: int = 20) -> pm.Evaluation:
    """An evaluation whose methods have these means of completeness and soundness, a little different on each image."""
    found = pm.evaluate(
        conv_classifier(),
        pixels(n, 8),
        methods=["random"],
        metrics=["completeness:points=2", "soundness:points=2"],
    )
    results = []
    for name, means in values.items():
        wave = 0.001 * normal(n, seed=len(name))
        tables = {
            key: wave - wave.mean() + m for key, m in zip(("completeness", "soundness"), means, strict=True)
        }
        scores = tuple(
            dataclasses.replace(s, value=float(tables[s.name].mean())) for s in found.results[0].scores
        )
        results.append(dataclasses.replace(found.results[0], name=name, values=tables, scores=scores))
    return dataclasses.replace(found, results=tuple(results))


def test_the_frontier_is_what_no_other_method_beats_in_every_score() -> None:
    means = {"a": (0.9, 0.3), "bb": (0.5, 0.8), "ccc": (0.4, 0.7), "dddd": (0.89, 0.31), "eeeee": (0.9, 0.2)}
    found = frontier(with_means(means))
    assert found.methods == ("a", "dddd", "bb")
    dominated = {place.method: place.dominated_by for place in found.places if not place.on_frontier}
    assert dominated == {"ccc": ("bb",), "eeeee": ("a",)}
    assert {p.method: p.clearly_by for p in found.places if p.clearly_by} == {"ccc": ("bb",), "eeeee": ("a",)}
    assert "clearly dominated by bb" in found.table() and "3 of 5 methods" in found.table()
    assert json.loads(found.json())["places"][0]["method"] == "a"
    assert found.csv().splitlines()[0] == "method,completeness,soundness,frontier,dominated_by,clearly_by"


def test_one_score_alone_has_one_best_method() -> None:
    found = frontier(with_means({"a": (0.9, 0.3), "bb": (0.5, 0.8)}), scores=["soundness"])
    assert found.methods == ("bb",)


def test_a_frontier_of_one_method_is_refused() -> None:
    with pytest.raises(InputError, match="at least two"):
        frontier(with_means({"a": (0.9, 0.3)}))


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints."""
    assert command(monkeypatch, *arguments) == 0
    return capsys.readouterr().out


def test_the_command_prints_the_frontier_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_study(toy_study(tmp_path), tmp_path / "run")
    capsys.readouterr()
    text = told(
        monkeypatch,
        capsys,
        "compare",
        str(tmp_path / "run"),
        "--by",
        "frontier",
        "--metrics",
        "soundness",
        "--format",
        "json",
    )
    assert json.loads(text)["scores"] == ["soundness"]


# ---- the list of metrics -----------------------------------------------------------------------------------------


def test_every_metric_is_told_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in METRICS:
        text = told(monkeypatch, capsys, "list", "metrics", name)
        assert "is better" in text and "trinsic" in text and "for an image" in text


def test_thresholds_show_what_a_metric_has_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(monkeypatch, capsys, "list", "metrics", "soundness")
    assert "e2=0.1" in text and "e1=" not in text


def test_the_list_tells_direction_range_cost_and_reference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(monkeypatch, capsys, "list", "metrics")
    assert "0 to 1" in text and "31 passes for an image of a label" in text
    assert "after Petsiuk et al. 2018" in text and "1 x the method for an image of a label" in text
    records = {r["name"]: r for r in json.loads(told(monkeypatch, capsys, "list", "metrics", "--json"))}
    assert records["roughness"]["limits"] == [0.0, None]
