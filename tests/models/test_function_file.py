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


BARE = """
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))

def logits(batch):
    return module(batch)

def risky(frame):
    high = 1 / (1 + np.exp(-frame["age"] / 50))
    return np.stack([1 - high, high], axis=1)
"""


def test_a_net_or_a_function_of_a_batch_says_what_it_takes_in_options(tmp_path: Path) -> None:
    file = tmp_path / "bare.py"
    file.write_text(BARE)
    x = torch.rand(5, 3, 8, 8)
    expected = load_classifier(f"{file}:module?size=8").probabilities(x)
    found = load_classifier(f"{file}:logits?size=8&names=a,b,c,d&mean=0.5:0.5:0.5&std=1:1:1")
    assert found.name == "bare.py:logits" and found.names == tuple("abcd")
    assert found.mean == (0.5,) * 3 and found.outputs == "logits"
    assert torch.equal(load_classifier(f"{file}:logits?size=8").probabilities(x), expected)
    pytest.importorskip("pandas")
    (tmp_path / "rows.csv").write_text("age,income,left\n20,3,0\n70,1,1\n40,2,0\n")
    of_rows = load_classifier(f"{file}:risky?data={tmp_path / 'rows.csv'}&target=left")
    assert of_rows.inputs.position_names == ("age", "income") and len(of_rows.names) == 2
    for spec, told in (
        (
            f"{file}:logits",
            r"bare\.py:logits is the bare net function.*write what the net takes: bare\.py:logits\?size=224",
        ),
        (f"{file}:logits?seize=8", "cannot be read"),
    ):
        with pytest.raises(ProofmapError, match=told):
            load_classifier(spec)


def test_options_are_not_for_what_says_itself_what_it_takes(file: Path) -> None:
    with pytest.raises(InputError, match=r"nets\.py:pair says itself what it takes"):
        load_classifier(f"{file}:pair?size=8")
