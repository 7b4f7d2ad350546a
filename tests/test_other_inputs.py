"""A series and a row of a table go the whole way: explain, evaluate, a study that resumes, the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.data import TensorData
from proofmap.methods.method import default_method
from proofmap.report.runs import write_run_report
from proofmap.study import verify_run
from tests.toys import drawn, normal

METHODS = ["learned-mask:steps=4,scale=3,fill=noise", "gradient", "top-label:gradient-x-input", "random"]


def series() -> tuple[pm.Classifier, Tensor]:
    net = nn.Sequential(
        nn.Conv1d(2, 6, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(24, 3)
    )
    inputs = Series(length=24, mean=(0.5, -1.0), std=(1.0, 2.0))
    f = pm.Classifier(drawn(net), inputs=inputs, names=["rest", "walk", "run"], batch_size=16)
    return f, inputs.blank(5) + normal(5, 2, 24, seed=3)


def rows() -> tuple[pm.Classifier, Tensor]:
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    inputs = Rows(columns=6, mean=(1.0, 0.0, 3.0, 0.0, 0.0, -2.0), std=(1.0, 2.0, 1.0, 1.0, 0.5, 1.0))
    return pm.Classifier(drawn(net), inputs=inputs, batch_size=16), inputs.blank(5) + normal(5, 6, seed=4)


KINDS = {"series": series, "rows": rows}


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> tuple[pm.Classifier, Tensor]:
    return KINDS[request.param]()


def test_the_insertion_game_is_that_of_a_plain_loop(case: tuple[pm.Classifier, Tensor]) -> None:
    f, x = case
    inputs = f.inputs
    maps = normal(5, 1, *inputs.positions, seed=9)
    labels = f.top(x, 1)
    found = pm.insertion(f, x, maps, labels, points="all")
    for i in range(len(x)):
        order = maps[i, 0].flatten().argsort(descending=True, stable=True)
        areas = []
        for s in range(1, inputs.count + 1):
            shown = inputs.blank(1)[0]
            kept = order[:s]
            shown[..., kept] = x[i][
                ..., kept
            ]  # the last axis is the position, whether there are channels or not
            areas.append(float(f.probabilities(shown[None])[0, labels[i, 0]]))
        assert float(found.auc[i, 0]) == pytest.approx(sum(areas) / len(areas), abs=1e-5)


def test_explain_gives_maps_of_its_positions_and_saves_them(
    case: tuple[pm.Classifier, Tensor], tmp_path: Path
) -> None:
    f, x = case
    proof = pm.explain(f, x, labels="top2", method="gradient-x-input")
    assert proof.maps.shape == (5, 2, *f.inputs.positions)
    written = [path.name for path in proof.save(tmp_path / "out")]
    assert "maps.safetensors" in written and "scores.csv" in written
    assert any(name.endswith(".png") for name in written)


def test_methods_that_need_pictures_say_so(case: tuple[pm.Classifier, Tensor]) -> None:
    f, x = case
    with pytest.raises(pm.InputError, match="needs a net of pictures"):
        pm.evaluate(f, x, methods=["grad-cam"], labels="top1")


def test_a_study_stores_resumes_and_reports_them(case: tuple[pm.Classifier, Tensor], tmp_path: Path) -> None:
    f, x = case
    data = TensorData(x, kind=f.inputs.kind, labels=[0, 1, 2, 0, 1], label_names=f.names)
    study = pm.Study(
        methods=METHODS,
        metrics=["completeness", "soundness", "best-effort", "insertion", "deletion", "ranking-agreement"],
        labels="top2",
        maps="float32",
        images_per_unit=2,
    )
    first = pm.run_study(study, tmp_path / "run", classifier=f, dataset=data)
    assert first.complete and first.units == 12
    assert pm.run_study(study, tmp_path / "run", classifier=f, dataset=data).units == 0
    assert verify_run(tmp_path / "run") == []
    here = pm.evaluate(f, x, methods=METHODS, labels="top2", names=list(data.names))
    with pm.Run(tmp_path / "run") as run:
        stored = run.evaluation(pictured=5, dataset=data)
        for result in here.results:
            for name, values in result.values.items():
                torch.testing.assert_close(stored[result.name].values[name], values, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(stored[result.name].maps, result.maps, rtol=1e-3, atol=1e-3)
        assert stored.pictured == (0, 1, 2, 3, 4) and torch.equal(stored.images, x)
        assert {score.subject for score in stored.run_scores} == {
            score.name for score in here.results[0].scores
        }
        page = write_run_report(run, tmp_path / "report.html", dataset=data)
    text = page.read_text(encoding="utf-8")
    assert f.inputs.position_noun in text and "data:image/" in text
    record = json.loads((tmp_path / "run" / "run.json").read_text())["identity"]
    assert record["inputs"] == f.inputs.kind


def test_a_run_metric_follows_the_run(tmp_path: Path) -> None:
    """It is about all methods that are stored; while something is missing there is none."""
    f, x = rows()
    data = TensorData(x, kind="rows")
    few = pm.Study(methods=["gradient", "random"], metrics=["insertion", "ranking-agreement"], labels="top1")
    pm.run_study(few, tmp_path / "run", classifier=f, dataset=data)
    more = pm.Study(methods=[*few.methods, "smooth-grad:samples=2"], metrics=few.metrics, labels="top1")
    pm.run_study(more, tmp_path / "run", classifier=f, dataset=data)
    expected = pm.evaluate(f, x, methods=more.methods, metrics=more.metrics, labels="top1").run_scores
    with pm.Run(tmp_path / "run") as run:
        (found,) = run.evaluation().run_scores
        assert found.value == pytest.approx(expected[0].value) and found.n == 5
        assert "ranking-agreement: insertion" in run.table()
    other = pm.Study(methods=["gradient-x-input"], metrics=["insertion"], labels="top1")
    pm.run_study(other, tmp_path / "run", classifier=f, dataset=data)
    with pm.Run(tmp_path / "run") as run:
        assert run.evaluation().run_scores == ()


@pytest.mark.parametrize(
    "options, told",
    [
        ({"metrics": ["ranking-agreement"]}, "at least one metric with values per image"),
        ({"labels": [[0], [1]]}, r"has 2 rows for 5 rows; .* one row of labels for each row"),
        ({"labels": [[0], [], [0], [0], [0]]}, "no label for row 1; give each row one at least"),
        (
            {"labels": "true", "truth": [0, 1, None, 0, 0]},
            "true labels of each row, but none is known for 1 row",
        ),
        ({"names": ["a", "b"]}, "2 names were given for 5 rows"),
        ({"methods": [lambda f, x, a: normal(5, a.shape[1], 6) / 0]}, "NaN or infinity for row 0"),
    ],
)
def test_messages_call_a_row_a_row(options: dict[str, Any], told: str) -> None:
    f, x = rows()
    with pytest.raises(pm.InputError, match=told):
        pm.evaluate(f, x, **{"methods": ["random"], **options})
    with pytest.raises(pm.InputError, match="there is no row 7"):
        pm.evaluate(f, x, methods=["random"], labels="all").select_images([7])


@pytest.mark.parametrize(
    "inputs, expected",
    [
        (Series(length=128, mean=(0.0,), std=(1.0,)), "belief-order"),
        (Series(length=4000, mean=(0.0,), std=(1.0,), segments=40), "belief-order"),
        (
            Series(length=4000, mean=(0.0,), std=(1.0,)),
            "belief-mask",
        ),  # 40,000 passes for each label otherwise
        (Rows(columns=30, mean=(0.0,) * 30, std=(1.0,) * 30), "belief-order"),
    ],
)
def test_the_default_method_follows_the_positions(inputs: Inputs, expected: str) -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            mean = x.flatten(1).mean(dim=1)
            return torch.stack([mean, -mean], dim=1)

    assert default_method(pm.Classifier(Mean(), inputs=inputs)) == expected
