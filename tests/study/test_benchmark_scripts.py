"""Benchmarks and studies as scripts: they run without the libraries they measure against, and keep what is done."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Protocol

import pytest
import torch
from PIL import Image

from proofmap.methods import METHODS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


class Script(Protocol):
    def __call__(self, name: str, folder: Path = BENCHMARKS) -> ModuleType: ...


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """Imports a script of a folder, as Python does when it is run, and forgets it afterwards."""
    before = set(sys.modules)

    def imported(name: str, folder: Path = BENCHMARKS) -> ModuleType:
        monkeypatch.syspath_prepend(str(folder))
        return __import__(name)

    yield imported
    for name in {"_timing", "given_maps", "gradients_speed", "cam_speed", "frontier"} - before:
        sys.modules.pop(name, None)


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in packages]:
        monkeypatch.delitem(sys.modules, name)
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)


def test_gradients_are_timed_without_captum(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "captum")
    found = script("gradients_speed")
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["-", "--images", "1", "--labels", "2", "--rounds", "1"])
    try:
        found.main()
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert "maps of a loop in Captum's place 1.0000" in said and "ratio" in said


def test_cams_are_timed_without_the_library(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "pytorch_grad_cam")
    found = script("cam_speed")
    monkeypatch.setattr(
        sys, "argv", ["-", "--images", "1", "--labels", "2", "--rounds", "1", "--skip-score-cam"]
    )
    found.main()
    said = capsys.readouterr().out
    assert "layer-cam: ours" in said and said.count("pytorch-grad-cam is not here") == 3


def test_the_frontier_passes_over_a_method_that_fails_and_draws_what_is_done_when_stopped(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = script("frontier", BENCHMARKS / "studies")

    drawn: list[str] = []

    def row_of(f: object, images: object, spec: str, *_: object) -> object:
        if spec == "broken":
            raise RuntimeError("no such kernel")
        if spec == "stopped":
            raise KeyboardInterrupt
        return found.Row(
            spec, "control", 1.0, (0.5, 0.6, 0.7), (0.4, 0.5, 0.6), 2.0, 0.1, METHODS[spec].revision
        )

    monkeypatch.setattr(found, "row_of", row_of)
    monkeypatch.setattr(found, "draw", lambda rows, title, path: drawn.extend(row.method for row in rows))
    monkeypatch.setattr(found, "chosen", lambda *_: (torch.zeros(2, 3, 4, 4), torch.zeros(1)))
    monkeypatch.setattr(found.pm, "load_classifier", lambda *_, **__: SimpleNamespace())
    order = ["random", "broken", "edges", "stopped", "never"]
    monkeypatch.setattr(sys, "argv", ["-", "cifar10", "-", "--out", str(tmp_path), "--methods", *order])
    with pytest.raises(KeyboardInterrupt):
        found.main()
    assert "broken: RuntimeError: no such kernel" in capsys.readouterr().out
    written = json.loads((tmp_path / "frontier.json").read_text())
    kept = [row["method"] for row in written["rows"]]
    assert kept == drawn == ["random", "edges"]

    monkeypatch.setattr(
        sys, "argv", ["-", "cifar10", "-", "--out", str(tmp_path), "--methods", "edges", "hsic"]
    )
    monkeypatch.setattr(
        found, "row_of", lambda f, images, spec, *_: asked.append(spec) or row_of(f, images, spec)
    )
    asked: list[str] = []
    found.main()
    assert asked == ["hsic"]  # what is there is not judged again
    assert drawn[2:] == ["random", "edges", "hsic"]

    written["rows"][1]["revision"] -= 1
    (tmp_path / "frontier.json").write_text(json.dumps(written))
    found.main()
    assert asked == ["hsic", "edges", "hsic"]  # a method of another revision is

    monkeypatch.setattr(sys, "argv", [*sys.argv[:-1], "broken", "hsic"])
    with pytest.raises(SystemExit, match=r"not judged: broken$"):
        found.main()

    monkeypatch.setattr(sys, "argv", [*sys.argv, "--points", "8"])
    with pytest.raises(SystemExit, match="take another --out"):
        found.main()


def test_the_figure_of_the_frontier_names_every_method_inside_it(script: Script, tmp_path: Path) -> None:
    found = script("frontier", BENCHMARKS / "studies")
    specs = ["belief-mask", "belief-mask:preset=thorough", "rise:masks=1000", "top-label:grad-cam"]
    rows = [
        found.Row(spec, "mask", 10.0, (0.98, 0.5 + 0.01 * k, 0.4), (0.2, 0.3, 0.4), 2.0, 0.1, 1)
        for k, spec in enumerate(specs)
    ]
    assert found.short_names(rows) == ["belief-mask", "belief-mask:thorough", "rise", "top-label:grad-cam"]
    found.draw(rows, "four", tmp_path / "frontier.png")
    with Image.open(tmp_path / "frontier.png") as picture:
        assert picture.size == (880, 1320) and len(picture.getcolors(10**6) or ()) > 20
