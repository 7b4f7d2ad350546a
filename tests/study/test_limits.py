"""Limits that the system sets: little memory, and a run directory that cannot be written to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proofmap.core.errors import InputError
from proofmap.study import Run, Study, run_study, verify_run
from tests.command import run as command
from tests.study.processes import Processes
from tests.study.studies import facts, toy_study

GREEDY = """\
import torch


def greedy(classifier, images, labels):
    if images[:, 0, 0, 0].max() > 0.5:
        torch.empty(1 << 30)  # four gigabytes of addresses; nothing is written to them
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
def test_what_failed_without_memory_is_named_and_computed_again_where_there_is_more(
    processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    study = toy_study(tmp_path, 4, methods=["gradient", f"{tmp_path / 'greedy.py'}:greedy"])
    answer = processes.run(study, tmp_path / "run", memory=2 << 30)  # threads take some of it
    assert answer is not None and "failed" in answer, answer
    failures = facts(tmp_path / "run")["failures"]
    assert answer["failed"] == len(failures) > 0
    assert all(method == "greedy" and "memory" in reason for method, _, reason in failures), failures
    assert verify_run(tmp_path / "run") == []
    assert (processes.run(study, tmp_path / "run", retry=True) or {})["failed"] == 0
    assert processes.run(study, tmp_path / "whole") == {"units": 4, "failed": 0}
    assert facts(tmp_path / "run") == facts(tmp_path / "whole") and verify_run(tmp_path / "run") == []


@pytest.fixture
def read_only(run: tuple[Study, Path], tmp_path: Path) -> Iterator[tuple[Study, Path]]:
    """A finished run where nothing can be written."""
    study, folder = run
    if not hasattr(os, "getuid") or os.getuid() != 0:
        pytest.skip("only root may mount a folder")
    target = tmp_path / "mount"
    target.mkdir()
    try:
        for words in (["--bind", str(folder)], ["-o", "remount,ro,bind"]):
            made = subprocess.run(["mount", *words, str(target)], capture_output=True, text=True)
            if made.returncode:
                pytest.skip(f"no folder can be mounted here: {made.stderr.strip()}")
        yield study, target
    finally:
        subprocess.run(["umount", str(target)], capture_output=True)


def test_a_run_that_cannot_be_written_to_is_read_and_not_continued(
    read_only: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, folder = read_only
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert command(monkeypatch, "doctor", str(folder)) == 0
    with Run(folder) as opened:
        assert len(opened.evaluation().results) == 3
    with pytest.raises(InputError, match="cannot be written to; choose another --out"):
        run_study(replace(study, methods=("edges",)), folder)
    capsys.readouterr()
    asked = ("--model", study.model, "--data", str(study.data), "--methods", "edges", "--out", str(folder))
    assert command(monkeypatch, "evaluate", *asked) == 2
    told = capsys.readouterr().err
    assert "cannot be written to; choose another --out" in told and "Traceback" not in told
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
