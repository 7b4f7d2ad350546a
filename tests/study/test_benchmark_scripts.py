"""Benchmarks and studies as scripts: they run without the libraries they measure against, and keep what is done."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Protocol

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
