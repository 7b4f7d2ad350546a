"""What cannot be done is refused: exit code 2, one message that says what to do, no traceback, and nothing is left behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

from proofmap import cli
from tests.command import run
from tests.test_cli import MODEL, NET

SANITY = ("sanity", "photos", *MODEL, "--methods", "random")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net in a file, two photos, files that are none, a run, and halves of it."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "net.py").write_text(NET)
    (folder / "study.toml").write_text("")
    for name in ("photos", "empty", "texts"):
        (folder / name).mkdir()
    for i in range(2):
        pixels = np.random.default_rng(i).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"photo{i}.png")
    (folder / "texts" / "a.png").write_text("hello")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("first", "second"):
            asked = ("evaluate", "--data", "photos", *MODEL, "--methods", "random", "--labels", "top1", "-q")
            assert run(patch, *asked, "--no-pictures", "--out", f"runs/{name}") == 0
    for name, lost in (("no-manifest", "run.json"), ("no-scores", "scores.sqlite"), ("cut", "")):
        shutil.copytree(folder / "runs" / "first", folder / "half" / name)
        if lost:
            (folder / "half" / name / lost).unlink()
    (folder / "half" / "cut" / "run.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ("explain", "photos/photo.png", *MODEL),
            "no file or folder photos/photo.png. Did you mean 'photos/photo",
        ),
        (("explain", "nowhere.png", *MODEL), "Sample photographs are named as in sample:rocket"),
        (("evaluate", "--data", "rocket.jpg", *MODEL), "Did you mean 'sample:rocket'?"),
        (("evaluate", "--data", "photoz", *MODEL), "Did you mean 'photos'? Other datasets are written"),
        (("sanity", "photoz/photo1.png", *MODEL), "Did you mean 'photos/photo1.png'?"),
        (("explain", "photos", "--model", "nett.py:tiny"), "to take the model from. Did you mean 'net.py'?"),
        (("explain", "photos", *MODEL, "--method", "nett.py:mine"), "Did you mean 'net.py'?"),
        (("explain", "", *MODEL), "a photo without a name was given"),
        (
            ("explain", "photos", "--model", "cifar10-resnet56", "--weights", "nett.py"),
            "Did you mean 'net.py'?",
        ),
        (("explain", "photos", "--model", "cifar10-resnet56", "--weights", "photos"), "It is a folder"),
        (("explain", "photos", *MODEL, "--weights", ""), "'--weights': it is empty"),
        (("explain", "photos", *MODEL, "--method", "grad-cam:layer=x"), "its last layers are 0, 1, 2, 3, 4"),
        (("evaluate", "photos/photo0.png"), "is a picture, not a study file; write --data photos/photo0.png"),
        (("evaluate", "stdy.toml"), "there is no study file stdy.toml. Did you mean 'study.toml'?"),
        (("audit", "runs/first", "--min-completeness", "nan"), "the bar of completeness must be a number"),
        (("audit", "runs/first", "--bar", "nosuch=1"), "no score is named 'nosuch'; there are completeness"),
        (
            ("figures", "--names", "masks-by-k", "--data", "photos", "--number", "0"),
            "Invalid value for '--number'",
        ),
        (("explain", "net.py", *MODEL), "cannot be read as an image"),
        (("explain", "empty", *MODEL), "holds no images"),
        (("explain", "photos", "--model", "no-such-net"), "no-such-net"),
        (("explain", "photos", "--model", "net.py:missing"), "missing"),
        (("explain", "photos", *MODEL, "--labels", "dogg"), "Did you mean 'dog'"),
        (("explain", "photos", *MODEL, "--labels", "9"), "out of range"),
        (
            ("evaluate", "--data", "photos", *MODEL, "--labels", "0,1,1,2"),
            "label 1 (dog) is given more than once in labels",
        ),
        (("explain", "photos", *MODEL, "--method", "gradeint"), "Did you mean 'gradient'"),
        (
            ("explain", "photos", *MODEL, "--method", "learned-mask:step=1"),
            "no setting 'step'. Did you mean 'steps'?",
        ),
        (
            ("explain", "photos", *MODEL, "--method", "learned-mask:steps=0"),
            "steps must be a whole number of at least 1",
        ),
        (("explain", "photos", *MODEL, "--method", "learned-mask:steps=many"), "steps"),
        (
            ("explain", "photos", *MODEL, "--method", "learned-mask:steps=1,fill=images:empty"),
            "holds no images",
        ),
        (("explain", "photos", *MODEL, "--thresholds", "2,3"), "between 0 and 1"),
        (("explain", "photos", *MODEL, "--curve", "sideways"), "sideways"),
        (("explain", "photos", *MODEL, "--device", "abacus"), "abacus"),
        (("explain", "photos", *MODEL, "--out", "net.py"), "is a file"),
        (("explain", "photos", "--model", "net.py:broken", "--device", "cpu"), "NaN"),
        (("evaluate", "--data", "photos", *MODEL, "--format", "pdf"), "--format"),
        (("evaluate", "--data", "photos", *MODEL, "--methods", ","), "no method"),
        (("demo", "--photos", "unicorn"), "unicorn"),
        (("evaluate", "photos"), "is a folder, not a study file; for photos in it write --data photos"),
        (("evaluate", "--data", "photos", *MODEL, "--threads", "0"), "Invalid value for '--threads'"),
        (("evaluate", "--data", "photos", *MODEL, "--threads", "100000"), "Invalid value for '--threads'"),
        (("evaluate", "--data", "photos", *MODEL, "--batch-size", "0"), "Invalid value for '--batch-size'"),
        (("evaluate", "--data", "photos", *MODEL, "--number", "0"), "Invalid value for '--number'"),
        (("evaluate", "--data", "photos", *MODEL, "--out", "x" * 300), "cannot be made: File name too long"),
        (
            ("explain", "photos", *MODEL, "--fit", "stretch"),
            "'--fit': 'stretch' is not one of crop, pad, squash",
        ),
        (("evaluate", "--data", "photos", *MODEL, "--labels", "unicorn"), "no label is named 'unicorn'"),
        (
            ("compare", "runs/firts"),
            "no run directory runs/firts. Did you mean 'runs/first'? proofmap eval",
        ),
        (
            ("compare", "empty"),
            "no run.json. proofmap evaluate --data PHOTOS --out RUN makes one",
        ),
        (("doctor", "net.py"), "there is no run directory net.py"),
        (("compare", "r" * 300), "there is no run directory rrr"),
        (("compare", "runs/first", "runs/third"), "there is no run directory runs/third"),
        (
            ("compare", "half/no-manifest"),
            "half/no-manifest/run.json is damaged: it is missing. Put the file back",
        ),
        (("report", "half/no-scores"), "The command that made the run computes it again"),
        (("compare", "half/cut"), "is damaged: it has no 'schema'"),
        (("compare", "runs/first", "--metrics", ","), "--metrics names nothing"),
        (("list", "targets", "decison"), "Did you mean 'decision'?"),
        (("list", "targets", ""), "no target is named ''"),
        (("sanity", "--axioms", "--methods", "grad-cm"), "Did you mean 'grad-cam'"),
        (("sanity", "texts", *MODEL), "it is damaged, or not in a format that is read (.bmp"),
        ((*SANITY, "--noise", "inf"), "noise a number above 0"),
        ((*SANITY, "--orders", "upwards"), "an order is one of cascading"),
        (("sanity", "photos", "--model", "nosuch"), "torchvision:nosuch or timm:nosuch"),
        (("reproduce", "desc"), "no recipe is named 'desc'. Did you mean 'desk'?"),
        (
            ("reproduce", "cifar10-tv", "--data", "empty"),
            "Another folder in place of empty is named with --data",
        ),
        (("reproduce", "desk", "--out", "net.py"), "net.py is a file, not a folder"),
    ],
)
def test_what_cannot_be_done_is_refused(
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(world)
    before = _files(world)
    assert run(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert message in " ".join(printed.err.replace("\u2502", " ").split())
    assert "Traceback" not in printed.err and not printed.out and "note:" not in printed.err
    assert _files(world) == before


def _writing() -> list[tuple[str, str]]:
    """Every command that writes where an option says, and the option."""
    commands: Any = typer.main.get_command(cli.make_app())
    return [
        (name, option)
        for name, command in commands.commands.items()
        for option in ("--out",)
        if any(option in parameter.opts for parameter in command.params)
    ]


@pytest.mark.parametrize("command, option", _writing())
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_place_to_write_to_is_not_the_current_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
    empty: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, command, option, empty) == 2
    message = " ".join(capsys.readouterr().err.replace("\u2502", " ").split())
    assert f"{option}" in message and "it is empty; name a file or folder" in message
    assert not list(tmp_path.iterdir())


def test_all_commands_that_write_are_asked() -> None:
    assert len(_writing()) == 10


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if "__pycache__" not in path.parts}
