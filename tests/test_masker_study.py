"""The study that judges maskers' files, on a few small photos."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command import run

STUDY = Path(__file__).parents[1] / "benchmarks" / "studies" / "maskers.py"
NET = """
import torch
import proofmap as pm

def tiny():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(4), torch.nn.Flatten()
    return pm.Classifier(torch.nn.Sequential(*layers, torch.nn.Linear(6 * 16, 1000)), size=16)
"""


def test_given_maskers_are_judged_beside_their_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    for i in range(12):
        folder = tmp_path / "photos" / ("train", "val")[i % 2] / ("n01440764", "n03888257")[i % 3 > 0]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    model = ["--model", "net.py:tiny", "--device", "cpu"]
    data = ["--data", "imagenette:photos[train]", "--out", "mine.safetensors"]
    small = ["--steps", "2", "--batch", "2", "--width", "4", "--quiet"]
    assert run(monkeypatch, "train-masker", *model, *data, *small) == 0
    capsys.readouterr()
    study = [
        "imagenette",
        "photos",
        *model,
        "--weights",
        "mine.safetensors",
        "--images",
        "2",
        "--doubted",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", [str(STUDY), *study])
    runpy.run_path(str(STUDY), run_name="__main__")
    told = capsys.readouterr().out
    assert "mine.safetensors: belief, 2 steps of 2 on imagenette[train]" in told
    assert "maps of 6 images of the data" in told
    rows = told.split("best effort", 1)[1].splitlines()[1:5]
    assert [row.split(":")[0].split("*")[0].split()[0] for row in rows] == [
        "random",
        "grad-cam",
        "belief-masker",
        "belief-masker",
    ]
    assert "belief-start-4.safetensors" in rows[2] and "weights=mine.safetensors" in rows[3]
    assert "2 images, labels all, renormalised over the label set" in told
