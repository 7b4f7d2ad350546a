"""path/file.py:function: any net of the user's own, or an error that says what to return."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from proofmap.core.errors import InputError, ModelError, ProofmapError
from proofmap.models import load_classifier

NETS = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn
from proofmap import Classifier
from neighbour import WIDTH

@dataclass
class Settings:
    names: list[str]

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, WIDTH))

def classifier():
    names = ["x", "y", "z"]
    return Classifier(net(), size=8, names=names, label_set=["x", "z"], renormalise=True, name="mine")

def pair():
    return net(), {"size": (8, 8), "names": Settings(["x", "y", "z"]).names}

def no_size():
    return net(), {"mean": (0, 0, 0)}

def misspelt():
    return net(), {"size": 8, "meen": (0, 0, 0)}

def nothing():
    pass

def broken():
    raise FileNotFoundError("weights.pth is gone")

NUMBER = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "neighbour.py").write_text("WIDTH = 3")
    sys.modules.pop("neighbour", None)
    return tmp_path / "nets.py"


def test_a_net_with_arguments_becomes_a_classifier_named_after_its_function(file: Path) -> None:
    f = load_classifier(f"{file}:pair", batch_size=2)
    assert (f.name, f.size, f.names) == ("nets.py:pair", (8, 8), ("x", "y", "z"))
    assert f.batches[0].size == 2
    assert f.probabilities(torch.rand(5, 3, 8, 8)).shape == (5, 3)


def test_a_classifier_may_be_given_another_device_and_batch_size(file: Path) -> None:
    f = load_classifier(f"{file}:classifier", device="cpu", batch_size=7)
    assert f.batches[0].size == 7
    assert (f.name, f.names, f.label_set, f.renormalise) == ("mine", ("x", "y", "z"), (0, 2), True)


@pytest.mark.parametrize(
    "function, told",
    [
        ("net", r"bare net Sequential, which does not have its input size.*return a proofmap\.Classifier"),
        ("nothing", r"returned None; return a proofmap\.Classifier"),
        ("no_size", "a classifier needs size"),
        ("misspelt", "unknown: meen.*size, mean, std"),
        ("broken", "cannot be built: FileNotFoundError: weights.pth is gone"),
        ("absent", "has no function 'absent'"),
        ("NUMBER", "has no function 'NUMBER'"),
    ],
)
def test_anything_else_is_answered_with_what_to_do(file: Path, function: str, told: str) -> None:
    with pytest.raises(ProofmapError, match=told):
        load_classifier(f"{file}:{function}")


def test_a_file_that_fails_or_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import no_such_package_here")
    with pytest.raises(ModelError, match=r"bad\.py:make cannot be built: ModuleNotFoundError"):
        load_classifier(f"{tmp_path / 'bad.py'}:make")
    with pytest.raises(ModelError, match=r"there is no file .*absent\.py"):
        load_classifier(f"{tmp_path / 'absent.py'}:make")


def test_running_the_file_leaves_the_search_path_as_it_was(file: Path) -> None:
    before = list(sys.path)
    load_classifier(f"{file}:pair")
    assert sys.path == before
    assert "nets" not in sys.modules


def test_weights_are_the_functions_business(file: Path) -> None:
    with pytest.raises(InputError, match="the function decides"):
        load_classifier(f"{file}:pair", weights="a.pth")
