"""Code of the user's own that does what no method should: a run keeps what it has, and says what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from tests.command import run as command
from tests.plugins.test_identity import NOTEBOOK, notebook
from tests.study.processes import Processes
from tests.study.studies import facts, net_file, photos, toy_study

OWN = """
import os

class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")

def shouts(classifier, images, labels):
    raise ValueError("a" * 10**6)

def cuts(classifier, images, labels):
    raise ValueError("half of \\ud83d a pair")

def mute(classifier, images, labels):
    raise Mute

def wanders(classifier, images, labels):
    os.chdir({elsewhere!r})
    return images[:, :1] * (1 + labels[:, :, None, None])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a net, photos, and methods in own.py; and a folder elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "own.py").write_text(OWN.format(elsewhere=str(elsewhere)))
    photos(tmp_path / "work" / "photos", 4)
    net_file(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


EVALUATE = (
    "evaluate",
    "--model",
    "net.py:make",
    "--data",
    "photos",
    "--labels",
    "top3",
    "--store-maps",
    "float16",
)


def test_a_method_that_changes_the_working_folder_does_not_move_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*EVALUATE, "--methods", "own.py:wanders,gradient", "--images-per-unit", "2", "--no-pictures")
    assert command(monkeypatch, *asked, "--out", "run") == 0, capsys.readouterr().err
    assert (
        str(folder / "run" / "report.html") in capsys.readouterr().err
    )  # no longer relative to where we stand
    assert len(facts(folder / "run")["units"]) == 4
    assert list((folder.parent / "elsewhere").iterdir()) == []
    monkeypatch.chdir(folder)
    assert command(monkeypatch, *asked, "--out", "run") == 0
    assert "written: run/scores.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "method, told",
    [
        ("shouts", r"ValueError: a{1990,1999}… \(own.py, line 9, in shouts\)"),
        ("cuts", r"ValueError: half of \\ud83d a pair \(own.py, line 12, in cuts\)"),
        ("mute", r"Mute \(own.py, line 15, in mute\)"),
    ],
)
def test_any_text_of_an_exception_is_kept_with_what_was_finished(
    method: str, told: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*EVALUATE, "--methods", f"gradient,own.py:{method}", "--images-per-unit", "4", "--no-pictures")
    assert command(monkeypatch, *asked, "--out", "run") == 3
    reasons = [reason for _, _, reason in facts(folder / "run")["failures"]]
    assert len(reasons) == 4 and all(re.fullmatch(told, reason) for reason in reasons), reasons[0][:300]
    assert len(facts(folder / "run")["per_image"]) == 20, "what gradient gave is kept"
    assert re.search(told, capsys.readouterr().err)
    assert f"{method} failed on 4 of 4 images" in (folder / "run" / "report.html").read_text()


# ---- A run whose method is defined in a notebook goes on in the process that defined it; one of a file goes on everywhere ---


def test_a_run_of_code_without_a_file_goes_on_in_this_process_and_no_other(
    tmp_path: Path, processes: Processes
) -> None:
    bright = notebook(NOTEBOOK)["bright"]
    run = tmp_path / "run"
    pm.run_study(toy_study(tmp_path, 2, methods=[bright], metrics=["insertion"]), run)
    assert pm.run_study(toy_study(tmp_path, 4, methods=[bright], metrics=["insertion"]), run).units == 1
    elsewhere = toy_study(tmp_path, 4, methods=[notebook(NOTEBOOK)["bright"]], metrics=["insertion"])
    with pytest.raises(
        InputError,
        match=r"(?s)'bright' of .*the method is code without a file .* cannot be continued in anot",
    ):
        pm.run_study(elsewhere, run)
    (tmp_path / "mine.py").write_text(NOTEBOOK)
    from_file = toy_study(tmp_path, 2, methods=[f"{tmp_path / 'mine.py'}:bright"], metrics=["insertion"])
    answer = processes.run(from_file, tmp_path / "other")
    assert answer is not None and answer["units"] and not answer["failed"]
    assert pm.run_study(from_file, tmp_path / "other").units == 0, "a file is known in every process"
