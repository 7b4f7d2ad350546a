"""A run is not continued by a function that reads other values than it did: in this process, or in another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from tests.study.processes import Processes
from tests.study.studies import facts, toy_study

SCOPE: dict[str, Any] = {"__name__": "a_notebook"}
exec(
    "def weighted(classifier, images, labels):\n"
    "    return (images * WEIGHTS).mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)\n",
    SCOPE,
)


def whole_run(folder: Path, weights: Tensor) -> pm.Study:
    """A study of the function on four pictures, run in ``folder/run``."""
    SCOPE["WEIGHTS"] = weights
    study = toy_study(folder, 4, methods=[SCOPE["weighted"]], metrics=["insertion"])
    pm.run_study(study, folder / "run")
    return study


def test_a_global_that_changed_is_refused_in_the_same_process(tmp_path: Path) -> None:
    study = whole_run(tmp_path, torch.ones(3, 1, 1))
    before = facts(tmp_path / "run")
    assert pm.run_study(study, tmp_path / "run").units == 0, "nothing has changed"
    SCOPE["WEIGHTS"] = -torch.ones(3, 1, 1)
    more = toy_study(tmp_path, 6, methods=[SCOPE["weighted"]], metrics=["insertion"])
    with pytest.raises(
        InputError, match=r"'weighted' of .* has other settings:\n  code: .*\n  reads\.WEIGHTS: Tensor "
    ):
        pm.run_study(more, tmp_path / "run")
    assert facts(tmp_path / "run") == before
    SCOPE["WEIGHTS"] = torch.ones(3, 1, 1)
    assert pm.run_study(more, tmp_path / "run").units == 1, "with the old value the run grows"


def test_a_value_that_cannot_be_seen_is_refused_by_its_name(tmp_path: Path) -> None:
    with open(tmp_path / "log.txt", "w") as log:
        scope: dict[str, Any] = {"__name__": "a_notebook", "log": log}
        exec(
            "def noted(classifier, images, labels):\n    log.write('called')\n"
            "    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)\n",
            scope,
        )
        study = toy_study(tmp_path, 2, methods=[scope["noted"]], metrics=["insertion"])
        assert pm.run_study(study, tmp_path / "run").units == 1
        with pytest.raises(
            InputError, match=r"'noted' of .* it reads log \(TextIOWrapper\), whose content cannot be checked"
        ):
            pm.run_study(study, tmp_path / "run")
        assert (
            pm.run_study(toy_study(tmp_path, 2, methods=["random"], metrics=()), tmp_path / "run").units == 1
        )


def test_values_that_were_read_from_elsewhere_count_in_another_process(
    tmp_path: Path, processes: Processes
) -> None:
    """The file of the method stays as it is; what it reads when it is run does not. Sets have another order there."""
    (tmp_path / "table.json").write_text(json.dumps({"scale": 2.0, "words": ["cat", "dog", "cup"]}))
    (tmp_path / "mine.py").write_text(
        "import json\nimport torch\nfrom pathlib import Path\n"
        "TABLE = json.loads(Path(__file__).with_name('table.json').read_text())\n"
        "WORDS = {word: {word} for word in set(TABLE['words'])}\n"
        "class Kept:\n    def __init__(self):\n        self.weights, self.words = torch.ones(3), frozenset(WORDS)\n"
        "KEPT = Kept()\n"
        "def scaled(classifier, images, labels):\n"
        "    x = images * KEPT.weights.view(-1, 1, 1) * len(WORDS) * TABLE['scale']\n"
        "    return x.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)\n"
    )
    study = toy_study(tmp_path, 2, methods=[f"{tmp_path / 'mine.py'}:scaled"], metrics=["insertion"])
    assert processes.run(study, tmp_path / "run") == {"units": 1, "failed": 0}
    assert pm.run_study(study, tmp_path / "run").units == 0
    (tmp_path / "table.json").write_text(json.dumps({"scale": -2.0, "words": ["cat", "dog", "cup"]}))
    answer = processes.run(study, tmp_path / "run")
    assert answer is not None and "reads.TABLE: dict " in answer["text"]
