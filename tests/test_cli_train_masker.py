"""``proofmap train-masker``, as a person or a script would use it."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proofmap.methods.maskers.file import Header, read_header
from tests.command import run
from tests.forked import command

NET = """
import os, signal
from pathlib import Path
import torch
import proofmap as pm

class Tiny(torch.nn.Sequential):
    def forward(self, x):
        if os.environ.get("DIE") and Path("dying.checkpoint.safetensors").exists():
            os.kill(os.getpid(), signal.Signals[os.environ["DIE"]])
        return super().forward(x)

def tiny():
    torch.manual_seed(0)
    net = Tiny(
        torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(6 * 16, 2),
    )
    return pm.Classifier(net, size=16, names=["cat", "dog"])
"""
TRAIN = [
    "train-masker",
    "--model",
    "net.py:tiny",
    "--device",
    "cpu",
    "--data",
    "photos",
    "--steps",
    "4",
    "--batch",
    "2",
    "--width",
    "4",
    "--every",
    "2",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a net in a file and photos in a folder per label."""
    (tmp_path / "net.py").write_text(NET)
    for i in range(4):
        place = tmp_path / "photos" / ("cat", "dog")[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"photo{i}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_masker_is_trained_and_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "photos" / "cat" / "broken.png").write_text("no picture")
    monkeypatch.setenv("PROOFMAP_PROGRESS_EVERY", "0")
    assert run(monkeypatch, *TRAIN, "--kind", "dabkowski", "--out", "maskers/m.safetensors") == 0
    printed = capsys.readouterr()
    assert printed.out == "maskers/m.safetensors\n"
    assert (
        "training dabkowski: 2/20 passes" in printed.err
    )  # one step with one pass, three with three, of 2 images
    assert "1 image of 5 could not be read and is left out" in printed.err
    header = Header.parse(read_header(Path("maskers/m.safetensors")))
    assert (header.data, header.images, header.recipe.steps) == ("photos", 4, 4)

    assert run(monkeypatch, *TRAIN, "--kind", "dabkowski", "--out", "maskers/m.safetensors") == 0
    assert "nothing left to do" in capsys.readouterr().err
    explain = [
        "explain",
        "photos/dog",
        "--model",
        "net.py:tiny",
        "--device",
        "cpu",
        "--labels",
        "top2",
        "--quiet",
        "--method",
    ]
    assert run(monkeypatch, *explain, "real-time-saliency:weights=maskers/m.safetensors") == 0
    assert run(monkeypatch, *explain, "belief-masker:weights=maskers/m.safetensors", "--out", "other") == 2
    assert "is a masker of the kind dabkowski; this takes belief" in capsys.readouterr().err
    assert not Path("other").exists()


def test_a_process_that_is_killed_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [*TRAIN, "--kind", "phang-ca", "--quiet", "--out"]
    with monkeypatch.context() as dying:
        dying.setenv("DIE", "SIGKILL")
        assert command([*options, "dying.safetensors"]).code() == -signal.SIGKILL
    assert Path("dying.checkpoint.safetensors").exists() and not Path("dying.safetensors").exists()
    assert run(monkeypatch, *options, "dying.safetensors") == 0
    assert run(monkeypatch, *options, "whole.safetensors") == 0
    assert Path("dying.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()
    assert not Path("dying.checkpoint.safetensors").exists()


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM"])
def test_whoever_stops_a_training_is_told_how_to_go_on(
    how: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = lambda *_: pytest.fail("nobody answered")  # noqa: E731
    before = signal.signal(signal.SIGTERM, usual)
    options = [*TRAIN, "--kind", "phang-fix", "--quiet", "--out", "dying.safetensors"]
    try:
        monkeypatch.setenv("DIE", how)
        assert run(monkeypatch, *options) == 130
        message = capsys.readouterr().err
        kept = "stopped; 2 of 4 steps are kept in dying.checkpoint.safetensors; continue with: proofmap "
        assert message == f"{kept}{shlex.join(options)}\n"
        monkeypatch.delenv("DIE")
        assert run(monkeypatch, *shlex.split(message.split("proofmap ", 1)[1])) == 0
        assert capsys.readouterr().out == "dying.safetensors\n"
        assert signal.getsignal(signal.SIGTERM) is usual
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_training_that_is_stopped_at_once_begins_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proofmap.cli.train.train", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    assert run(monkeypatch, *TRAIN, "--out", "m.safetensors") == 130
    assert "no checkpoint was due yet; start again with: proofmap train-masker" in capsys.readouterr().err


def test_a_limit_of_time_still_gives_a_masker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*TRAIN, "--kind", "phang-fix", "--minutes", "1e-9", "--out", "m.safetensors"]
    assert run(monkeypatch, *options) == 0
    message = capsys.readouterr().err
    assert "written: m.safetensors, after 1 of 4 steps\n" in message
    assert (
        "maps of 4 images of the data: mean " in message and "correlation" not in message
    )  # one map for all labels
    header = Header.parse(read_header(Path("m.safetensors")))
    assert (header.made, header.recipe.steps, header.recipe.minutes) == (1, 4, 1e-9)
    assert run(monkeypatch, *options) == 0
    assert "nothing left to do: the masker is there, after 1 of 4 steps" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--kind", "phang", "--out", "m.safetensors"], ["--out", "m.pth"]])
def test_a_wrong_kind_or_name_is_told_before_images_are_read(
    wrong: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofmap.cli.train.load_blocks", lambda *a, **k: pytest.fail("images were read"))
    assert run(monkeypatch, *TRAIN, "--quiet", *wrong) == 2


@pytest.mark.parametrize(
    "changes, message",
    [
        (["--kind", "phang"], "'phang' is not one of dabkowski"),
        (["--out", "m.pth"], "is named NAME.safetensors"),
        (["--data", "nowhere"], "nowhere"),
        (["--learning-rate", "-1"], "learning_rate must be a number above 0"),
        (["--minutes", "0"], "minutes must be a number above 0"),
        (["--minutes", "nan"], "minutes must be a number above 0"),
        (["--layers", "0,7"], "layer '7' has no spatial map"),
        (["--number", "1"], "at least 2 images"),
        (["--out", "photos"], "is named NAME.safetensors"),
    ],
)
def test_what_cannot_be_trained_is_refused_and_nothing_is_written(
    changes: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(folder.rglob("*.safetensors"))
    usual = [] if "--out" in changes else ["--out", "m.safetensors"]
    data = [word for word in TRAIN if word not in ("--data", "photos")] if "--data" in changes else TRAIN
    assert run(monkeypatch, *data, "--quiet", *usual, *changes) == 2
    assert message in capsys.readouterr().err
    assert sorted(folder.rglob("*.safetensors")) == before == []
