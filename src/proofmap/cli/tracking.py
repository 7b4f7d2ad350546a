"""``--track``: log the scores and settings of a run to MLflow, Weights & Biases or TensorBoard."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from proofmap.cli.console import stderr
from proofmap.core.errors import InputError, require
from proofmap.core.text import did_you_mean, one_line
from proofmap.results.evaluation import Evaluation

Texts = Mapping[str, str]
Scores = Mapping[str, float]


def _mlflow(package: Any, settings: Texts, scores: Scores, step: int, folder: Path) -> None:
    with package.start_run(run_name=folder.name):
        package.log_params({name: value[:6000] for name, value in settings.items()})
        allowed = {re.sub(r"[^\w\-. :/]", "_", name): value for name, value in scores.items()}
        package.log_metrics(allowed, step=step)


def _wandb(package: Any, settings: Texts, scores: Scores, step: int, folder: Path) -> None:
    with package.init(name=folder.name, config=dict(settings)) as run:
        run.log(dict(scores), step=step)


def _tensorboard(package: Any, settings: Texts, scores: Scores, step: int, folder: Path) -> None:
    with package.SummaryWriter(str(folder / "tensorboard")) as writer:
        writer.add_text("settings", json.dumps(dict(settings), indent=1), step)
        for name, value in scores.items():
            writer.add_scalar(name, value, step)


_TRACKERS: Mapping[str, tuple[str, Callable[..., None]]] = {
    "mlflow": ("mlflow", _mlflow),
    "wandb": ("wandb", _wandb),
    "tensorboard": ("torch.utils.tensorboard", _tensorboard),
}


def trackers_for(names: Sequence[str]) -> Callable[[Evaluation, Path], None]:
    """A function that logs the scores and settings of an evaluation, and the run directory's name, to these trackers. Raises if a name is not
    that of a tracker, or its package is missing.

    A tracker that fails is a message: the results are in the run directory.
    """
    for name in names:
        if name not in _TRACKERS:
            raise InputError(
                f"--track takes {', '.join(_TRACKERS)}, not {name!r}.{did_you_mean(name, _TRACKERS)}"
            )
        for module in (name, _TRACKERS[name][0]):
            require(module, extra=name, purpose=f"--track {name}")

    def track(evaluation: Evaluation, folder: Path) -> None:
        settings = {
            key: value if isinstance(value, str) else json.dumps(value, default=str)
            for key, value in evaluation.settings.items()
        }
        scores = {key: value for key, value in evaluation.to_dict().items() if math.isfinite(value)}
        for name in names:
            module, log = _TRACKERS[name]
            try:
                log(import_module(module), settings, scores, len(evaluation), folder)
            except Exception as error:
                stderr.print(f"{name} did not get the scores: {one_line(str(error))}")

    return track
