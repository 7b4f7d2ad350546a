"""Benchmarks and studies as scripts: they run without the libraries they measure against, and keep what is done."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.study import run_study
from tests.study.studies import toy_study

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STUDIES = {path.stem for path in (*BENCHMARKS.glob("*.py"), *(BENCHMARKS / "studies").glob("*.py"))}


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
    for name in STUDIES - before:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("script")  # forgets the scripts that the script imports
@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("label_readings", ["missing"], "there is no run directory missing"),
        ("label_readings", ["one-label"], "one-label has one label of each image"),
        (
            "joined_samples",
            ["one-label/run.json", "one-label"],
            "one-label/run.json does not have the scores of every image",
        ),
        ("roar", ["--data", "missing"], "missing has no file data_batch_1"),
    ],
)
def test_a_wrong_folder_is_one_line_and_exit_code_2(
    name: str,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run_study(toy_study(tmp_path, 1, labels="top1", methods=["random"]), tmp_path / "one-label")
    monkeypatch.chdir(tmp_path)
    studies = BENCHMARKS / "studies"
    monkeypatch.syspath_prepend(str(studies))
    monkeypatch.setattr(sys, "argv", [name, *arguments, "--out", "new/out.json"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(studies / f"{name}.py"), run_name="__main__")
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and line.startswith(f"error: {message}")
    assert not Path("new").exists()


def test_two_samples_as_one_have_the_scores_of_all_their_images(script: Script, tmp_path: Path) -> None:
    run_study(toy_study(tmp_path, 4, methods=["random", "gradient"]), tmp_path / "run")
    whole = pm.Run(tmp_path / "run").evaluation()
    found, (random, gradient) = script("joined_samples", BENCHMARKS / "studies"), whole.results
    first, second = whole.select_images([0, 1, 2]), whole.select_images([2, 3])
    record = {
        "images": [*first.image_names],
        "values": {r.name: {k: v.tolist() for k, v in r.values.items()} for r in first.results},
    }
    names, values = found.joined(record, second)
    assert (*names,) == whole.image_names and max(found.differences_on_shared(record, second)) < 1e-5
    for here, there in zip(found.evaluated(second, names, values).results, whole.results, strict=True):
        for score in there.scores:
            assert here.score(score.name).value == pytest.approx(score.value, abs=1e-5)
            assert here.score(score.name).n == 4
    only = replace(second, results=(gradient.select_images([2, 3], [], second.image_names),))
    names, values = found.joined(record, only)
    assert [values[random.name][score][3] for score in random.values] == [None] * len(random.values)
    assert {score.n for score in found.evaluated(only, names, values).results[0].scores} == {3}
    assert found.joined({"images": names, "values": values}, second)[1] == found.joined(record, second)[1]


def test_soundness_without_labels_below_e2_is_that_of_the_worst_other_label(script: Script) -> None:
    found = script("steady_proofs", BENCHMARKS / "studies")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 4))
    torch.nn.init.normal_(net[1].weight, std=0.3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net[1].weight[3] = -1.0  # a label of dark pictures
        net[1].bias.copy_(torch.tensor([3.0, 2.0, 0.0, 27.0]))
    f = found.pm.Classifier(net, size=4)
    drawn = torch.rand(7, 4, 4, 2, generator=torch.Generator().manual_seed(1))
    images, maps = 0.5 + drawn[:6, ..., 0].view(2, 3, 4, 4) / 2, drawn[1:5].permute(3, 0, 1, 2)
    labels = torch.arange(4).expand(2, -1)
    fill = found.Fill.make("gray")
    values = found.measures(f, images, maps, labels, fill)
    c = found.pm.insertion(f, images, maps, labels, fill=fill, points=32, draws=2)
    assert bool((c.f < 0.001).any())
    for k in range(2):
        each = [
            (float(a), min(1.0, max(float(a), 0.001) / float(auc)))
            for a, auc in zip(c.f[k], c.auc[k], strict=True)
        ]
        assert values["soundness"][k] == pytest.approx(min(s for _, s in each), rel=1e-4)
        assert values["soundness, f >= e2"][k] == pytest.approx(
            min(s for a, s in each if a >= 0.001), rel=1e-4
        )
        assert values["soundness"][k] < 0.9 * values["soundness, f >= e2"][k]


# ---- Scripts beside the package (benchmarks, studies, what makes the documentation) import only what the package has ---


ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs").glob("*.py")])


def missing(source: str) -> list[str]:
    """What a script imports from the package that is not there; nothing of the script is run."""
    imported = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [
        f"{node.module}.{alias.name}"
        for node in imported
        for alias in node.names
        if str(node.module).split(".")[0] == "proofmap" and not has(str(node.module), alias.name)
    ]


def has(module: str, name: str) -> bool:
    """Whether the package has this name; a module that needs a package which is not installed is one that it has."""
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("proofmap")
    return True


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_scripts_import_is_there(script: Path) -> None:
    assert missing(script.read_text()) == []


def test_what_has_moved_is_found() -> None:
    source = "from proofmap.metrics import make_game, moved\ndef later():\n    from proofmap.elsewhere import thing\n"
    assert missing(source) == ["proofmap.metrics.moved", "proofmap.elsewhere.thing"]


# ---- The studies that train nets: what is removed, what is planted, and a whole run on made-up data -------------------


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    names = ("cifar_training", "roar", "planted_evidence", "shuffled_labels")
    found = {name: __import__(name) for name in names}
    for name in names:
        sys.modules.pop(name)
    return found


def made_up(folder: Path, n: int = 40) -> Path:
    """CIFAR-10 of two labels that brightness tells apart."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        labels = np.arange(n) % 2
        pixels = random.integers(0, 90, (n, 3072)) + 160 * labels[:, None]
        content = {b"data": pixels.astype(np.uint8), b"labels": labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))
    return folder


def test_the_first_share_of_pixels_is_removed(studies: dict[str, ModuleType]) -> None:
    x = torch.rand(2, 3, 32, 32)
    ranks = torch.arange(1024).flip(0).expand(2, -1)  # the last pixels come first
    found = studies["roar"].removed(x, ranks, 0.25)
    assert torch.equal(found[..., :24, :], x[..., :24, :])
    colour = x.mean(dim=(0, 2, 3)).view(1, 3, 1, 1).expand(2, 3, 8, 32)
    torch.testing.assert_close(found[..., 24:, :], colour)


def test_the_trigger_is_where_it_is_said_to_be(studies: dict[str, ModuleType]) -> None:
    x = torch.full((5, 3, 32, 32), 0.3)
    found, where = studies["planted_evidence"].with_trigger(x, seed=0)
    assert where.flatten(1).sum(dim=1).tolist() == [16] * 5
    assert torch.equal((found != x).any(dim=1, keepdim=True), where)


def test_roar_says_what_is_lost_and_that_it_is_extrinsic(
    studies: dict[str, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, out = made_up(tmp_path / "cifar", 20), tmp_path / "roar.json"
    given = ["--data", str(data), "--out", str(out), "--width", "4", "--epochs", "1"]
    given += ["--shares", "0.5", "--methods", "edges", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["roar.py", *given])
    studies["roar"].main()
    told = capsys.readouterr().out
    assert "extrinsic" in told and "loss beyond random" in told
    found = json.loads(out.read_text())
    assert list(found["accuracy"]) == ["random", "edges"] and found["shares"] == [0.5]


def test_maps_of_a_net_with_shuffled_labels_are_others_and_edges_stay_as_they_are(
    studies: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = made_up(tmp_path / "cifar", 16), tmp_path / "shuffled.json"
    given = ["--data", str(data), "--out", str(out), "--width", "2", "--epochs", "2", "--images", "2"]
    given += ["--methods", "gradient,edges", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["shuffled_labels.py", *given])
    studies["shuffled_labels"].main()
    found = json.loads(out.read_text())
    ranks = {
        (line["method"], line["order"]): line["value"] for line in found["rows"] if line["score"] == "rank"
    }
    assert ranks["edges", "labels"] == pytest.approx(1.0) and ranks["gradient", "labels"] < 0.9
    assert ranks["edges", "other image"] < 0.9
