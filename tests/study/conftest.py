"""What the tests of studies share: one finished run that nobody may change, and a source of real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proofmap.study import Study, run_study
from tests.study.processes import Processes
from tests.study.studies import toy_study


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Real processes that run studies."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    source = Processes()
    yield source
    source.close()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """A study and a finished run of it, which nobody changes."""
    folder = tmp_path_factory.mktemp("whole")
    study = toy_study(folder, 4)
    run_study(study, folder / "run", threads=1)
    return study, folder / "run"


@pytest.fixture
def study(whole: tuple[Study, Path]) -> Study:
    """The study of the finished run."""
    return whole[0]


@pytest.fixture
def folder(whole: tuple[Study, Path], tmp_path: Path) -> Path:
    """The finished run, in a copy of its own."""
    return shutil.copytree(whole[1], tmp_path / "run")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Gives a folder again, as one where nothing can be written."""
    if not hasattr(os, "getuid") or os.getuid() != 0:
        pytest.skip("only root may mount a folder")
    target = tmp_path / "mount"
    target.mkdir()

    def mounted(folder: Path) -> Path:
        for words in (["--bind", str(folder)], ["-o", "remount,ro,bind"]):
            made = subprocess.run(["mount", *words, str(target)], capture_output=True, text=True)
            if made.returncode:
                pytest.skip(f"no folder can be mounted here: {made.stderr.strip()}")
        return target

    yield mounted
    subprocess.run(["umount", str(target)], capture_output=True)
