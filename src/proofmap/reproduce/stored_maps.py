"""The images and maps of a finished run, for measurements of a recipe beyond the run's own metrics.

No map is made again: masks that took an hour are measured again in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.metrics.context import Judged
from proofmap.metrics.games import Game, ReadyGame
from proofmap.report.figures.drawing import evaluation_settings
from proofmap.reproduce.copied_run import select_rows
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared
from proofmap.study import Run, Study
from proofmap.study.session import open_net


@dataclass(frozen=True)
class StoredMaps:
    """An evaluation with the pixels and maps of all its images, and the net that judged them."""

    classifier: Classifier
    evaluation: Evaluation

    @classmethod
    def open(cls, folder: Path, study: Study, device: str | None) -> StoredMaps:
        """The run of this study in this folder; it must have kept its maps (``maps = "float32"``)."""
        with Run(folder) as run:  # one that was begun with another's has rows that nobody asks for
            rows = [name for name in study.named_methods() if name in run.methods]
            evaluation = run.evaluation(pictured=len(run.images), methods=rows)
        if len(evaluation.pictured) < len(evaluation):
            raise InputError(
                f"{folder} lacks the maps of {len(evaluation) - len(evaluation.pictured)} of {len(evaluation)} images: a method "
                f"failed on them, or the pictures were moved. See {folder / 'report.html'}, then use another --out"
            )
        return cls(open_net(study, device=device), select_rows(evaluation, study))

    @property
    def images(self) -> Tensor:
        return self.evaluation.images.to(self.classifier.device)

    @property
    def labels(self) -> Tensor:
        return self.evaluation.labels.to(self.classifier.device)

    def maps(self, row: str) -> Tensor:
        """Maps ``(N, L, *positions)`` of one method for all images and labels."""
        return self.evaluation.maps_of(self.evaluation[row]).to(self.classifier.device, torch.float32)

    def judged(
        self,
        row: str,
        games: Mapping[Game, ReadyGame] | None = None,
        *,
        images: slice = slice(None),
        labels: int | None = None,
    ) -> Judged:
        """The input of a metric: one method's maps of some images, for the first labels of each image."""
        return Judged(
            self.classifier.frozen(),
            self.images[images],
            self.labels[images, :labels],
            self.maps(row)[images, :labels],
            seed=self.seed,
            games=games or {},
        )

    @property
    def seed(self) -> int:
        return int(str(self.evaluation.settings["seed"]))

    @property
    def points(self) -> Any:
        """The points of the insertion curves that the run's scores are taken from."""
        return self.evaluation.results[0].insertion.settings["points"]

    def about(self) -> str:
        """The settings that figures of the maps depend on, as a sentence for captions."""
        return evaluation_settings(shared(self.evaluation), thresholds=False)
