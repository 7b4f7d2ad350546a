"""Two functions of one name are told apart by their code, in every process alike."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier import Classifier
from proofmap.methods import FromFunction
from proofmap.plugins.code import Digest, code_record, foreign_code
from tests.toys import linear_classifier


def code_digest(function: Callable[..., object]) -> object:
    return code_record(function)["code"]


def made(body: str, arguments: str = "x") -> object:
    scope: dict[str, object] = {}
    exec(f"def f({arguments}):\n    {body}", scope)
    return scope["f"]


def test_code_constants_and_inner_functions_count() -> None:
    bodies = [
        "return x",
        "return x + 1",
        "return x + 2",
        "return (lambda y: y + 1)(x)",
        "return (lambda y: y + 2)(x)",
    ]
    digests = [code_digest(made(body)) for body in bodies]  # type: ignore[arg-type]
    assert len(set(digests)) == len(bodies)
    assert digests == [code_digest(made(body)) for body in bodies]  # type: ignore[arg-type]


def test_what_is_not_python_has_no_digest() -> None:
    assert code_digest(len) == ""

    class Called:
        def __call__(self, x: int) -> int:
            return x

    assert code_digest(Called()) != ""


def test_a_function_method_names_its_code() -> None:
    one, other = (
        FromFunction(function=made(f"return {x}", "net, images, labels"))  # type: ignore[arg-type]
        for x in ("images", "-images")
    )
    assert one.settings()["method"] == other.settings()["method"]
    assert one.settings() != other.settings()


def test_a_changed_forward_changes_the_fingerprint() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(linear_classifier(2, 3).blank(1).flatten()[:3].clone())

        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :3] * self.scale

    before = Classifier(Net(), size=2).fingerprint()
    assert Classifier(Net(), size=2).fingerprint() == before

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return -x.flatten(1)[:, :3] * self.scale

    Net.forward = forward  # type: ignore[assignment]
    assert Classifier(Net(), size=2).fingerprint() != before


def test_bound_arguments_defaults_and_closed_over_values_count() -> None:
    """A sweep in a notebook makes many functions of one code."""

    def scaled(k: object) -> object:
        return lambda x: (x, k)

    def by_default(k: object) -> object:
        return lambda x, k=k: (x, k)

    class Called:
        def __init__(self, k: object) -> None:
            self.k = k

        def __call__(self, x: int) -> object:
            return x, self.k

        def method(self, x: int) -> object:
            return x, self.k

    def partially(k: object) -> object:
        return functools.partial(code_digest, k)

    makers = [scaled, by_default, Called, lambda k: Called(k).method, partially]
    values = [
        1,
        2,
        1.0,
        "1",
        (1, 2),
        [1, 2],
        {"a": 1},
        {1, 2},
        torch.ones(2),
        torch.zeros(2),
        np.ones(2),
        scaled(1),
        scaled(2),
    ]
    for make in makers:
        digests = [code_digest(make(value)) for value in values]  # type: ignore[operator]
        again = [code_digest(make(copy.deepcopy(value))) for value in values]  # type: ignore[operator]
        assert digests == again and "" not in digests
        assert len(set(digests)) >= len(values) - 1  # (1, 2) and [1, 2] may be the same


def test_a_class_of_others_counts_by_its_code_and_attributes() -> None:
    class Plain:
        def __init__(self, k: int) -> None:
            self.k = k

        def compute(self) -> int:
            return self._inner() + 1

        def _inner(self) -> int:
            return self.k

    one = foreign_code(Plain(1))
    assert one == foreign_code(Plain(1)) != foreign_code(Plain(2))
    Plain._inner = lambda self: -self.k  # type: ignore[method-assign]
    assert foreign_code(Plain(1)) != one
    assert foreign_code(pm.LearnedMask()) == {}


def test_a_plain_attribute_of_a_net_changes_the_fingerprint() -> None:
    class Scaled(nn.Module):
        def __init__(self, times: float) -> None:
            super().__init__()
            self.layer, self.times, self.seen = nn.Linear(12, 3), times, []
            nn.init.constant_(self.layer.weight, 0.5)
            nn.init.zeros_(self.layer.bias)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.flatten(1)) * self.times * torch.tensor([1.0, 2.0, 3.0])

    first = Classifier(Scaled(1.0), size=2).fingerprint()
    assert (
        Classifier(Scaled(1.0), size=2).fingerprint()
        == first
        != Classifier(Scaled(20.0), size=2).fingerprint()
    )


def test_bytes_between_the_fields_of_an_array_do_not_count() -> None:
    """Arrays of scikit-learn's trees have such bytes, which are not set: each process would have another digest."""

    def digest(padding: int, field: int = 1) -> str:
        kind = np.dtype({"names": ["a", "b"], "formats": ["i8", "u1"], "offsets": [0, 8], "itemsize": 16})
        array = np.full(32, padding, dtype=np.uint8).view(kind)
        array["a"], array["b"] = 7, field
        made = Digest(8)
        made.add_value(array)
        return made.hexdigest()

    assert digest(0) == digest(255) != digest(0, field=2)
