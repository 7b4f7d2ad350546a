"""``--track``: settings and scores reach MLflow, Weights & Biases and TensorBoard."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.cli.evaluate import _trackers_for
from proofmap.core.errors import InputError, MissingExtra
from tests.command import run

NET = """
import torch
import proofmap as pm

def tiny():
    torch.manual_seed(0)
    return pm.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)), size=2)
"""


@pytest.fixture(scope="module")
def judged() -> pm.Evaluation:
    torch.manual_seed(0)
    net = pm.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)), size=2)
    methods = ["gradient", "learned-mask:steps=1"]
    return pm.evaluate(net, torch.rand(2, 3, 2, 2), methods=methods, labels="all", metrics=["soundness"])


def test_scores_have_plain_names_with_their_interval(judged: pm.Evaluation) -> None:
    found, score = judged.to_dict(), judged["gradient"].scores[0]
    assert found["gradient/soundness"] == score.value
    assert (found["gradient/soundness/low"], found["gradient/soundness/high"]) == (score.low, score.high)
    assert "learned-mask:steps=1/soundness" in found and len(found) == 6


def test_tensorboard_has_the_scores_and_the_settings(judged: pm.Evaluation, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    _trackers_for(["tensorboard"])(judged, tmp_path)
    found = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (event,) = found.Scalars("gradient/soundness")
    assert event.step == 2 and event.value == pytest.approx(judged.to_dict()["gradient/soundness"])
    (settings,) = found.Tensors("settings/text_summary")
    assert '"seed": "0"' in settings.tensor_proto.string_val[0].decode()


class Package(ModuleType):
    """Stands for MLflow and W&B: records the calls of the functions that Proofmap uses."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("start_run", "init"):
            return self._run(name)
        if name not in ("log_params", "log_metrics", "log"):
            raise AttributeError(name)
        return lambda values, step=None: self.calls.append((name, dict(values)))

    def _run(self, name: str) -> Any:
        @contextmanager
        def opened(**options: Any) -> Any:
            self.calls.append((name, options))
            yield self

        return opened


def test_mlflow_gets_names_that_it_allows(
    judged: pm.Evaluation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = Package("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", package)
    _trackers_for(["mlflow"])(judged, tmp_path / "study")
    (_, options), (_, settings), (_, scores) = package.calls
    assert options == {"run_name": "study"} and settings["seed"] == "0"
    assert {"gradient/soundness", "gradient/soundness/low", "learned-mask:steps_1/soundness"} <= scores.keys()


def test_wandb_gets_scores_and_settings_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = Package("wandb")
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    study = ("--data", "sample:cat", "--model", "net.py:tiny", "--methods", "gradient", "--labels", "all")
    arguments = ("evaluate", *study, "--no-pictures", "--out", "run", "--track", "wandb")
    assert run(monkeypatch, *arguments) == 0
    (_, options), (_, scores) = package.calls
    assert options["name"] == "run" and options["config"]["model"]
    assert scores == {
        name: value for name, value in pm.Run("run").evaluation().to_dict().items() if value == value
    }

    def fails(**options: Any) -> None:
        raise OSError("no such server")

    package.init = fails  # type: ignore[attr-defined]
    capsys.readouterr()
    assert run(monkeypatch, *arguments) == 0
    assert "wandb did not get the scores: no such server" in capsys.readouterr().err


def test_a_wrong_name_and_a_missing_package_are_refused_before_the_study(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(
        InputError, match=r"--track takes mlflow, wandb, tensorboard, not 'tensorbord'. Did you mean"
    ):
        _trackers_for(["tensorbord"])
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        MissingExtra, match=r"--track wandb needs the package 'wandb'.*pip install 'proofmap\[wandb\]'"
    ):
        _trackers_for(["wandb"])
