"""Small things that first calls on the command line try."""

from __future__ import annotations

from pathlib import Path

import pytest

import proofmap as pm
from tests.command import run

NETS = """
import torch
import proofmap as pm

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
beats = pm.Classifier(net, inputs=pm.Series(length=6, mean=(0.0,), std=(1.0,)), names=["slow", "fast"])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{('slow', 'fast')[k % 2]},{','.join(str(0.1 * k * t) for t in range(6))}" for k in range(6)]
    (tmp_path / "beats.csv").write_text("\n".join(["label,a,b,c,d,e,f", *rows]) + "\n")
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_in_a_file_may_be_a_classifier_and_rows_a_range(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--model",
        "nets.py:beats",
        "--target",
        "label",
        "--labels",
        "all",
        "--method",
        "occlusion",
        "-q",
    )
    assert run(monkeypatch, "explain", "beats.csv", *words, "--rows", "1-3,5") == 0
    shown = capsys.readouterr().out
    assert [k for k in range(6) if f"series-0000{k}" in shown] == [1, 2, 3, 5]
    for wrong in ("3-1", "4-9"):
        assert run(monkeypatch, "explain", "beats.csv", *words, "--rows", wrong) == 2
        assert f"--rows names '{wrong}'" in capsys.readouterr().err
    assert pm.load_classifier("nets.py:beats", batch_size=2).names == ("slow", "fast")


def test_one_or_several_methods_are_written_in_either_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--model", "nets.py:beats", "--target", "label", "--labels", "all", "-q")
    for method, fill in (("--method", "--fill"), ("--methods", "--fills")):
        assert run(monkeypatch, "explain", "beats.csv", *words, method, "occlusion", fill, "gray") == 0
        judged = ("--data", "beats.csv", *words, "--methods", "occlusion", fill, "gray", "--no-pictures")
        assert run(monkeypatch, "evaluate", *judged) == 0
