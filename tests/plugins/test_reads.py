"""The values that a function reads by name are part of its identity, wherever they are: globals, closures, attributes."""

from __future__ import annotations

import copy
import random
import re
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.methods import FromFunction
from proofmap.plugins.code import code_record, provenance, value_digest
from proofmap.plugins.reads import unseen_in
from tests.sessions import bound
from tests.toys import linear_classifier


def code_digest(function: Callable[..., object]) -> str:
    return str(code_record(function)["code"])


def notebook(code: str, **values: object) -> dict[str, Any]:
    """The names of a module without a file, after this code was run in it."""
    scope: dict[str, Any] = {"__name__": "a_notebook", **values}
    exec(code, scope)
    return scope


class Config:
    def __init__(self, scale: object, other: object = None) -> None:
        self.scale, self.other = scale, other

    @property
    def double(self) -> object:
        return self.other


def looped() -> list[Any]:
    """A list that contains itself."""
    found: list[Any] = [1]
    found.append(found)
    return found


def trained(weight: float) -> nn.Module:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(weight)
    return net


PAIRS: dict[str, tuple[Any, Any]] = {
    "a number": (1, 2),
    "a tensor": (torch.ones(3), torch.tensor([1.0, 1.0, 2.0])),
    "a tensor of another type": (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    "an array": (np.ones(3), np.array([1.0, 1.0, 2.0])),
    "an array of objects": (np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object)),
    "a scalar of NumPy": (np.float32(1), np.float32(2)),
    "a list": ([1, 2], [1, 3]),
    "a list of tensors": ([torch.zeros(2)], [torch.ones(2)]),
    "a dictionary": ({"a": 1}, {"a": 2}),
    "a key": ({"a": 1}, {"b": 1}),
    "a set": ({"a", "b"}, {"a", "c"}),
    "a deque": (deque([1]), deque([2])),
    "a path": (PurePosixPath("a"), PurePosixPath("b")),
    "an object": (Config(1), Config(2)),
    "a tensor deep inside": (
        {"a": [Config({"b": (torch.zeros(1),)})]},
        {"a": [Config({"b": (torch.ones(1),)})]},
    ),
    "a net": (trained(0.0), trained(1.0)),
    "a generator of NumPy": (np.random.default_rng(0), np.random.default_rng(1)),
    "a generator of Python": (random.Random(0), random.Random(1)),
    "a generator of torch": (torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)),
    "a pattern": (re.compile("a"), re.compile("b")),
    "a slice": (slice(0, 2), slice(0, 3)),
    "a type of torch": (torch.float32, torch.float64),
    "a method's description": (pm.LearnedMask(), pm.LearnedMask(steps=3)),
    "a classifier": (linear_classifier(2, 3), linear_classifier(2, 3, seed=1)),
}
READERS: dict[str, str] = {
    "global": "def read():\n    return VALUE",
    "in a function inside": "def read():\n    return [(lambda: VALUE)() for _ in range(2)]",
    "in a function it calls": "def inner():\n    return VALUE\ndef read():\n    return inner()",
    "closed over": "def outer(value):\n    return lambda: value\nread = outer(VALUE)",
    "a default": "def read(value=VALUE):\n    return value",
    "an attribute": "import types\nconfig = types.SimpleNamespace(scale=VALUE)\ndef read():\n    return config.scale",
    "a class attribute": "class Kept:\n    value = VALUE\n    def get(self):\n        return self.value\ndef read():\n    return Kept().get()",
    "behind a decorator": "import functools\ndef plain(f):\n    @functools.wraps(f)\n    def inner():\n        return f(), VALUE\n"
    "    return inner\n@plain\ndef read():\n    return 1",
    "in a cached function": "import functools\n@functools.cache\ndef inner():\n    return VALUE\ndef read():\n    return inner()",
    "of a callable object": "class Kept:\n    def __init__(self):\n        self.value = VALUE\n    def __call__(self):\n        return self.value\n"
    "read = Kept()",
}


@pytest.mark.parametrize("what", PAIRS)
def test_another_value_is_another_identity(what: str) -> None:
    one, other = PAIRS[what]
    code = READERS["global"]
    copied = one.clone_state() if isinstance(one, torch.Generator) else copy.deepcopy(one)
    digests = [code_digest(notebook(code, VALUE=value)["read"]) for value in (one, copied, other)]
    assert digests[0] == digests[1] != digests[2]
    assert not unseen_in(code_record(notebook(code, VALUE=one)["read"]))


@pytest.mark.parametrize("where", READERS)
def test_a_value_counts_wherever_it_is_read(where: str) -> None:
    digests = [
        code_digest(notebook(READERS[where], VALUE=value)["read"])
        for value in (torch.zeros(2), torch.zeros(2), torch.ones(2))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_global_that_was_changed_in_place_counts() -> None:
    scope = notebook("def read():\n    return VALUE", VALUE=torch.zeros(2))
    before = code_digest(scope["read"])
    scope["VALUE"] += 1
    assert code_digest(scope["read"]) != before


def test_values_that_are_not_read_do_not_count() -> None:
    """``x.data`` reads no global ``data``, and ``config.scale`` reads nothing else of ``config``."""
    code = "def read(x):\n    data = x.data\n    return data * config.scale"

    def digest(**values: object) -> str:
        return code_digest(notebook(code, **values)["read"])

    usual = digest(config=Config(2, "a"), data=1, unused=1)
    assert usual == digest(config=Config(2, "b"), data=threading.Lock(), unused=2)
    assert usual != digest(config=Config(3, "a"), data=1, unused=1)
    whole = notebook("def read():\n    return config.double", config=Config(2, "a"))["read"]
    other = notebook("def read():\n    return config.double", config=Config(2, "b"))["read"]
    assert code_digest(whole) != code_digest(other), "a property may read all of its object"


def test_a_module_of_the_users_own_counts_by_the_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_settings")
    monkeypatch.setitem(sys.modules, "own_settings", module)
    module.SCALE, module.OTHER = [1.0], [1.0]  # type: ignore[attr-defined]
    for code in (
        "import own_settings\ndef read():\n    return own_settings.SCALE",
        "def read():\n    from own_settings import SCALE\n    return SCALE",
    ):
        read = notebook(code)["read"]
        module.SCALE = [1.0]  # type: ignore[attr-defined]
        before = code_digest(read)
        module.OTHER = [5.0]  # type: ignore[attr-defined]
        assert code_digest(read) == before
        module.SCALE = [2.0]  # type: ignore[attr-defined]
        assert code_digest(read) != before


def test_a_record_names_the_values(tmp_path: Path) -> None:
    code = "import torch\ndef read():\n    return torch.relu(A), B, config.scale"
    found = code_record(notebook(code, A=torch.ones(2), B="b", config=Config(3))["read"])
    assert re.fullmatch(r"\{'A': 'Tensor [0-9a-f]{16}', 'B': 'b', 'config.scale': 3\}", str(found["reads"]))
    with open(tmp_path / "log", "w") as log:
        found = code_record(notebook("def read():\n    return config.scale", config=Config([log]))["read"])
    assert unseen_in({"of": found}) == {"config.scale": "TextIOWrapper"}


@pytest.mark.parametrize("live", [threading.Lock(), (k for k in range(3))], ids=["a lock", "a generator"])
def test_what_cannot_be_seen_is_noted(live: object) -> None:
    kind = type(live).__name__
    assert unseen_in(code_record(notebook("def read():\n    return LIVE", LIVE=live)["read"])) == {
        "LIVE": kind
    }
    kept = notebook(
        "from dataclasses import dataclass\nfrom proofmap.methods import Method\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Mine(Method):\n    name = 'mine'\n    live = LIVE\n"
        "    def maps(self, session, images, labels):\n        return images\n",
        LIVE=live,
    )["Mine"]()
    assert unseen_in(provenance(kept)) == {"Mine.live": kind}


def test_a_value_that_contains_itself_has_a_digest() -> None:
    assert value_digest(looped()) == value_digest(looped()) != value_digest([1, [1]])
    config = Config(1)
    config.other = config
    assert value_digest(config) == value_digest(copy.deepcopy(config)) != value_digest(Config(1))


def test_a_record_is_made_before_the_first_map() -> None:
    """A function that fills a cache keeps one record, and one place in a dictionary, while it runs."""
    scope = notebook("def f(classifier, images, labels):\n    CACHE.append(1)\n    return images", CACHE=[])
    ready = bound(FromFunction(function=scope["f"]), linear_classifier(2, 3))
    before, place = ready.record(), hash(ready.thing)
    scope["CACHE"].append(1)
    assert (ready.record(), hash(ready.thing)) == (before, place)
    assert FromFunction(function=scope["f"]).settings() != before
