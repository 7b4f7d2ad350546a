"""Runs of an earlier version are refused; runs of other source are read, but not continued."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from proofmap.core.version import source_version
from proofmap.report.display import evaluation_record
from proofmap.study import Run, StoreError, Study, run_study, verify_run
from proofmap.study.manifest import Manifest
from proofmap.study.run import preview
from tests.command import run as command
from tests.study.studies import facts, toy_study


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
