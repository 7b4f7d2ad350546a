"""Methods and metrics in a file of the user's own, named on the command line or in a study file."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.fills import FILLS
from proofmap.methods import METHODS
from proofmap.metrics import METRICS, make_metric
from proofmap.plugins.python_file import from_python_file
from proofmap.plugins.specs import split_specs
from tests.command import run
from tests.toys import conv_classifier, pixels

MINE = """
from typing import ClassVar
from beside import POWER
from proofmap.methods import METHODS, Method
from proofmap.metrics import Metric

def bright(classifier, images, labels):
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

@METHODS.register
class Brightness(Method):
    name: ClassVar[str] = "brightness-in-a-file"
    description: ClassVar[str] = "bright pixels"
    power: float = POWER
    label_free = True

    def maps(self, session, images, labels):
        return images.mean(dim=1, keepdim=True) ** self.power

class Mean(Metric):
    name: ClassVar[str] = "mean-in-a-file"
    higher_is_better: ClassVar[bool] = True
    description: ClassVar[str] = "mean of the image"
    times: float = 1.0

    def values(self, judged):
        return self.times * judged.images.mean(dim=(1, 2, 3))

NOTHING = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the user's; what it registers is forgotten afterwards."""
    monkeypatch.setattr(METHODS, "_known", {name: METHODS[name] for name in METHODS})
    (tmp_path / "beside.py").write_text("POWER = 2.0\n")
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_a_function_and_a_class_become_methods(mine: Path) -> None:
    f, images = conv_classifier(8), pixels(2, 8)
    labels = torch.tensor([[0, 1], [2, 3]])
    bright = images.mean(dim=1, keepdim=True)
    function = pm.make_method(f"{mine}:bright")
    assert torch.equal(function(f, images, labels), bright.expand(-1, 2, -1, -1))
    made = pm.make_method(f"{mine}:Brightness:power=3")
    assert made.label_free and torch.equal(made(f, images, labels), (bright**3).expand(-1, 2, -1, -1))
    assert pm.make_method({"method": f"{mine}:Brightness", "power": 3.0}) == made
    assert pm.make_method(f"top-label:{mine}:bright").settings()["of"] == function.settings()
    assert split_specs(f"{mine}:Brightness:power=3,{mine}:bright,grad-cam") == [
        f"{mine}:Brightness:power=3",
        f"{mine}:bright",
        "grad-cam",
    ]


def test_a_class_becomes_a_metric(mine: Path) -> None:
    metric = make_metric(f"{mine}:Mean:times=2")
    assert metric.settings() == {"times": 2} and make_metric({"metric": f"{mine}:Mean", "times": 2}) == metric
    images = pixels(3, 8)
    found = pm.evaluate(conv_classifier(8), images, methods=["random"], metrics=[metric])
    assert torch.allclose(found.results[0].values[metric.name], 2 * images.mean(dim=(1, 2, 3)))


@pytest.mark.parametrize(
    "make, spec, told",
    [
        (pm.make_method, "gone.py:bright", "no file 'gone.py'"),
        (pm.make_method, "{}:dark", "has no 'dark'"),
        (pm.make_method, "{}:bright:power=2", "has no settings"),
        (pm.make_method, "{}:Brightness:glow=2", "no setting 'glow'"),
        (pm.make_method, "{}:NOTHING", "not int"),
        (make_metric, "{}:NOTHING", "a metric is a name, a Metric or a function, not int"),
    ],
)
def test_mistakes_are_told(mine: Path, make: object, spec: str, told: str) -> None:
    assert callable(make)
    with pytest.raises(pm.InputError, match=told):
        make(spec.format(mine))


def test_a_study_file_finds_methods_beside_it_and_notices_when_their_code_changes(mine: Path) -> None:
    import numpy as np
    from PIL import Image

    (mine.parent / "photos").mkdir()
    for k in range(3):
        Image.fromarray(np.full((8, 8, 3), 60 * k, dtype=np.uint8)).save(mine.parent / "photos" / f"{k}.png")
    study = mine.parent / "study.toml"
    study.write_text(
        'data = "photos"\nlabels = "top2"\nmethods = ["mine.py:bright", "top-label:mine.py:bright"]\n'
        '[[metrics]]\nmetric = "mine.py:Mean"\ntimes = 2\n'
    )
    run = mine.parent / "run"
    f = conv_classifier(8)
    assert pm.run_study(pm.Study.from_toml(study), run, classifier=f).complete
    with pm.Run(run) as opened:
        means = opened.evaluation().results[0].values["mean-in-a-file"]
    assert means.tolist() == pytest.approx([2 * 60 * k / 255 for k in range(3)])

    mine.write_text(MINE.replace("self.times * judged", "self.times + judged"))
    os.utime(mine, ns=(2, 2))
    only_metric = replace(pm.Study.from_toml(study), methods=("random",))
    with pytest.raises(pm.InputError, match=r"metric 'mean-in-a-file'.* has other settings:\n  code: "):
        pm.run_study(only_metric, run, classifier=f)


def test_a_file_edited_within_a_second_is_never_taken_from_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytecode is known by the second and the size of its source: here both stay the same."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    mine, beside = tmp_path / "mine_edited.py", tmp_path / "beside_edited.py"
    found = []
    for value in ("1", "2"):
        mine.write_text(f"import beside_edited\nOWN = {value}\nBOTH = {value}, beside_edited.OTHER\n")
        beside.write_text(f"OTHER = {value}\n")
        for k, file in enumerate((mine, beside)):
            os.utime(file, ns=(10**18 + int(value) + k, 10**18 + int(value) + k))
        sys.modules.pop("beside_edited", None)
        importlib.invalidate_caches()
        found.append(from_python_file(f"{mine}:BOTH", "pair"))
    assert found == [(1, 1), (2, 2)]
    assert not (tmp_path / "__pycache__").exists() and not sys.dont_write_bytecode


REGISTERS = """
from proofmap.fills import FILLS, Fill
from proofmap.methods import METHODS, Method
from proofmap.metrics import METRICS, Metric

@METHODS.register
class Bright(Method):
    name = "bright-of-plugins"

    def maps(self, session, images, labels):
        return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

@METRICS.register
class Mean(Metric):
    name = "mean-of-plugins"
    higher_is_better = True

    def values(self, judged):
        return judged.images.mean(dim=(1, 2, 3))

@FILLS.register
class Moved(Fill):
    name = "moved-of-plugins"
    by: int = 1

    def backgrounds(self, session, images, keys):
        return images.roll(self.by, dims=-1)
"""


@pytest.mark.parametrize(
    "methods, metrics, fills",
    [
        ("{}:Bright", "mean-of-plugins", ""),
        ("bright-of-plugins", "insertion:fill=moved-of-plugins,{}:Mean", ""),
        ("bright-of-plugins", "insertion", "moved-of-plugins,{}:Moved:by=2"),
    ],
)
def test_names_that_a_file_registers_are_known_wherever_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: str, metrics: str, fills: str
) -> None:
    for registry in (METHODS, METRICS, FILLS):
        monkeypatch.setattr(registry, "_known", {name: registry[name] for name in registry})
    (tmp_path / "plugins.py").write_text(REGISTERS)
    monkeypatch.chdir(tmp_path)
    given = [text.format("plugins.py") for text in (methods, metrics, fills)]
    study = pm.Study(**{k: split_specs(v) if v else () for k, v in zip(("methods", "metrics", "fills"), given, strict=True)})  # fmt: skip
    assert study.named_metrics() and [m.name for m in study.named_methods().values()] == ["bright-of-plugins"]
    again = {"metrics": given[1], "methods": given[0], "fills": [*study.fills]}
    found = pm.evaluate(conv_classifier(8), pixels(1, 8), labels="top1", **again)
    assert [result.name for result in found.results] == ["bright-of-plugins"]


def test_a_file_alone_is_refused_with_what_it_has(mine: Path) -> None:
    with pytest.raises(pm.InputError, match=r"Write .*mine.py:NAME, .* bright, Brightness, Mean$"):
        pm.make_method(str(mine))


def test_list_shows_the_settings_of_a_class_in_a_file(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "list", "methods", f"{mine}:Brightness") == 0
    assert "power=2 (a number)" in capsys.readouterr().out
    assert run(monkeypatch, "list", "methods", f"{mine}:bright") == 2
    assert run(monkeypatch, "list", "methods", str(mine)) == 2
    assert "bright, Brightness, Mean" in capsys.readouterr().err
