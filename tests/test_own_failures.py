"""Code of a user's own that raises: one message with its place, exit code 2, nothing written; and in Python, the exception."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import proofmap as pm
from tests.command import run
from tests.test_cli import MODEL, NET
from tests.toys import conv_classifier, pixels

MINE = """
import sys
from typing import ClassVar

from beside import layer_of
from proofmap.fills import Fill
from proofmap.methods import Method; from proofmap.metrics import Metric

def bad(classifier, images, labels):
    return layer_of(classifier)  # line 10

def misused(classifier, images, labels):
    return images.mean(dim=1).view(3, -1, 5)  # line 13

def ends(classifier, images, labels):
    sys.exit(0)  # line 16

class Unready(Method):
    name: ClassVar[str] = "unready"
    description: ClassVar[str] = "cannot be made ready"

    def prepare(self, classifier):
        raise KeyError("layer")  # line 23

class Holes(Fill):
    name: ClassVar[str] = "holes"
    description: ClassVar[str] = "raises"

    def backgrounds(self, session, images, keys):
        return images / [0]  # line 30

def cut_short(classifier, images, labels):
    raise EOFError("cut short")  # line 33

def too_few(classifier, images):
    return images

class NoSession(Method):
    name: ClassVar[str] = "no-session"
    description: ClassVar[str] = "takes too little"

    def maps(self, images, labels):
        return images[:, :1]

class Nameless(Method):
    def maps(self, session, images, labels):
        return images[:, :1]

class Empty(Method):
    name: ClassVar[str] = "empty"
    description: ClassVar[str] = "has no code"

class Forgetful(Holes):
    name: ClassVar[str] = "forgetful"

    def backgrounds(self, session, images, keys):
        pass

class Wide(Metric):
    name: ClassVar[str] = "wide"
    description: ClassVar[str] = "too many values"
    higher_is_better: ClassVar[bool] = True

    def values(self, judged):
        return judged.f.repeat(2, 1)

class Undirected(Metric):
    name: ClassVar[str] = "undirected"
    description: ClassVar[str] = "no direction"
"""
BESIDE = """
def layer_of(classifier):
    raise LookupError("no such\\nlayer")  # line 3
"""
FAILING_NET = """
import torch
import proofmap as pm

class Net(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) @ torch.ones(5, 5)  # line 7

def small():
    return pm.Classifier(Net(), size=16, names=["cat", "dog"])
"""
PLACE = "LookupError: no such layer (beside.py, line 3, in layer_of)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a net and methods in files, and a photo."""
    files = {"net.py": NET, "mine.py": MINE, "beside.py": BESIDE, "failing.py": FAILING_NET}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ASKED = ("photo.png", *MODEL, "--labels", "top1", "--quiet", "--out", "out")


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("explain", *ASKED, "--method", "mine.py:bad"), f"{PLACE}, while the method bad made maps"),
        (("sanity", *ASKED, "--methods", "random,mine.py:bad"), f"{PLACE}, while the method bad made maps"),
        (
            ("sanity", "--axioms", "--methods", "mine.py:bad", "--device", "cpu"),
            f"{PLACE}, while the method bad made maps",
        ),
        (
            ("explain", *ASKED, "--method", "top-label:mine.py:bad"),
            "while the method bad made maps, while the method top-label:bad made maps",
        ),
        (("explain", *ASKED, "--method", "mine.py:misused"), "(mine.py, line 13, in misused)"),
        (
            ("explain", *ASKED, "--method", "mine.py:ends"),
            "SystemExit: 0 (mine.py, line 16, in ends), while the method ends made maps",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:cut_short"),
            "EOFError: cut short (mine.py, line 33, in cut",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:too_few"),
            "the function too_few must be written too_few(classifier, images, labels): too many",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:NoSession"),
            "NoSession must be written maps(self, session, images, labels): too many positional arguments",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:Nameless"),
            "has no name; write in it: name = ",
        ),
        (("explain", *ASKED, "--method", "mine.py:Empty"), "the class Empty defines no maps()"),
        (
            ("explain", *ASKED, "--method", "mine.py:Unready"),
            "KeyError: 'layer' (mine.py, line 23, in Unready.prepare)",
        ),
        (
            ("explain", *ASKED, "--method", "random", "--fill", "mine.py:Holes"),
            "(mine.py, line 30, in Holes.backgrounds)",
        ),
        (
            ("explain", "photo.png", "--model", "failing.py:small", "--device", "cpu", "--out", "out"),
            "(failing.py, line 7, in Net.forward)",
        ),
    ],
)
def test_an_exception_in_a_users_file_is_one_message_with_its_place(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    before = sorted(folder.iterdir())
    assert run(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert told in printed.err and printed.err.count("error:") == 1 and not printed.out
    assert "Traceback" not in printed.err
    assert sorted(folder.iterdir()) == before


def test_the_whole_traceback_is_printed_when_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("explain", *ASKED, "--method", "mine.py:bad")
    assert run(monkeypatch, *command) == 2
    assert "proofmap --traceback COMMAND" in capsys.readouterr().err
    assert run(monkeypatch, "--traceback", *command) == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err and "return layer_of(classifier)  # line 10" in err
    assert f"error: {PLACE}" in err and "--traceback" not in err
    (folder / "mine.py").write_text("import math\nmath.sqrt(-1)\n")
    assert run(monkeypatch, "--traceback", *command) == 2
    err = capsys.readouterr().err
    assert 'mine.py", line 2' in err and "mine.py cannot be run: ValueError" in err
    assert run(monkeypatch, *command) == 2
    assert "Traceback" not in capsys.readouterr().err, "only when asked for"


@pytest.mark.parametrize(
    "text, told",
    [
        ("import math\nmath.sqrt(-1)\n", r"ValueError: .* \(mine.py, line 2\)"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3 \(mine.py, line 2\)"),
        ("def bad(:\n", r"SyntaxError: .*line 1\)"),
    ],
)
def test_a_file_that_cannot_be_run_says_where(folder: Path, text: str, told: str) -> None:
    (folder / "mine.py").write_text(text)
    with pytest.raises(pm.InputError, match=f"mine.py cannot be run: {told}"):
        pm.make_method("mine.py:bad")
    with pytest.raises(pm.core.errors.ModelError, match=f"mine.py:bad cannot be built: {told}"):
        pm.load_classifier("mine.py:bad")


def test_a_study_goes_on_and_has_the_place_in_its_records(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--data", "photo.png", *MODEL, "--labels", "top1", "--quiet", "--no-pictures", "--out", "run")
    assert run(monkeypatch, "evaluate", *asked, "--methods", "mine.py:bad,random") == 3
    printed = capsys.readouterr()
    assert f"failed: bad on photo.png: {PLACE}\n" in printed.err and "random" in printed.out
    with pm.Run("run") as opened:
        assert [failure.reason for failure in opened.failures()] == [PLACE]


@pytest.mark.parametrize(
    "arguments, code, told",
    [
        (
            ("--fills", "mine.py:Forgetful"),
            2,
            "the fill forgetful: backgrounds(session, images, keys) must return",
        ),
        (("--metrics", "mine.py:Undirected"), 2, "the metric undirected must say which direction is better"),
        (
            ("--metrics", "mine.py:Wide"),
            3,
            "failed: random on photo.png: the metric wide: values(judged) must return",
        ),
    ],
)
def test_a_fill_or_metric_that_returns_something_else_ends_a_study_with_one_message(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, str],
    code: int,
    told: str,
) -> None:
    asked = ("--data", "photo.png", *MODEL, "--labels", "top1", "--quiet", "--no-pictures", "--out", "run")
    assert run(monkeypatch, "evaluate", *asked, "--methods", "random", *arguments) == code
    printed = capsys.readouterr()
    assert told in printed.err and "Traceback" not in printed.err


def test_in_python_the_exception_itself_arrives_with_a_note(folder: Path) -> None:
    f, images = conv_classifier(8), pixels(2, 8)

    class Mine(Exception):
        pass

    def bad(classifier: object, images: object, labels: object) -> object:
        raise Mine("so")

    for call in (
        lambda: pm.evaluate(f, images, methods=[bad]),
        lambda: pm.explain(f, images, method=bad),
        lambda: pm.sanity_checks(f, images, methods=[bad]),
        lambda: pm.make_method(bad)(f, images, torch.zeros(2, 1, dtype=torch.long)),
    ):
        with pytest.raises(Mine) as told:
            call()
        assert str(told.value) == "so"
        (note,) = told.value.__notes__
        assert re.fullmatch(r"while the method \S*bad made maps", note)
