"""The desk example gives the paper's numbers, up to the last digit of its rounded inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from proofmap.metrics.scores import completeness, soundness
from proofmap.reproduce.findings import Job
from proofmap.reproduce.linear_case import run_desk
from proofmap.reproduce.recipe import Recipe

RECIPE = Recipe.named("desk")
SETTINGS = RECIPE.settings
F = torch.tensor(SETTINGS["f"], dtype=torch.float64)
AREAS = torch.tensor([*SETTINGS["areas"].values()], dtype=torch.float64)
COMPLETE = [[0.97, 1.0], [1.0, 1.0], [0.64, 0.58]]
SOUND = [[1.0, 0.89], [0.95, 0.44], [1.0, 1.0]]
"""As printed in section 3.3, for its three methods and two labels."""
ROUNDING = 0.025
"""What inputs of two decimals allow: .13 / .15 may be anything from .806 to .931, and .89 is printed."""


def test_each_pair_scores_what_the_paper_prints() -> None:
    for auc, complete, sound in zip(AREAS, COMPLETE, SOUND, strict=True):
        assert completeness(auc, F, 0.0).tolist() == pytest.approx(complete, abs=0.005)
        assert soundness(auc, F, 0.0).tolist() == pytest.approx(sound, abs=ROUNDING)


def test_the_recipe_finds_the_papers_worst_cases(tmp_path: Path) -> None:
    found = run_desk(Job(RECIPE, SETTINGS, tmp_path))
    assert found.holds and len(found.tables[0].records) == 6
    for record in found.tables[0].records:
        assert record["value"] == pytest.approx(record["paper"], abs=ROUNDING)


def test_completeness_alone_would_choose_the_unsound_method() -> None:
    chosen = int(completeness(AREAS, F, 0.0).amin(dim=1).argmax())
    assert list(SETTINGS["areas"])[chosen] == "learned mask, TV .001"
    assert int(soundness(AREAS, F, 0.0).amin(dim=1).argmin()) == chosen


def test_the_printed_inputs_could_have_been_the_unrounded_ones() -> None:
    """Each printed score lies between those of the ends of its inputs' rounding intervals."""
    least = soundness(AREAS[:, 1] + 0.005, F[1] - 0.005, 0.0)
    most = soundness((AREAS[:, 1] - 0.005).clamp_min(0), F[1] + 0.005, 0.0)
    for low, high, (_, sound) in zip(least.tolist(), most.tolist(), SOUND, strict=True):
        assert low <= sound + 0.005 and sound - 0.005 <= high
