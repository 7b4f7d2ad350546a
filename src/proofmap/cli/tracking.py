"""``--track``: log the scores and settings of a run to MLflow, Weights & Biases or TensorBoard."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proofmap.cli.console import stderr
from proofmap.core.errors import InputError, require
from proofmap.core.text import one_line, suggest_names
from proofmap.results.evaluation import Evaluation

Scores = Mapping[str, float]


def _mlflow(package: Any, settings: Mapping[str, str], scores: Scores, step: int, folder: Path) -> None:
    named = {
        re.sub(r"[^\w\-. :/]", "_", name): value for name, value in scores.items()
    }  # MLflow allows no others
    with package.start_run(run_name=folder.name):
        package.log_params({name: value[:6000] for name, value in settings.items()})
        package.log_metrics(named, step=step)


def _wandb(package: Any, settings: Mapping[str, str], scores: Scores, step: int, folder: Path) -> None:
    with package.init(name=folder.name, config=dict(settings)) as run:
        run.log(dict(scores), step=step)


def _tensorboard(package: Any, settings: Mapping[str, str], scores: Scores, step: int, folder: Path) -> None:
    with package.SummaryWriter(str(folder / "tensorboard")) as writer:
        writer.add_text("settings", json.dumps(dict(settings), indent=1), step)
        for name, value in scores.items():
            writer.add_scalar(name, value, step)


TRACKERS: Mapping[str, tuple[str, Callable[..., None]]] = {
    "mlflow": ("mlflow", _mlflow),
    "wandb": ("wandb", _wandb),
    "tensorboard": ("torch.utils.tensorboard", _tensorboard),
}


def trackers_of(names: list[str]) -> list[Callable[[Evaluation, Path], None]]:
    """A function for each tracker that logs an evaluation and the run directory's name. Raises if a name or a package is missing."""
    return [_tracker(name) for name in names]


def _tracker(name: str) -> Callable[[Evaluation, Path], None]:
    if name not in TRACKERS:
        raise InputError(
            f"--track takes {', '.join(TRACKERS)}, not {name!r}.{suggest_names(difflib.get_close_matches(name, TRACKERS))}"
        )
    module, log = TRACKERS[name]
    require(name, extra=name, purpose=f"--track {name}")
    package = require(module, extra=name, purpose=f"--track {name}")

    def track(evaluation: Evaluation, folder: Path) -> None:
        settings = {
            key: value if isinstance(value, str) else json.dumps(value, default=str)
            for key, value in evaluation.settings.items()
        }
        scores = {key: value for key, value in evaluation.to_dict().items() if math.isfinite(value)}
        try:
            log(package, settings, scores, len(evaluation), folder)
        except Exception as error:  # a server that does not answer; the results are in the run directory
            stderr.print(f"{name} did not get the scores: {one_line(str(error))}")

    return track
