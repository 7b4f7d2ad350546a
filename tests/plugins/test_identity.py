"""The identity of a user's function, class or value: it follows from files and contents, and is the same in every process."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.methods.from_function import FromFunction
from proofmap.plugins.identity import identity, provenance
from proofmap.plugins.python_file import HERE_ONLY
from tests.toys import linear_classifier


@dataclass
class Config:
    scale: object


class Called:
    def __init__(self, k: object) -> None:
        self.k = k

    def __call__(self, x: object) -> object:
        return x, self.k


def looped(*values: object) -> list[Any]:
    """A list that contains itself."""
    found: list[Any] = [*values]
    found.append(found)
    return found


def padded(padding: int, field: int = 1) -> np.ndarray[Any, Any]:
    """An array with bytes between its fields, which in scikit-learn's trees are not set."""
    kind = np.dtype({"names": ["a", "b"], "formats": ["i8", "u1"], "offsets": [0, 8], "itemsize": 16})
    array = np.full(32, padding, dtype=np.uint8).view(kind)
    array["a"], array["b"] = 7, field
    return array


def trained(weight: float) -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(weight)
    return net


def add(x: int, y: int) -> int:
    return x + y


VALUES: dict[str, tuple[Any, Any]] = {
    "a number": (1, 2),
    "a number of another type": (1, 1.0),
    "a tensor": (torch.ones(3), torch.tensor([1.0, 1.0, 2.0])),
    "a tensor of another type": (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    "an array": (np.ones(3), np.array([1.0, 1.0, 2.0])),
    "an array of objects": (np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object)),
    "an array of fields": (padded(0), padded(0, field=2)),
    "a list of tensors": ([torch.zeros(2)], [torch.ones(2)]),
    "a list that contains itself": (looped(1), looped(2)),
    "a dictionary": ({"a": 1}, {"a": 2}),
    "a key": ({"a": 1}, {"b": 1}),
    "a set": ({"a", "b"}, {"a", "c"}),
    "a path": (PurePosixPath("a"), PurePosixPath("b")),
    "a type of torch": (torch.float32, torch.float64),
    "a dataclass": (Config([1]), Config([2])),
    "a callable object": (Called(1), Called(2)),
    "a net": (trained(0.0), trained(1.0)),
    "a method's settings": (pm.LearnedMask(), pm.LearnedMask(steps=3)),
    "a classifier": (linear_classifier(2, 3), linear_classifier(2, 3, seed=1)),
    "bound arguments": (functools.partial(add, 1), functools.partial(add, 2)),
}


def closed_over(value: object) -> Callable[[], object]:
    return lambda: value


def by_default(value: object) -> Callable[[], object]:
    def read(value: object = value) -> object:
        return value

    return read


BOUND: dict[str, Callable[[object], object]] = {
    "by itself": lambda value: value,
    "closed over": closed_over,
    "a default": by_default,
    "an argument": lambda value: functools.partial(add, value),
    "of a method": lambda value: Called(value).__call__,
}


@pytest.mark.parametrize("where", BOUND)
def test_values_that_are_bound_to_a_function_count_by_their_content(where: str) -> None:
    for what, (one, other) in VALUES.items():
        same, again, different = (identity(BOUND[where](x)) for x in (one, copy.deepcopy(one), other))
        assert same == again != different and HERE_ONLY not in same, what
    assert identity(padded(0)) == identity(padded(255))


def test_functions_of_one_file_are_told_apart() -> None:
    found = [add, closed_over, Called, Config, len, sorted, lambda: 1]
    found.append(lambda: 2)
    assert len({identity(thing) for thing in found}) == len(found)


def notebook(code: str, **values: object) -> dict[str, Any]:
    """The names of a module without a file, after this code was run in it."""
    scope: dict[str, Any] = {"__name__": "a_notebook", **values}
    exec(code, scope)
    return scope


NOTEBOOK = """
from proofmap.methods import Method

def bright(classifier, images, labels):
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

class Bright(Method):
    name = "bright"
    def maps(self, session, images, labels):
        return bright(None, images, labels)
"""


@pytest.mark.parametrize("name", ["bright", "Bright"])
def test_code_without_a_file_is_known_in_this_process_only(name: str) -> None:
    thing, again = notebook(NOTEBOOK)[name], notebook(NOTEBOOK)[name]
    assert identity(thing).startswith(HERE_ONLY)
    assert identity(thing) == identity(thing) != identity(again)
    assert HERE_ONLY in str(provenance(notebook(NOTEBOOK)["Bright"]()))


@pytest.mark.parametrize("live", [threading.Lock(), (k for k in range(3))])
def test_a_value_that_cannot_be_read_is_known_in_this_process_only(live: object) -> None:
    kept = functools.partial(add, live)
    assert identity(kept).startswith(HERE_ONLY) and identity(kept) == identity(functools.partial(add, live))


def test_a_net_counts_by_its_weights_even_if_its_class_has_no_file() -> None:
    kind = notebook("from torch import nn\nclass Net(nn.Linear):\n    pass")["Net"]
    net = kind(2, 2)
    before = identity(net)
    assert before == identity(copy.deepcopy(net)) and before.startswith(HERE_ONLY)
    with torch.no_grad():
        net.weight += 1
    assert identity(net) != before


def test_a_function_method_names_its_code() -> None:
    settings = FromFunction(function=notebook(NOTEBOOK)["bright"]).settings()
    assert settings["method"] == "bright" and HERE_ONLY in str(settings["code"])
    assert "code" not in provenance(pm.LearnedMask()), "the code of Proofmap has a version"
