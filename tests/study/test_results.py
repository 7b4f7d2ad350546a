"""Reading a run: its numbers, its pictures, its failures, and its tables in other formats."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.cli.runs import export_run
from proofmap.core.errors import InputError
from proofmap.data.photos import load_images
from proofmap.report.runs import write_run_report
from proofmap.results.audit import audit
from proofmap.results.evaluation import Evaluation
from proofmap.results.score_tables import shared_table
from proofmap.results.statistics import mean_interval
from proofmap.study import Run, Selection, StoreError, Study, run_study
from proofmap.study.executor import RayExecutor
from proofmap.study.manifest import Manifest
from proofmap.study.stored_run import verify_run
from tests.data.made_up import save
from tests.review_net import NET
from tests.study.forked_ray import ForkedRay
from tests.study.processes import Processes
from tests.study.studies import METHODS, NAMES, classifier_of, evaluation_of, facts, toy_study
from tests.toys import conv_classifier

N = 5
METRICS = ("completeness", "soundness", "best-effort", "insertion", "deletion")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of five pictures and one that cannot be read, beside the pictures."""
    folder = tmp_path_factory.mktemp("results")
    study = toy_study(folder, N, labels="p>=0.19")
    (folder / "photos" / "zz.png").write_bytes(b"no picture")
    run_study(study, folder / "run")
    return folder


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    with Run(folder / "run") as run:
        yield run


# ---- reading --------------------------------------------------------------------------------------------------


def test_a_run_tells_what_it_holds(run: Run) -> None:
    assert [image.name for image in run.images] == [f"{k:02d}.png" for k in range(N)]
    assert tuple(run.methods) == METHODS and tuple(run.metrics) == METRICS and run.label_names == NAMES
    assert "5 images, 3 methods" in repr(run)
    (failure,) = run.failures()
    assert (failure.image, failure.method) == ("zz.png", "") and "zz.png" in failure.reason
    assert run.table().startswith(run.evaluation().table()) and run.table().endswith(
        "1 image could not be read and is not counted"
    )


def test_an_evaluation_is_what_the_tables_hold(run: Run, folder: Path) -> None:
    found = run.evaluation()
    stored = facts(folder / "run")
    images = {
        (r.name, metric, name): value
        for r in found.results
        for metric, column in r.values.items()
        for name, value in zip(found.image_names, column.tolist(), strict=True)
    }
    assert len(images) == 3 * 5 * N
    for method, metric, image, _, value in stored["per_image"]:
        expected = images.pop((method, metric, image))
        assert value == expected or (value is None and math.isnan(expected))
    assert images == {}
    rows = {(row["method"], row["image"], row["name"]): row for r in found.results for row in r.rows}
    assert len(rows) == len({(m, i, label) for m, _, i, _, label, *_ in stored["per_label"]})
    for method, metric, image, label, name, f, _, value in stored["per_label"]:
        row = rows[method, image, name]
        assert row["label"] == label and row["f"] == pytest.approx(f, rel=1e-5)
        assert row[metric] == pytest.approx(math.nan if value is None else value, nan_ok=True)


def test_a_person_may_choose_what_is_pictured(run: Run, folder: Path) -> None:
    bare = run.evaluation()
    assert bare.pictured == () and bare.images.numel() == 0
    assert run.evaluation(2).pictured == (0, 1) and run.evaluation(99).pictured == (0, 1, 2, 3, 4)
    chosen = run.evaluation([3, 1])
    assert chosen.pictured == (3, 1)

    def worst(found: Evaluation) -> list[int]:
        return [int(found["gradient"].values["completeness"].argmin())]

    shown = run.evaluation(worst)
    assert shown.pictured == tuple(worst(bare))
    pixels = load_images(folder / "photos" / "03.png", conv_classifier(8, 5))
    assert torch.equal(chosen.image_of(3), pixels[0])
    for method in METHODS:
        stored = run.maps_of(method, "03.png")
        assert torch.equal(chosen.map_of(chosen[method], 3, 0), stored[0])
        assert chosen[method].maps.shape[1] == (1 if method == "random" else bare.labels.shape[1])


def test_places_that_are_not_there_are_told(run: Run) -> None:
    for places in ([N], [-1]):
        with pytest.raises(InputError, match=f"there is no image .*0 to {N - 1}"):
            run.evaluation(places)
    with pytest.raises(InputError, match="no method 'nothing'"):
        run.maps_of("nothing", "00.png")


def test_pictures_that_changed_or_went_are_left_out(folder: Path, tmp_path: Path) -> None:
    study = toy_study(tmp_path, 3, methods=["gradient"])
    run_study(study, tmp_path / "run")
    (tmp_path / "photos" / "00.png").unlink()
    save(tmp_path / "photos", "01.png", 99)
    with Run(tmp_path / "run") as run:
        assert run.evaluation(3).pictured == (2,)
        shutil.rmtree(tmp_path / "photos")
        assert run.evaluation(3).pictured == (), "the numbers are there all the same"


def test_pictures_need_no_net_and_run_no_code(tmp_path: Path) -> None:
    """A run directory may come from anyone: what it names as its net is not loaded."""
    study = toy_study(tmp_path, 2, methods=["gradient"])
    run_study(study, tmp_path / "run")
    usual = classifier_of(study)
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'harm')!r}, 'w')\n")
    path = tmp_path / "run" / "run.json"
    manifest = Manifest.read(tmp_path / "run")
    replace(manifest, study={**manifest.study, "model": f"{evil}:make"}).write(tmp_path / "run")
    assert str(evil) in path.read_text()
    with Run(tmp_path / "run") as run:
        found = run.evaluation(2)
        assert found.pictured == (0, 1)
        expected = load_images([tmp_path / "photos" / name for name in found.image_names], usual)
    assert torch.equal(found.images, expected.cpu()) and not (tmp_path / "harm").exists()


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no run directory"):
        Run(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"is not a run directory of proofmap: it has no run\.json"):
        Run(tmp_path)


def test_a_run_without_results_says_how_to_go_on(processes: Processes, tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2)
    for k in (7, 15, 22):  # before the tables, in the survey, before the first unit
        folder = tmp_path / f"run-{k}"
        assert processes.run(study, folder, kill_at=k) is None
        with pytest.raises(
            StoreError, match=r"has no results yet|stopped before it stored anything|has no scores"
        ):
            evaluation_of(folder)


def test_a_run_can_be_read_while_another_process_writes_it(processes: Processes, tmp_path: Path) -> None:
    study = toy_study(tmp_path, 12, labels="top1")
    child = processes.start(study, tmp_path / "run")
    seen = []
    while not child.ended(0.02):
        try:
            found = evaluation_of(tmp_path / "run")
        except StoreError:
            continue
        seen.append({s.name: s.n for s in found.results[0].scores}["insertion"])
        assert all(r.insertion.auc.shape == found.labels.shape for r in found.results)
    assert (child.result() or {}).get("failed") == 0
    assert seen == sorted(seen), "what was read once stays"
    assert {s.name: s.n for s in evaluation_of(tmp_path / "run").results[0].scores}["insertion"] == 12


def test_machines_that_differ_are_told(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    manifest = Manifest.read(tmp_path / "run")
    (here,) = manifest.environments
    other = {**here, "device_name": "an abacus"}
    replace(manifest, environments=(here, other)).write(tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert "made on more than one machine or version (device_name" in run.table()
        assert "an abacus" in run.table()


# ---- tables for other programs --------------------------------------------------------------------------------


def read_back(path: Path) -> list[dict[str, Any]]:
    """The rows of a file with numbers as numbers."""
    if path.suffix == ".json":
        rows: list[dict[str, Any]] = json.loads(path.read_text(), parse_constant=pytest.fail)
        return rows
    numbers = {"value": float, "low": float, "high": float, "f": float, "n": int, "label": int, "truth": int}
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {k: (None if v == "" else numbers.get(k, str)(v)) for k, v in row.items()}
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_exported_tables_hold_every_value_exactly(
    format: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    files = export_run(run, tmp_path / "out", format)
    assert [f.name for f in files] == [f"{name}.{format}" for name in ("scores", "per_image", "per_label")]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(f.name for f in files)
    scores, per_image, per_label = map(read_back, files)
    stored = facts(folder / "run")
    assert sorted(map(tuple, (row.values() for row in per_image)), key=str) == sorted(
        stored["per_image"], key=str
    )
    assert sorted(map(tuple, (row.values() for row in per_label)), key=str) == sorted(
        stored["per_label"], key=str
    )
    expected = [(r.name, s) for r in run.evaluation().results for s in r.scores]
    assert len(scores) == len(expected) == 15
    for row, (method, score) in zip(scores, expected, strict=True):
        assert (row["method"], row["metric"], row["n"]) == (method, score.name, score.n)
        for key in ("value", "low", "high"):
            expected_value = getattr(score, key)
            assert row[key] == (None if math.isnan(expected_value) else expected_value)
        assert json.loads(row["settings"])["labels"] == "p>=0.19"


def test_scores_are_exported_as_tables_to_read(run: Run, tmp_path: Path) -> None:
    (page,) = export_run(run, tmp_path, "md")
    (paper,) = export_run(run, tmp_path, "latex")
    assert (page.name, paper.name) == ("scores.md", "scores.tex")
    found = run.evaluation()
    assert page.read_text().startswith(shared_table(found).markdown()) and paper.read_text().endswith(
        shared_table(found).to_latex() + "\n"
    )
    for text in (page.read_text(), paper.read_text()):
        assert "1 image could not be read" in text, "the notes of the run go with it"


def test_numbers_as_dataframes(run: Run, folder: Path) -> None:
    pytest.importorskip("pandas")
    stored, found = facts(folder / "run"), run.evaluation()
    scores = run.to_dataframe()
    assert [tuple(row) for row in scores[["method", "metric", "n"]].to_numpy()] == [
        (r.name, s.name, s.n) for r in found.results for s in r.scores
    ]
    per_image = run.to_dataframe("per_image").dropna()
    expected = {(m, q, i): value for m, q, i, _, value in stored["per_image"] if value is not None}
    assert dict(zip(zip(*(per_image[c] for c in ("method", "metric", "image")), strict=True), per_image["value"], strict=True)) == expected  # fmt: skip
    per_label = found.to_dataframe("per_label").dropna()
    rows = zip(
        *(per_label[c] for c in ("method", "metric", "image", "label", "label_name", "value")), strict=True
    )
    assert sorted(rows) == sorted((m, q, i, k, n, v) for m, q, i, k, n, _, _, v in stored["per_label"] if v is not None)  # fmt: skip
    with pytest.raises(InputError, match="no table 'all'; there are scores, per_image, per_label"):
        run.to_dataframe("all")


def test_csv_has_one_row_per_value_whatever_the_names(tmp_path: Path) -> None:
    """Line breaks of every kind stay in their cell, and a spreadsheet runs no name as a formula."""
    awkward = ["a\rb.png", "a\nb.png", "=1+1.png", "+x.png", "-x.png", "@x.png", "\tx.png"]
    study = toy_study(tmp_path, 0, methods=["random"])
    for k, name in enumerate(awkward):
        save(tmp_path / "photos", name, k)
    run_study(study, tmp_path / "run")
    with Run(tmp_path / "run") as run:
        (path,) = export_run(run, tmp_path / "out", "csv", ["per_image"])
        names = [image.name for image in run.images]
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(awkward) * len(METRICS) and all(len(row) == 5 and None not in row for row in rows)
    expected = {f"'{name}" if name[0] in "=+-@\t" else name for name in names}
    assert {row["image"] for row in rows} == expected
    assert all(row["value"] == "" or 0 <= float(row["value"]) <= 1 for row in rows)


@pytest.mark.parametrize(
    "form, told",
    [
        (("xlsx",), "csv, json, md, latex, not 'xlsx'"),
        (("csv", ["score"]), "no table 'score' in csv; there are scores, per_image, per_label"),
        (("md", ["per_image"]), "no table 'per_image' in md; there are scores"),
        (("csv", []), "no table was named; there are scores"),
    ],
)
def test_what_cannot_be_exported_is_told(form: tuple[Any, ...], told: str, run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        export_run(run, tmp_path / "out", *form)
    assert not (tmp_path / "out").exists()


def killed_run(processes: Processes, folder: Path) -> None:
    """``folder/run``, which was finished with two images, then killed with more in its journal; ``copy`` is the same."""
    study = toy_study(folder, 20, labels="top1")
    assert processes.run(replace(study, images=Selection(number=2)), folder / "run") == {
        "units": 3,
        "failed": 0,
    }
    assert processes.run(study, folder / "run", kill_at=150) is None
    shutil.copytree(folder / "run", folder / "copy")
    assert len(facts(folder / "copy")["units"]) > 3


def test_a_killed_run_on_a_read_only_mount_does_not_pass_an_audit_of_its_first_images(
    processes: Processes, read_only: Callable[[Path], Path], tmp_path: Path
) -> None:
    killed_run(processes, tmp_path)
    with Run(read_only(tmp_path / "run")) as run, Run(tmp_path / "copy") as usual:
        assert run.table() == usual.table() and "not finished" in run.table()


def test_a_journal_whose_index_cannot_be_made_is_told(processes: Processes, tmp_path: Path) -> None:
    killed_run(processes, tmp_path)
    index = tmp_path / "run" / "scores.sqlite-shm"
    index.unlink()
    index.symlink_to(
        tmp_path / "none" / "index"
    )  # so that SQLite cannot make it, as in a folder that cannot be written to
    with pytest.raises(StoreError, match=r"cannot be read: .* read a copy of the run"):
        Run(tmp_path / "run")


# ---- kinds, and runs of the first form ------------------------------------------------------------------------


def test_a_run_has_the_kinds_of_its_metrics_and_knows_which_maps_are_signed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from typing import ClassVar\n"
        "from proofmap.metrics.proof_scores import Soundness\n"
        "class Mine(Soundness):\n"
        "    name: ClassVar[str] = 'mine'\n"
        "    kind: ClassVar[str] = 'soundness'\n"
    )
    metrics = ("completeness", f"{file}:Mine", "completeness:thresholds=released", "deletion")
    signed = {"gradient-x-input": True, "gradient": False, "top-label:gradient-x-input": True}
    study = toy_study(tmp_path, 2, methods=tuple(signed), metrics=metrics)
    run_study(study, tmp_path / "run")
    assert {r.name: r.signed for r in evaluation_of(tmp_path / "run").results} == signed
    expected = [
        ("completeness", "completeness"),
        ("mine", "soundness"),
        ("completeness-2", "completeness"),
        ("deletion", "deletion"),
    ]
    with Run(tmp_path / "run") as run:
        assert [(s.name, s.kind) for s in run.evaluation().results[0].scores] == expected
        assert [(m.name, m.kind) for m in run.metrics.values()] == expected
    assert verify_run(tmp_path / "run") == []


def test_a_run_knows_what_values_its_metrics_can_have(run: Run) -> None:
    limits = {metric.name: tuple(metric.limits) for metric in run.metrics.values()}
    assert limits["soundness"] == (0.0, 1.0)
    for result in run.evaluation().results:
        for score in result.scores:
            expected = mean_interval(result.values[score.name], limits=limits[score.name])
            assert (score.low, score.high) == pytest.approx(expected, nan_ok=True)


# ---- Studies of texts: stopped and resumed, on Ray's workers, audited, compared, and as a report, as studies of pictures are ---


TEXTS = ("A good film", "Bad and long", "Good songs but a bad plot and a bad end", "Good, good fun")


def text_study(folder: Path, **changes: Any) -> Study:
    """Two methods on four texts of different lengths, two to a block."""
    (folder / "net.py").write_text(NET, encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    settings: dict[str, Any] = {
        "model": f"{folder / 'net.py'}:make",
        "data": str(folder / "texts.txt"),
        "labels": "all",
        "methods": ("occlusion", "random"),
        "images_per_unit": 2,
        "metrics": ("completeness", "soundness"),
    }
    return Study(**{**settings, **changes})


def test_workers_of_ray_judge_texts_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    stand_in = ForkedRay(pytest.importorskip("ray.cloudpickle"))
    monkeypatch.setitem(sys.modules, "ray", stand_in)  # type: ignore[arg-type]
    study = text_study(tmp_path)
    run_study(study, tmp_path / "here")
    run_study(study, tmp_path / "there", executor=RayExecutor(workers=1))
    assert facts(tmp_path / "there") == facts(tmp_path / "here")


def test_runs_of_texts_are_audited_compared_and_reported(tmp_path: Path) -> None:
    run_study(text_study(tmp_path), tmp_path / "one")
    run_study(text_study(tmp_path, seed=1), tmp_path / "two")
    with Run(tmp_path / "one") as first, Run(tmp_path / "two") as second:
        one, two = first.evaluation(), second.evaluation()
        page = write_run_report(first, tmp_path / "report.html").read_text(encoding="utf-8")
    assert one.image_names == ("text-0", "text-1", "text-2", "text-3")
    found = audit(one, min_completeness=0.1, min_soundness=0.1, methods="occlusion")
    assert "occlusion" in str(found)
    compared = str(pm.compare({"one": one, "two": two}, allow_mismatch=True))
    assert "random" in compared and "completeness" in compared
    assert "occlusion" in page and "songs" in page  # a word of the third text
