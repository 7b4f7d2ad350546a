"""What a run must not do in silence: lose values, keep a refused wish, pass an audit half done, hide what is left."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofmap.core.errors import InputError
from proofmap.core.version import source_version
from proofmap.report.display import evaluation_record
from proofmap.study import Run, RunBusy, Selection, StoreError, Study, run_study, verify_run
from proofmap.study.manifest import Manifest
from proofmap.study.resume import _check_same
from proofmap.study.run import preview
from proofmap.study.store import Store
from tests.command import run as command
from tests.study.studies import facts, photos, toy_study


def test_a_retry_touches_only_what_the_study_will_do_again(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def picky(classifier, images, labels):\n    raise RuntimeError('too dark')\n")
    study = toy_study(tmp_path, 4, methods=[f"{mine}:picky", "random"], metrics=["insertion", "deletion"])
    assert run_study(study, tmp_path / "run").failed == 4
    before = facts(tmp_path / "run")
    run_study(replace(study, methods=("random",)), tmp_path / "run", retry=True)
    assert facts(tmp_path / "run") == before, "the failures of another method stay on record"
    with pytest.raises(InputError, match="every metric of the run; this study does not name deletion"):
        run_study(replace(study, metrics=("insertion",)), tmp_path / "run", retry=True)
    assert facts(tmp_path / "run") == before


def test_a_run_without_results_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    with monkeypatch.context() as patch:
        patch.setattr("proofmap.study.run.units_left", stop)
        with pytest.raises(KeyboardInterrupt):
            run_study(replace(study, seed=5), tmp_path / "run")
    assert (tmp_path / "run" / "run.json").exists()
    assert (
        run_study(study, tmp_path / "run").complete and Manifest.read(tmp_path / "run").identity["seed"] == 0
    )


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_refused_study_leaves_no_folder_and_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    before = sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts)
    nothing_left = replace(study, images=Selection(min_second_probability=1.0))
    for out in ("run", "new/folders/run"):
        with pytest.raises(InputError, match="no image is left to study"):
            run_study(nothing_left, tmp_path / out)
    words = ["--model", study.model, "--data", str(study.data[0]), "--min-second-probability", "1"]
    words += ["--methods", "random", "--out", str(tmp_path / "run")]
    assert command(monkeypatch, "evaluate", *words) == 2
    assert "no image is left" in " ".join(capsys.readouterr().err.split())
    assert sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    with pytest.raises(InputError):
        run_study(nothing_left, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_lock_that_was_taken_away_is_not_held(tmp_path: Path) -> None:
    """One that waits for a run that is then refused must not hold the lock of a file that nobody else sees."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").touch()
    with pytest.MonkeyPatch.context() as patch:
        connect = sqlite3.connect

        def removed_meanwhile(path: Path, **how: Any) -> sqlite3.Connection:
            patch.setattr(sqlite3, "connect", connect)
            opened = connect(path, **how)
            shutil.rmtree(tmp_path / "run")
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "lock").touch()
            return opened

        patch.setattr(sqlite3, "connect", removed_meanwhile)
        with Store.locked(tmp_path / "run"), pytest.raises(RunBusy), Store.locked(tmp_path / "run"):
            pass


def test_a_run_that_is_not_finished_says_so_and_passes_no_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(tmp_path, 4, methods=["gradient-x-input", "gradient"])
    run_study(study, tmp_path / "run")
    photos(tmp_path / "photos", 2, first=4)
    run_study(replace(study, methods=("gradient-x-input",)), tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert run.unfinished() == {"gradient": 2}
        assert any("gradient lacks 2 of 6 images" in note for note in run.notes())

    audit = ("audit", str(tmp_path / "run"), "--min-soundness", "0")
    assert command(monkeypatch, *audit) == 1 and "not finished" in capsys.readouterr().err
    assert command(monkeypatch, *audit, "--unfinished") == 0
    run_study(study, tmp_path / "run")
    assert command(monkeypatch, *audit) == 0


def test_another_python_is_named_where_a_digest_alone_differs(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2, methods=["random"])
    run_study(study, tmp_path / "run")
    manifest = Manifest.read(tmp_path / "run")
    new = {**manifest.identity, "fingerprint": "b"}
    with pytest.raises(InputError, match=r"the net's weights or code: .* there, b now\nChoose"):
        _check_same(tmp_path, manifest, new)
    elsewhere = replace(manifest, environments=({**manifest.environments[0], "python": "3.1.0"},))
    with pytest.raises(InputError, match=r"perhaps only because of the version of python: 3\.1\.0 there"):
        _check_same(tmp_path, elsewhere, new)
    with pytest.raises(InputError) as refused:  # the seed is reason enough
        _check_same(tmp_path, elsewhere, {**new, "seed": 1})
    assert "perhaps" not in str(refused.value)


# ---- Runs of an earlier version are refused; runs of other source are read, but not continued -------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("earlier")
    study = toy_study(folder, 4, methods=["random", "gradient"])
    run_study(study, folder / "run", threads=1)
    return study, folder / "run"


@pytest.mark.parametrize("schema", [1, 99])
def test_a_run_of_another_format_is_refused_in_words(
    schema: int,
    finished: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, folder = finished[0], shutil.copytree(finished[1], tmp_path / "run")
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**content, "schema": schema}))
    before = {path: path.read_bytes() for path in (folder / "run.json", folder / "scores.sqlite")}
    for attempt in (
        lambda: Run(folder),
        lambda: run_study(study, folder),
        lambda: preview(study, folder),
        lambda: verify_run(folder),
    ):
        with pytest.raises(StoreError, match=r"made by another Proofmap.*another --out"):
            attempt()
    flags = ["--model", study.model, "--data", str(study.data[0]), "--labels", "top3", "--methods", "random"]
    assert command(monkeypatch, "evaluate", *flags, "--out", str(folder)) == 2
    printed = capsys.readouterr()
    assert "another Proofmap" in printed.err and "another --out" in printed.err and not printed.out
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_of_other_source_is_read_but_not_continued(
    finished: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, folder = finished[0], shutil.copytree(finished[1], tmp_path / "run")
    before = (folder / "run.json").read_text(), facts(folder)
    other = "0.1.0+src.00000000"
    for module in ("core.version", "study.resume"):
        monkeypatch.setattr(f"proofmap.{module}.source_version", lambda: other)
    refusal = rf"made with Proofmap {re.escape(source_version())}, and numbers of {re.escape(other)} may"
    for change in ({}, {"methods": ("gradient-x-input",)}):
        with pytest.raises(StoreError, match=refusal):
            run_study(replace(study, **change), folder)
    flags = ["--model", study.model, "--data", str(study.data[0]), "--labels", "top3", "--methods", "random"]
    assert command(monkeypatch, "evaluate", *flags, "--out", str(folder)) == 2
    told = capsys.readouterr().err
    assert source_version() in told and other in told and "can be read (report, compare, audit" in told
    for arguments in (
        ["report", "--out", str(folder / "page.html")],
        ["audit", "--min-soundness", "0", "--method", "random"],
        ["export", "--out", str(folder / "tables")],
    ):
        assert command(monkeypatch, arguments[0], str(folder), *arguments[1:]) == 0, arguments
    with Run(folder) as run:
        evaluation = run.evaluation()
    made = evaluation.settings["proofmap"]
    assert evaluation_record(evaluation)["proofmap"] == made == source_version(), "not the one that reads"
    assert ((folder / "run.json").read_text(), facts(folder)) == before
    manifest = Manifest.read(folder)
    with pytest.raises(StoreError, match="may differ"):  # a worker elsewhere with another version
        manifest.continued({**manifest.environments[0], "proofmap": "9.9"})
