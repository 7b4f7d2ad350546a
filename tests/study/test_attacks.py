"""What is done to a run while it goes on, or to its folder: files removed, replaced or made hostile, wrong clocks, no memory.

The long versions, with real disks and hundreds of kills, are scripts in ``benchmarks/attacks``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap_command
from proofmap.core.errors import InputError
from proofmap.core.files import check_output
from proofmap.reproduce.stored_maps import copied_from
from proofmap.study import Run, StoreError, Study, run_study, verify_run
from tests.command import run as command
from tests.study.processes import Processes
from tests.study.studies import facts, net_file, photos, toy_study

DATABASE = "scores.sqlite"


def acting(act: Callable[[], object], at: int = 2) -> dict[str, Any]:
    """A method that does something at its second call."""
    calls = iter(range(1, 1000))

    def mine(classifier: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if next(calls) == at:
            act()
        return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

    return {"method": mine, "name": "mine"}


# ---- files that vanish --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the folder", "the database", "the folder, moved"])
@pytest.mark.parametrize("maps", ["none", "float16"])
def test_a_run_whose_files_vanish_does_not_claim_to_be_finished(what: str, maps: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    acts = {
        "the folder": lambda: shutil.rmtree(out),
        "the database": lambda: [path.unlink() for path in out.glob(f"{DATABASE}*")],
        "the folder, moved": lambda: out.rename(tmp_path / "elsewhere"),
    }
    study = toy_study(tmp_path, 6, methods=[acting(acts[what])], maps=maps)
    with pytest.raises(StoreError, match=r"was removed or replaced while|cannot be written") as refused:
        run_study(study, out)
    assert not any("kept" in note for note in getattr(refused.value, "__notes__", []))
    if what == "the database":
        assert run_study(replace(study, methods=("random",)), out).units == 3


def test_in_a_deleted_folder_the_command_says_so_before_it_imports_anything(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd '{tmp_path / 'gone'}' && rmdir '{tmp_path / 'gone'}' && exec '{sys.executable}' '{proofmap_command.__file__}' --version"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr.startswith("error: the current folder cannot be used") and "Traceback" not in done.stderr
    )


def test_in_a_deleted_folder_a_relative_output_is_refused_and_an_absolute_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match=r"run cannot be made: the current folder was deleted.*absolute"):
        check_output("run")
    study = toy_study(tmp_path, 2, methods=["random"])
    assert run_study(study, tmp_path / "run").units == 1 and verify_run(tmp_path / "run") == []


# ---- files that are none ------------------------------------------------------------------------------------------
# The device is /dev/null: a pipe or /dev/zero would hang a version that reads it.


@pytest.mark.parametrize("name", [DATABASE, "maps", "run.json"])
def test_what_stands_in_the_place_of_a_file_is_refused_and_no_unit_is_forgotten(
    name: str, study: Study, folder: Path
) -> None:
    before = facts(folder)
    (folder / name).rename(folder / "aside")
    (folder / name).symlink_to("/dev/null")
    for attempt in (verify_run, lambda folder: run_study(study, folder)):
        if name != "maps" or attempt is not verify_run:
            with pytest.raises(StoreError, match=r"not a regular file|a link to one that is missing"):
                attempt(folder)
    (folder / name).unlink()
    if name == "maps":
        (folder / name).write_text("a file")
        with pytest.raises(StoreError, match="maps is not a folder"):
            run_study(study, folder)
        (folder / name).unlink()
    (folder / "aside").rename(folder / name)
    assert verify_run(folder) == [] and facts(folder) == before


# ---- errors at any touch of the disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("name, touch", [("ENOSPC", 20), ("EROFS", 40), ("EIO", 60), ("MemoryError", 70)])
def test_an_error_at_any_touch_of_the_disk_ends_clearly_and_the_run_goes_on(
    name: str, touch: int, whole: tuple[Study, Path], processes: Processes, tmp_path: Path
) -> None:
    study, folder = whole
    answer = processes.run(study, tmp_path / "run", raise_at=[touch, name])
    assert answer is not None and "units" not in answer, "the error was not met, or swallowed"
    if name == "MemoryError":
        assert answer.get("crash", "").startswith("MemoryError")  # the command line says what to do
    else:
        assert answer.get("error") == "StoreError", answer
    assert (processes.run(study, tmp_path / "run") or {}).get("failed") == 0
    assert facts(tmp_path / "run") == facts(folder) and verify_run(tmp_path / "run") == []


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")])
def test_out_of_memory_is_one_message_of_the_command_line(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("proofmap.study.run._Run._store", refuse)
    asked = ("evaluate", "--model", net_file(tmp_path), "--data", str(photos(tmp_path / "photos", 2)))
    code = command(
        monkeypatch, *asked, "--methods", "random", "--no-pictures", "--out", str(tmp_path / "run")
    )
    told = " ".join(capsys.readouterr().err.split())
    assert code == 2 and "out of memory" in told and "same command" in told and "Traceback" not in told


# ---- kills while a recipe begins with another run --------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("copies", [1, 6, 7])  # six files of maps, the database, the manifest
def test_a_copy_of_a_run_that_was_killed_is_made_whole_by_the_next(
    copies: int, study: Study, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, copy = iter(range(copies)), shutil.copyfile

    def half(source: Any, target: Any, **how: Any) -> Any:
        if next(left, None) is None:
            Path(target).write_bytes(Path(source).read_bytes()[:100])
            raise Killed
        return copy(source, target, **how)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", half)  # copytree copies with it, too
        with pytest.raises(Killed), copied_from(folder, tmp_path / "out"):
            raise AssertionError("nothing was killed")
    for _ in range(2):
        with copied_from(folder, tmp_path / "out"):
            assert run_study(study, tmp_path / "out").units == 0
    assert facts(tmp_path / "out") == facts(folder) and verify_run(tmp_path / "out") == []


# ---- Limits that the system sets: little memory, and a run directory that cannot be written to ------------------------


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


def test_a_run_that_cannot_be_written_to_is_read_and_not_continued(
    study: Study,
    folder: Path,
    read_only: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = read_only(folder)
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
