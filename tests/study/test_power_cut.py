"""What is left of a run when the power is cut: a real file system that loses everything it was not told to keep."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proofmap.core.files import atomic_write, output_folder
from proofmap.study import Run, run_study, verify_run
from tests.study.processes import Processes
from tests.study.studies import facts, toy_study

_SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN, of ext4 and XFS
_WITHOUT_JOURNAL = (2).to_bytes(4, "little")


_OPTIONS = {"ext4": "loop,noauto_da_alloc,commit=300", "xfs": "loop,nouuid"}
_MEGABYTES = {"ext4": 64, "xfs": 320}  # the smallest XFS has 300


class Disk:
    """A small file system in a file: ext4 or XFS. On both, a new name may reach the disk before the content of its file does."""

    def __init__(self, folder: Path, kind: str = "ext4") -> None:
        self.kind, self.image, self.path = kind, folder / "disk.img", folder / "disk"
        with open(self.image, "wb") as file:
            file.truncate(_MEGABYTES[kind] << 20)
        self.path.mkdir()
        self._run(f"mkfs.{kind}", "-q", str(self.image))
        self._mount()

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{command[0]} does not work here: {done.stderr.strip()}")

    def _mount(self) -> None:
        self._run("mount", "-t", self.kind, "-o", _OPTIONS[self.kind], str(self.image), str(self.path))

    def cut_power(self) -> None:
        """Lose what is not on the disk, and start again."""
        import fcntl

        number = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(number, _SHUTDOWN, _WITHOUT_JOURNAL)
        except OSError as error:
            pytest.skip(f"this file system cannot be shut down: {error}")
        finally:
            os.close(number)
        self.close()
        self._mount()

    def close(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not hasattr(os, "getuid") or os.getuid() != 0:
        pytest.skip("only root may mount a disk")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    disk = Disk(tmp_path)
    try:
        yield disk
    finally:
        if os.path.ismount(disk.path):
            disk.close()


def test_the_disk_of_these_tests_loses_what_was_not_synced(disk: Disk) -> None:
    (disk.path / "kept").write_text("old")
    os.sync()
    (disk.path / "lost").write_text("new")
    disk.cut_power()
    assert (disk.path / "kept").read_text() == "old" and not (disk.path / "lost").exists()


def test_a_finished_run_is_finished_after_a_power_cut(
    disk: Disk, processes: Processes, tmp_path: Path
) -> None:
    study = toy_study(tmp_path, 4)
    folder = disk.path / "runs" / "run"
    assert processes.run(study, folder) == {"units": 6, "failed": 0}
    before = facts(folder)
    for _ in range(2):  # as it was left, and started once more
        disk.cut_power()
        assert verify_run(folder) == [] and facts(folder) == before
        assert processes.run(study, folder) == {"units": 0, "failed": 0}


@pytest.mark.parametrize(
    "touches", [pytest.param(35, marks=pytest.mark.slow), 50, pytest.param(70, marks=pytest.mark.slow)]
)
def test_a_power_cut_takes_back_no_finished_unit(
    touches: int, disk: Disk, processes: Processes, tmp_path: Path
) -> None:
    study = toy_study(tmp_path, 4)
    assert processes.run(study, tmp_path / "whole") == {"units": 6, "failed": 0}
    folder = disk.path / "run"
    assert processes.run(study, folder, kill_at=touches) is None
    shutil.copytree(folder, tmp_path / "seen")  # what the processes of this machine saw
    done = facts(tmp_path / "seen")["units"]
    disk.cut_power()
    assert facts(folder)["units"] == done
    assert verify_run(folder) == []
    assert processes.run(study, folder) == {"units": 6 - len(done), "failed": 0}
    assert facts(folder) == facts(tmp_path / "whole") and verify_run(folder) == []


# ---- the same order of steps where no disk can be mounted ------------------------------------------------------


def test_content_is_synced_before_it_is_named_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.replace

    def recorded_fsync(number: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/proc/self/fd/{number}')).name}")
        fsync(number)

    def recorded_replace(old: Path, new: Path) -> None:
        steps.append(f"name {new.name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    with atomic_write(tmp_path / "file.txt") as part:
        part.write_text("text")
    assert steps == [f"sync {part.name}", "name file.txt", f"sync {tmp_path.name}"]
    steps.clear()
    output_folder(tmp_path / "a" / "b")
    assert sorted(steps) == sorted([f"sync {tmp_path.name}", "sync a"])


def test_finished_units_are_synced_by_sqlite(tmp_path: Path) -> None:
    run_study(toy_study(tmp_path, 2, methods=["random"]), tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert run.store.rows("PRAGMA synchronous") == [(2,)], (
            "FULL: every commit is on the disk when it returns"
        )
