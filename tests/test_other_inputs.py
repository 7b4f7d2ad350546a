"""Series, with or without segments, and rows go the whole way: explain, evaluate, a study that resumes, the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.core import streams
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.data import TensorData
from proofmap.fills import make_fill
from proofmap.methods.method import default_method
from proofmap.metrics import Judged, make_metric
from proofmap.report.cell import marked_line
from proofmap.report.runs import write_run_report
from proofmap.report.sheets import explained_sheet
from proofmap.results.proof_shape import shape_of
from proofmap.session import Session
from proofmap.study import verify_run
from tests.sessions import bound
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


# ---- segments of series --------------------------------------------------------------------------------------


BEATS = Series(length=12, mean=(0.0, 0.0), std=(1.0, 1.0), names=("left", "right"), rate=4.0, segments=3)


def net(inputs: Series = BEATS) -> pm.Classifier:
    layers = nn.Sequential(nn.Flatten(), nn.Linear(24, 2))
    return pm.Classifier(drawn(layers), inputs=inputs, names=["rest", "walk"], batch_size=16)


def test_the_insertion_game_shows_whole_segments() -> None:
    f, x = net(), normal(3, 2, 12, seed=1)
    maps = normal(3, 1, 3, seed=2)
    labels = f.top(x, 1)
    found = pm.insertion(f, x, maps, labels, points="all")
    for i in range(3):
        order = maps[i, 0].argsort(descending=True).tolist()
        values = []
        for count in (1, 2, 3):
            shown = torch.zeros(2, 12)
            for segment in order[:count]:
                shown[:, 4 * segment : 4 * segment + 4] = x[i][:, 4 * segment : 4 * segment + 4]
            values.append(float(f.probabilities(shown[None])[0, labels[i, 0]]))
        assert float(found.auc[i, 0]) == pytest.approx(sum(values) / 3, abs=1e-5)


def test_the_saliency_metric_crops_whole_segments() -> None:
    inputs = replace(BEATS, segments=5)  # they begin at the time steps 0, 3, 5, 8 and 10
    f, x, labels = net(inputs), normal(2, 2, 12, seed=3), torch.tensor([[0, 1], [1, -1]])
    maps = torch.zeros(2, 2, 5)
    maps[:, :, 1] = 1.0
    maps[1, 0, 3] = 1.0
    judged = Judged(Session(f), x, labels, maps)
    found = make_metric("saliency-confidence:delta=0.5,reading=value").measure(judged)[1]
    for i, place, start, stop in ((0, 0, 3, 5), (1, 0, 3, 10)):
        crop = nn.functional.interpolate(x[i : i + 1, :, start:stop], 12, mode="linear")
        assert float(found[i, place]) == pytest.approx(
            float(f.probabilities(crop)[0, labels[i, place]]), abs=1e-5
        )
    assert bool(found[1, 1].isnan())


def test_positions_have_times_and_values_have_channel_names() -> None:
    assert BEATS.position_names == ("0 to 1 s", "1 to 2 s", "2 to 3 s")
    assert Series(length=3, rate=2.0).position_names == ("0 s", "0.5 s", "1 s")
    x = torch.arange(24.0).view(2, 12)
    assert BEATS.value_text(x, 1) == "left 5.5, right 17.5"
    uneven = Series(length=10, segments=4)
    owned = uneven.over_channels(torch.arange(4))[0].tolist()
    assert owned == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert uneven.position_names == ("0 to 3", "3 to 5", "5 to 8", "8 to 10")


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"names": ("a",)}, "2 channels need as many names, not 1"),
        ({"rate": 0.0}, "rate must be the number of time steps per second"),
        ({"segments": 13}, "segments must be between 1 and the length 12, not 13"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(pm.InputError, match=told):
        Series(length=12, mean=(0, 0), std=(1, 1), **settings)  # type: ignore[arg-type]


def test_fills_in_time_show_the_series_itself() -> None:
    f, x = net(), normal(4, 2, 12, seed=3)
    keys = streams.image_keys(x, 0, "fill")
    assert torch.equal(bound(make_fill("time-reversal"), f)(x, keys), x.flip(-1))
    moved = bound(make_fill("time-shift"), f)(x, keys)
    for one, other in zip(x, moved, strict=True):
        shifts = [k for k in range(12) if torch.equal(one.roll(k, dims=-1), other)]
        assert len(shifts) == 1 and 2 <= shifts[0] <= 10  # an eighth of the length at least


@pytest.mark.parametrize("fill", ["noise", "blur", "road", "time-shift"])
def test_series_with_segments_are_judged_with_every_fill(fill: str) -> None:
    f, x = net(), normal(2, 2, 12, seed=1)
    metrics = [f"completeness:fill={fill},draws=2"]
    found = pm.evaluate(f, x, methods=["occlusion", "kernel-shap:fill=none"], metrics=metrics, labels="all")
    assert found.results[0].maps is not None and found.results[0].maps.shape == (2, 2, 3)
    assert "2 series" in found.table()


def test_the_proof_is_marked_on_the_line() -> None:
    f, x = net(), normal(2, 2, 12, seed=1)
    proof = pm.explain(f, x, labels="top1", method="gradient-x-input")
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    shape = shape_of(evaluation, result, 0, 0)
    heat = evaluation.map_of(result, 0, 0)
    plain, marked = BEATS.picture(x[0]), np.asarray(marked_line(x[0], heat, BEATS, shape.cut, (0, 110, 75)))
    changed = (plain != marked).any(axis=2)
    kept = heat.argsort(descending=True)[: round(3 * shape.cut)].tolist()
    expected = np.isin(BEATS.pixel_positions().numpy(), kept)
    assert changed[expected].all() and not changed[~expected].any()
    assert explained_sheet(evaluation, 0).height > 100
