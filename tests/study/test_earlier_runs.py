"""Runs of version 0.1.0, whose manifest has schema 1: they can be read, but not continued."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofmap.core.version import source_version
from proofmap.report.display import evaluation_record
from proofmap.study import Run, StoreError, Study, run_study, verify_run
from proofmap.study.preview import preview
from tests.command import run as command
from tests.study.studies import facts, toy_study


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("earlier")
    study = toy_study(folder, 4, methods=["random", "gradient"])
    run_study(study, folder / "run", threads=1)
    return study, folder / "run"


@pytest.fixture
def old_run(finished: tuple[Study, Path], tmp_path: Path) -> tuple[Study, Path]:
    """A run as version 0.1.0 left it: its manifest has schema 1, no digest and no copy."""
    study, folder = finished[0], shutil.copytree(finished[1], tmp_path / "run")
    content = json.loads((folder / "manifest.json").read_text())
    del content["digest"]
    (folder / "manifest.json").write_text(json.dumps({**content, "schema": 1}))
    with closing(sqlite3.connect(folder / "scores.sqlite")) as database:
        database.execute("DELETE FROM notes WHERE key = 'manifest.json'")
        database.commit()
    return study, folder


def test_an_earlier_run_is_read(old_run: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = old_run
    before = (folder / "manifest.json").read_text(), facts(folder)
    with Run(folder) as run:
        assert len(run.evaluation(pictured=2).pictured) == 2 and run.maps_of("random", "00.png").ndim == 3
    assert verify_run(folder) == []
    for arguments in (
        ["report", "--out", str(folder / "page.html")],
        ["compare"],
        ["audit", "--min-soundness", "0", "--method", "random"],
        ["export", "--out", str(folder / "tables")],
        ["verify"],
    ):
        assert command(monkeypatch, arguments[0], str(folder), *arguments[1:]) == 0, arguments
    assert (folder / "page.html").is_file() and (folder / "tables" / "per_image.csv").is_file()
    assert ((folder / "manifest.json").read_text(), facts(folder)) == before


@pytest.mark.parametrize("change", [{}, {"methods": ("gradient-x-input",)}, {"seed": 5}])
def test_an_earlier_run_is_not_continued(change: dict[str, Any], old_run: tuple[Study, Path]) -> None:
    study, folder = old_run
    before = (folder / "manifest.json").read_text(), facts(folder)
    refusal = r"made by an earlier Proofmap.*can be read \(report, .*not continued; choose another --out"
    with pytest.raises(StoreError, match=refusal):
        run_study(replace(study, **change), folder)
    with pytest.raises(StoreError, match=refusal):
        preview(replace(study, **change), folder)
    assert ((folder / "manifest.json").read_text(), facts(folder)) == before


def test_a_run_of_other_source_is_read_but_not_continued(
    finished: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, folder = finished[0], shutil.copytree(finished[1], tmp_path / "run")
    before = (folder / "manifest.json").read_text(), facts(folder)
    other = "0.1.0+src.00000000"
    for module in ("environment", "resume"):
        monkeypatch.setattr(f"proofmap.study.{module}.source_version", lambda: other)
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
    assert ((folder / "manifest.json").read_text(), facts(folder)) == before


def test_evaluate_into_an_earlier_run_says_why_it_is_refused(
    old_run: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, folder = old_run
    flags = ["--model", study.model, "--data", str(study.data[0]), "--labels", "top3", "--methods", "random"]
    assert command(monkeypatch, "evaluate", *flags, "--out", str(folder)) == 2
    printed = capsys.readouterr()
    assert "earlier Proofmap" in printed.err and "choose another --out" in printed.err and not printed.out


def test_damage_to_an_earlier_run_can_be_removed_but_not_computed_again(
    old_run: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, folder = old_run
    next((folder / "maps").iterdir()).write_bytes(b"damaged")
    assert command(monkeypatch, "verify", str(folder)) == 1
    assert command(monkeypatch, "verify", str(folder), "--repair") == 0
    after = "cannot compute it again, because an earlier Proofmap made this run"
    assert capsys.readouterr().err.count(after) == 2
    assert verify_run(folder) == []


def test_a_damaged_manifest_is_restored_by_the_command_that_its_message_names(
    finished: tuple[Study, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(finished[1], tmp_path / "run")
    (folder / "manifest.json").write_bytes(b"")
    assert command(monkeypatch, "audit", str(folder), "--min-soundness", "0") == 2
    assert f"proofmap verify {folder} --repair" in " ".join(capsys.readouterr().err.split())
    assert command(monkeypatch, "verify", str(folder)) == 1
    assert "manifest.json" in capsys.readouterr().out
    assert command(monkeypatch, "verify", str(folder), "--repair") == 0
    assert capsys.readouterr().err.strip() == "restored"
    audit = ["audit", str(folder), "--min-soundness", "0", "--method", "random", "--no-controls"]
    assert command(monkeypatch, *audit) == 0
