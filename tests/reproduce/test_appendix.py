"""The recipes of the appendix: CIFAR-10, CIFAR-100 and ImageNet, each on tiny data, and what they add to the frame."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.core.version import source_version
from proofmap.metrics.boxes import SaliencyMetric
from proofmap.reproduce import artifacts
from proofmap.reproduce.claims import compared
from proofmap.reproduce.findings import Job
from proofmap.reproduce.recipe import Recipe, merged
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.run import Reproduction, reproduce
from proofmap.reproduce.stored_maps import StoredMaps
from proofmap.reproduce.study_recipe import Tuning, judge_rows
from tests.command import run as command
from tests.reproduce.small_world import APPENDIX, small_data, small_nets

FIGURES = {
    "artifacts": ["artifact"],
    "curves": ["tv-curves"],
    "tv": ["curves"],
    "imagenet": ["curves", "mask-grid", "mask-grid-wrong", "mask-pairs", "mask-pairs-second"],
}


@pytest.fixture(autouse=True)
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    small_nets(monkeypatch)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("data"))


def _runs_in_make_test(name: str) -> bool:
    """Recipes of CIFAR-100 that are those of CIFAR-10 with other data run in make test-all."""
    return name.replace("cifar100", "cifar10") == name or name.replace("cifar100", "cifar10") not in APPENDIX


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if _runs_in_make_test(name) else [pytest.mark.slow]) for name in APPENDIX],
)
def test_every_recipe_of_the_appendix_runs_quickly(
    name: str, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)  # a second each
    if name != "cifar10-curves":  # the others' figures are drawn elsewhere
        monkeypatch.setattr("proofmap.reproduce.run.draw", lambda _, path: path)
    found = reproduce(name, tmp_path / "out", data=data, quick=True)
    told = json.loads((tmp_path / "out" / "paper.json").read_text())
    assert told["numbers"] and told["variant"] in ("resnet56", "efficientnet-lite0")
    assert any("in place of the paper's" in note for note in found.outcome.notes)
    figures = list(found.outcome.named_figures)
    assert figures == FIGURES.get(name.rpartition("-")[2], [])
    if name == "cifar10-curves":
        assert (tmp_path / "out" / f"{figures[0]}.png").exists()
    settings = found.recipe.settings
    for row, cells in settings.get("paper", {}).items():
        for metric, printed in cells.items():
            (number,) = (
                n
                for n in told["numbers"]
                if (n.get("method"), n.get("score")) == (row, metric) and "paper" in n and "than" not in n
            )
            assert number["paper"] == printed and number["n"] >= 2
    statements = [claim.statement for claim in found.outcome.claims]
    rows = {number.get("method") for number in told["numbers"]}  # --quick leaves some out
    for entry in settings.get("orderings", ()):
        there = rows & {*entry["better"]} and rows & {*entry["than"]}
        assert (entry["says"] in statements) == bool(there)


# ---- maps of another recipe ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run of ``cifar10-tv``."""
    with pytest.MonkeyPatch.context() as patch:
        small_nets(patch)
        patch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)
        patch.setattr("proofmap.reproduce.run.draw", lambda _, path: path)
        folder = tmp_path_factory.mktemp("runs") / "tv"
        reproduce("cifar10-tv", folder, data=data, quick=True)
    return folder


def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page and no figures; and an error where a mask is learned."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a mask is learned again")

    monkeypatch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)
    monkeypatch.setattr("proofmap.reproduce.run.draw", lambda _, path: path)
    monkeypatch.setattr("proofmap.methods.masks.method.MaskMethod.maps", refuse)


def test_masks_of_another_recipe_are_not_learned_again(
    tmp_path: Path, data: Path, learned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _quick(monkeypatch)
    before = {path.name: path.read_bytes() for path in learned.iterdir() if path.is_file()}
    found = reproduce("cifar10-curves", tmp_path / "out", data=data, quick=True, start=learned)
    rows, scores = zip(*((n["method"], n["score"]) for n in found.outcome.tables[1].records), strict=True)
    assert list(dict.fromkeys(rows)) == ["TV 0", "TV .001", "TV .01", "TV .1"]  # not the others of the run
    assert set(scores) == {"insertion, gray", "insertion, random image"}
    _assert_finished(found, tmp_path / "out", learned)
    assert before == {path.name: path.read_bytes() for path in learned.iterdir() if path.is_file()}
    assert found.outcome.work is not None and not found.outcome.work.whole  # the masks are not its own
    areas = {(n["method"], n["score"]): n["value"] for n in found.outcome.tables[0].records}
    for record in found.outcome.tables[1].records:  # the curves are those of the study's metrics
        fill = str(record["score"]).removeprefix("insertion, ")
        assert areas[record["method"], f"top label, {fill}"] == pytest.approx(record["value"], abs=1e-6)


def _assert_finished(found: Reproduction, folder: Path, start: Path) -> None:
    """No note tells of rows and metrics that the recipe does not ask for, though its run has them from another."""
    assert not any("not finished" in note for note in found.outcome.notes)
    with pm.Run(folder) as run, pm.Run(start) as before:
        assert {*run.metrics} > {*before.metrics}
        both = run.unfinished()
        assert both and any("not finished" in note for note in run.notes())
        first, *_ = both  # what is asked for and lacks is still told
        assert run.unfinished([first]) == {first: both[first]} and "lacks" in run.notes([first])[-1]


def test_a_run_of_other_source_is_refused_and_nothing_is_left(
    tmp_path: Path,
    data: Path,
    learned: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("core.version", "study.resume"):
        monkeypatch.setattr(f"proofmap.{module}.source_version", lambda: "0.1.0+src.00000000")
    asked = ("reproduce", "cifar10-curves", "--quick", "--data", str(data), "-q", "--from")
    assert command(monkeypatch, *asked, str(learned)) == 2
    told = capsys.readouterr().err
    assert f"cannot begin with {learned}: the run was made with Proofmap {source_version()}" in told
    assert "0.1.0+src.00000000" in told and "Leave out --from" in told
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_run_of_other_labels_is_refused_and_nothing_is_left(
    tmp_path: Path,
    data: Path,
    learned: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("reproduce", "cifar10-range", "--quick", "--data", str(data), "-q", "--from")
    assert command(monkeypatch, *asked, str(learned)) == 2
    told = capsys.readouterr().err
    assert "cannot begin with" in told and "labels" in told and "Leave out --from" in told
    assert command(monkeypatch, *asked, str(tmp_path)) == 2
    assert command(monkeypatch, "reproduce", "desk", "--from", str(learned)) == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_rows_one_after_the_other_are_those_of_one_run(
    tmp_path: Path, data: Path, learned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)
    monkeypatch.setattr("proofmap.reproduce.run.draw", lambda _, path: path)
    asked = {"data": data, "quick": True}
    first = reproduce("cifar10-tv", tmp_path / "out", rows=["TV *", "belief-mask"], **asked)  # type: ignore[arg-type]
    some = ["TV 0", "TV .001", "TV .01", "TV .1", "belief-mask"]
    assert [row[0] for row in first.outcome.tables[0].rows] == some
    assert any(note.startswith("5 of 7 rows, as --rows says") for note in first.outcome.notes)
    told = {row: what for row, what, _ in first.outcome.tables[-1].rows}
    assert told["TV 0"].startswith("learned-mask:") and "tv=0" in told["TV 0"] and "tv=" not in told["TV .1"]
    assert told["belief-mask"] == "belief-mask:passes=6" and "steps=2,learning_rate=" in told["TV .1"]
    assert any(claim.statement == "total variation raises soundness" for claim in first.outcome.claims)
    with pm.Run(tmp_path / "out") as run, pm.Run(learned) as whole:
        assert run.manifest.images_per_unit == whole.manifest.images_per_unit
    rest = reproduce("cifar10-tv", tmp_path / "out", **asked)  # type: ignore[arg-type]
    work, at_first = rest.outcome.work, first.outcome.work
    assert work is not None and at_first is not None and not work.whole and 0 < work.passes < at_first.passes
    assert not any("--rows" in note or "not finished" in note for note in rest.outcome.notes)
    numbers = [
        json.loads((folder / "paper.json").read_text())["numbers"] for folder in (tmp_path / "out", learned)
    ]
    assert numbers[0] == numbers[1]


def test_rows_that_are_not_there_or_belong_together_are_refused(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--quick", "--data", str(data), "-q", "--rows")
    monkeypatch.setattr("proofmap.reproduce.recipe.Need.is_there", lambda need, _: not need.gives)
    assert command(monkeypatch, "reproduce", "imagenette", *asked, "Phang*") == 2
    assert "none of the rows in --rows can be computed here. Phang et al.: supply" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    small_nets(monkeypatch)
    assert command(monkeypatch, "reproduce", "cifar10-tv", *asked, "TV 7") == 2
    told = capsys.readouterr().err
    assert "no row is named 'TV 7'" in told and "TV .01; TV .1;" in told.replace("\n", " ")
    assert command(monkeypatch, "reproduce", "cifar10-curves", *asked, "TV 0") == 2
    assert "leave out --rows" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("row, whole", [("Random", True), ("Ours", False)])
def test_rows_of_corners_have_whole_photos_beside_them_where_the_recipe_has(
    row: str, whole: bool, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)
    found = reproduce("imagenette-corner", tmp_path / "out", data=data, quick=True, rows=[row])
    assert [name for name, *_ in found.outcome.tables[0].rows] == [
        row,
        *([f"{row}, whole photos"] if whole else []),
    ]
    assert (tmp_path / "out" / "whole").exists() == whole


# ---- what is read off the maps ---------------------------------------------------------------------------------


def _stored(name: str, folder: Path, data: Path) -> StoredMaps:
    recipe = Recipe.named(name).with_variant(data)
    study = study_of(Job(recipe, recipe.chosen(data=data, quick=True), folder))
    return StoredMaps.open(folder, study, None)


def test_the_saliency_metric_is_tuned_on_images_that_it_does_not_count(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)
    recipe = Recipe.named("cifar10-metrics").with_variant(data)
    settings = merged(
        recipe.chosen(data=data, quick=True),
        {
            "study": {"methods": [{"name": "Random", "method": "random"}, {"method": "gradient"}]},
            "tuned": {"deltas": [0.0, 0.6, 1.2, 2.0]},
        },
    )
    job = Job(recipe, settings, tmp_path / "out")
    found = judge_rows(job)
    study = study_of(replace(job, settings=Tuning({}, 0).settings(settings)))
    stored = StoredMaps.open(job.folder, study, None)
    for result, (row, chosen, *_) in zip(found.evaluation.results, found.tables[0].rows, strict=True):
        values = {
            delta: SaliencyMetric(delta=delta)(stored.judged(result.name))
            for delta in settings["tuned"]["deltas"]
        }
        best = min(values, key=lambda delta: float(values[delta][0]))
        assert (row, float(chosen)) == (result.name, best)
        score = result.score("saliency-metric")
        assert score.n == 2 and score.value == pytest.approx(float(values[best][1:].mean()), abs=1e-5)
        assert result.values["saliency-metric"].isnan().tolist() == [True, False, False]
    assert found.tables[0].title.endswith("tuned on 1 image that it does not count")
    assert found.work.whole and not judge_rows(job).work.whole  # the second time all of it is there


def test_what_masked_images_make_the_net_see_is_what_a_plain_loop_finds(learned: Path, data: Path) -> None:
    stored = _stored("cifar10-tv", learned, data)
    found = artifacts.measured(stored, "TV 0")
    net, gray = stored.classifier, torch.tensor(stored.classifier.mean)[:, None, None]
    for i in range(2):
        for j in range(2):
            mask, label = stored.maps("TV 0")[i, j], int(stored.labels[i, j])
            p = net.probabilities((mask * stored.images[i] + (1 - mask) * gray)[None])[0]
            assert float(found["f on x~"][i, j]) == pytest.approx(float(p[label]), abs=1e-5)
            assert bool(found["first"][i, j]) == (int(p.argmax()) == label)
            assert float(found["area"][i, j]) == pytest.approx(float(mask.mean()), abs=1e-5)
            whole = net.probabilities(stored.images[i : i + 1])[0, label]
            assert float(found["f"][i, j]) == pytest.approx(float(whole), abs=1e-5)


def test_a_mean_of_differences_decides_or_does_not() -> None:
    above = torch.tensor([0.1, 0.2, 0.3, 0.2]).repeat(2)
    assert [compared("s", d, "by").verdict for d in (above, -above, above - 0.2)] == [
        "reproduced",
        "contradicted",
        "undecided",
    ]
    assert compared("s", above[:5], "by").verdict == "undecided"  # as few images could do so by chance
    few = "n = 4, where fewer than 6 images decide nothing"
    assert compared("s", above[:4], "by").found == f"by +.200 [+.070, +.330], {few}"


# ---- the recipes' files ----------------------------------------------------------------------------------------
