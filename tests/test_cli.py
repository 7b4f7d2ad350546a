"""The command line, as a person or a script would use it: a tiny net from a file, tiny photos."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from proofmap.cli import _notes, app_for
from proofmap.cli.console import Lines
from tests.command import run
from tests.forked import command

NET = """
import torch
import proofmap as pm

def tiny():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(6 * 16, 4),
    )
    return pm.Classifier(net, size=16, names=["cat", "dog", "cup", "rocket"])

def broken():
    return pm.Classifier(lambda x: x.flatten(1)[:, :4] * float("nan"), size=16)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a net in a file and two photos."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "photos").mkdir()
    for i in range(2):
        pixels = np.random.default_rng(i).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"photo{i}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


MODEL = ("--model", "net.py:tiny", "--device", "cpu")


def test_explain_writes_a_picture_per_photo_and_prints_a_line_per_label(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        monkeypatch, "explain", "photos", *MODEL, "--labels", "top3", "--method", "gradient", "--quiet"
    )
    printed = capsys.readouterr()
    assert code == 0
    heads = ["photo0, maps by gradient", "photo1, maps by gradient"]
    assert [line for line in printed.out.splitlines() if "maps by" in line] == heads
    bars = [line for line in printed.out.splitlines() if "│" in line]
    assert len(bars) == 6 and all(line.count("%") >= 3 for line in bars)
    assert max(map(len, printed.out.splitlines())) <= 80
    names = {p.name for p in (folder / "proofs").iterdir()}
    assert names == {
        "photo0.gradient.png",
        "photo1.gradient.png",
        "maps.safetensors",
        "scores.csv",
        "pairs.csv",
        "evaluation.json",
        "report.html",
    }
    with Image.open(folder / "proofs" / "photo0.gradient.png") as picture:
        assert picture.width > 700
    assert "What the net says of " in (folder / "proofs" / "report.html").read_text()


def test_a_second_explain_replaces_nothing_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("explain", *MODEL, "--labels", "top2", "--method", "random", "--quiet")

    def contents(name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (folder / name).iterdir()}

    for k, place in enumerate(("proofs", "proofs-2", "proofs-3")):
        assert run(monkeypatch, *arguments, f"photos/photo{k % 2}.png") == 0
        assert f"open {place}/report.html" in capsys.readouterr().err
        assert f"photo{k % 2}.random.png" in contents(place)
    first, second = contents("proofs"), contents("proofs-2")
    assert first["maps.safetensors"] != second["maps.safetensors"]
    assert run(monkeypatch, *arguments, "photos/photo1.png", "--out", "proofs") == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "proofs has results already" in message and "--out" in message and "--force" in message
    assert contents("proofs") == first and not (folder / "proofs-4").exists()
    assert run(monkeypatch, *arguments, "photos/photo1.png", "--out", "proofs", "--force") == 0
    assert contents("proofs")["maps.safetensors"] == second["maps.safetensors"]
    run(monkeypatch, "evaluate", "--data", "photos", *MODEL, "--methods", "random", "--out", "run", "-q")
    assert run(monkeypatch, *arguments, "photos/photo1.png", "--out", "run") == 2  # nor of a run


def test_a_photo_that_is_not_read_is_named_by_explain_and_evaluate(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "photos" / "IMG_0001.heic").write_bytes(b"ftypheic")
    message = "note: 1 picture in photos not read, because of the format: IMG_0001.heic; convert"
    common = (*MODEL, "--labels", "top2", "--quiet")
    with warnings.catch_warnings():  # as outside pytest, which makes errors of them
        warnings.simplefilter("default")
        assert run(monkeypatch, "explain", "photos", *common, "--method", "random") == 0
        assert message in " ".join(capsys.readouterr().err.split())
        assert run(monkeypatch, "evaluate", "--data", "photos", *common, "--methods", "random") == 0
        assert capsys.readouterr().err.count("IMG_0001.heic") == 1


def test_evaluate_prints_json_that_parses_and_nothing_else_on_stdout(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("evaluate", "--data", "photos", *MODEL, "--methods", "gradient,random", "--labels", "all")
    assert run(monkeypatch, *arguments, "--format", "json", "--no-pictures", "--out", "run") == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert [m["name"] for m in record["methods"]] == ["gradient", "random"]
    scores = record["methods"][0]["scores"]
    assert {s["metric"] for s in scores} >= {
        "completeness",
        "soundness",
        "best-effort",
        "insertion",
        "deletion",
    }
    assert {"e1", "fill", "points", "ties", "label_set", "renormalise"} <= set(scores[0]["settings"])
    assert (folder / "run" / "report.html").is_file()
    assert "written:" in printed.err


def test_explain_sets_several_methods_side_by_side(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = "gradient-x-input:channels=mean,random,per_label=true,grad-cam"
    code = run(
        monkeypatch, "explain", "photos/photo0.png", *MODEL, "--labels", "top2", "--method", methods, "-q"
    )
    printed = capsys.readouterr()
    assert code == 0, printed.err
    names = ["gradient-x-input:channels=mean", "random:per_label=true", "grad-cam"]
    heads = [line for line in printed.out.splitlines() if "maps by" in line]
    assert heads == [f"photo0, maps by {name}" for name in names]
    assert (folder / "proofs" / "photo0.compared.png").is_file()
    tensors = load_file(folder / "proofs" / "maps.safetensors")
    assert set(tensors) == {"labels", *(f"maps.{name}" for name in names)}
    assert all(tensors[f"maps.{name}"].shape == (1, 2, 16, 16) for name in names)
    assert "What do the maps of 3 methods prove?" in (folder / "proofs" / "report.html").read_text()
    assert run(monkeypatch, "explain", "photos", *MODEL, "--method", "gradient,nothing", "-q") == 2
    assert "no method is named 'nothing'" in capsys.readouterr().err and not (folder / "proofs-2").exists()


@pytest.mark.parametrize("method", ["real-time-saliency", "gradient,top-label:real-time-saliency"])
def test_a_method_that_a_net_cannot_have_is_refused_before_any_time_is_told(
    method: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_early(*given: object) -> None:
        raise AssertionError("the time was measured before the method was refused")

    monkeypatch.setattr("proofmap.cli.explain.measure_speed", too_early)
    assert run(monkeypatch, "explain", "photos/photo0.png", *MODEL, "--method", method) == 2
    assert "the package has no masker of the kind dabkowski" in capsys.readouterr().err
    assert not (folder / "proofs").exists()


@pytest.mark.parametrize("format", ["table", "md", "csv"])
def test_every_format_names_every_method(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    arguments = ("evaluate", "--data", "photos", *MODEL, "--methods", "gradient,top-label:gradient", "-q")
    assert run(monkeypatch, *arguments, "--format", format, "--no-pictures") == 0
    out = capsys.readouterr().out
    assert "gradient" in out and "top-label:gradient" in out
    if format == "csv":
        rows = list(csv.DictReader(out.splitlines()))
        assert len(rows) == 10 and {r["better"] for r in rows} == {"higher", "lower"}


def test_a_label_set_makes_its_probabilities_sum_to_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("explain", "photos/photo0.png", *MODEL, "--label-set", "cat,cup", "--labels", "all")
    assert run(monkeypatch, *arguments, "--method", "random", "-q") == 0
    with (folder / "proofs" / "pairs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["name"] for r in rows} == {"cat", "cup"}
    assert sum(float(r["f"]) for r in rows) == pytest.approx(1, abs=1e-6)
    assert run(monkeypatch, *arguments, "--no-renormalise", "--method", "random", "-q") == 0
    with (folder / "proofs-2" / "pairs.csv").open() as file:
        assert sum(float(r["f"]) for r in csv.DictReader(file)) < 0.99


def test_ctrl_c_stops_cleanly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the middle of learning: exit code 130, no traceback, nothing written."""
    monkeypatch.setattr(Lines.__init__, "__defaults__", (0.0,))
    method = "learned-mask:steps=1000000,distractors=1,fill=gray"
    child = command(["explain", "photos", *MODEL, "--method", method, "--out", "proofs"])
    for line in child.stderr:
        if "passes" in line:  # it is learning now
            break
    os.kill(child.number, signal.SIGINT)
    rest = child.stderr.read()
    code = child.code()
    assert code == 130
    assert "stopped" in rest and "Traceback" not in rest
    assert not (folder / "proofs").exists()


def test_a_report_replaces_nothing_but_a_plain_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate = (
        "evaluate",
        "--data",
        "photos",
        *MODEL,
        "--methods",
        "random",
        "--labels",
        "top1",
        "--out",
        "run",
    )
    assert run(monkeypatch, *evaluate, "--quiet", "--no-pictures") == 0
    os.mkfifo(folder / "pipe")
    for out, message in (("photos", "is a folder; name a file in it"), ("pipe", "is not a plain file")):
        assert run(monkeypatch, "report", "run", "--out", out) == 2
        assert message in capsys.readouterr().err
    assert run(monkeypatch, "report", "run", "--out", "new/folder/page.html") == 0
    assert (folder / "new" / "folder" / "page.html").is_file()
    assert run(monkeypatch, "export", "run", "--tables", "") == 2
    assert "--tables names nothing" in capsys.readouterr().err


def test_a_console_without_arrows_gets_the_table_anyway(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")  # it lacks what any other console lacks
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(sys, "stderr", console)
    options = ("--method", "random", "--labels", "top1", "--quiet")
    assert run(monkeypatch, "explain", "photos/photo0.png", *MODEL, *options) == 0
    console.flush()
    assert b"photo0" in cast(io.BytesIO, console.buffer).getvalue()


def test_our_own_pictures_are_never_judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice the same command, with the results among the photos: the second finds nothing left to do."""
    monkeypatch.chdir(folder / "photos")
    shutil.copy(folder / "net.py", folder / "photos")
    evaluate = ("evaluate", "--data", ".", *MODEL, "--methods", "random", "--labels", "top1", "--out", ".")
    assert run(monkeypatch, *evaluate) == 0
    assert any((folder / "photos" / "pictures").glob("*.png"))
    first = capsys.readouterr().out
    assert run(monkeypatch, "explain", "photo0.png", *MODEL, "--method", "gradient", "--out", "proofs") == 0
    capsys.readouterr()
    assert run(monkeypatch, *evaluate) == 0
    again = capsys.readouterr()
    assert again.out == first and "nothing left to do" in again.err


BROKEN = """
def mine(classifier, images, labels):
    raise RuntimeError("not yet")
"""


def test_when_every_method_fails_the_reason_is_told_with_exit_code_3(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.py").write_text(BROKEN)
    command = ("evaluate", "--data", "photos", *MODEL, "--labels", "top1", "--out", "run", "--no-pictures")
    assert run(monkeypatch, *command, "--methods", "mine.py:mine") == 3
    printed = capsys.readouterr()
    assert "RuntimeError: not yet" in printed.err and "no method gave a result" in printed.err
    assert printed.out == ""


def test_a_method_that_gave_nothing_can_be_corrected_left_out_and_forgotten(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.py").write_text(BROKEN)
    command = ("evaluate", "--data", "photos", *MODEL, "--labels", "top1", "--out", "run", "--no-pictures")
    assert run(monkeypatch, *command, "--methods", "mine.py:mine,random") == 3
    assert run(monkeypatch, *command, "--methods", "random") == 0  # left out, it is no failure of this study
    (folder / "mine.py").write_text("def mine(classifier, images, labels):\n    return images[:, :1]\n")
    assert run(monkeypatch, *command, "--methods", "mine.py:mine,random") == 0
    assert "mine" in capsys.readouterr().out
    assert run(monkeypatch, *command, "--methods", "random", "--forget", "grad-cam") == 2
    assert "has no method 'grad-cam'; it has mine, random" in capsys.readouterr().err
    assert run(monkeypatch, *command, "--methods", "random", "--forget", "mine") == 0
    assert run(monkeypatch, "doctor", "run") == 0
    capsys.readouterr()
    assert run(monkeypatch, *command, "--methods", "random", "--format", "json") == 0
    assert [m["name"] for m in json.loads(capsys.readouterr().out)["methods"]] == ["random"]
    assert run(monkeypatch, "doctor", "run") == 0


def test_a_note_is_shown_once_wherever_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    show = _notes()
    for text in ("one picture lies beside", "another", "one picture lies beside"):
        show(UserWarning(text), UserWarning, "file.py", 1)
    assert capsys.readouterr().err.splitlines() == ["note: one picture lies beside", "note: another"]


# ---- Shells complete commands, options and names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, offered",
    [
        ("proofmap ev", ["evaluate"]),
        ("proofmap me", []),  # earlier names of commands are not offered
        ("proofmap list me", ["methods", "metrics"]),
        ("proofmap evaluate --methods grad-cam,gradient-x", ["grad-cam,gradient-x-input"]),
        ("proofmap demo ta", ["table"]),
        ("proofmap bench ru", ["run"]),
        ("proofmap bench run sm", ["smoke"]),
        ("proofmap evaluate --store-maps f", ["float16", "float32"]),
        ("proofmap compare --allow", ["--allow-mismatch"]),
    ],
)
def test_names_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_PROOFMAP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit) as ended:
        app_for([])(prog_name="proofmap")
    assert not ended.value.code
    assert capsys.readouterr().out.split() == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_after_the_line_that_the_documentation_shows(tmp_path: Path) -> None:
    command = tmp_path / "proofmap"
    command.write_text(
        f"#!{sys.executable}\nfrom proofmap_command import main\n\nmain()\n"
    )  # as pip writes it
    command.chmod(0o755)
    script = """
        eval "$(proofmap --show-completion)"
        COMP_WORDS=(proofmap ex); COMP_CWORD=1
        _proofmap_completion proofmap
        echo "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run(["bash", "-c", script], env=settings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["explain", "export"]
