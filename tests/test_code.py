"""Two functions of one name are told apart by their code, in every process alike."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from torch import Tensor, nn

from proofmap._code import code_digest
from proofmap.classifier import Classifier
from proofmap.methods.method import FromFunction
from tests.toys import linear_classifier


def made(body: str) -> object:
    scope: dict[str, object] = {}
    exec(f"def f(x):\n    {body}", scope)
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


def test_what_is_not_python_has_no_digest_and_wrappers_are_looked_through() -> None:
    assert code_digest(len) == ""
    assert code_digest(functools.partial(code_digest, None)) == code_digest(code_digest)

    class Called:
        def __call__(self, x: int) -> int:
            return x

    assert code_digest(Called()) != ""


def test_the_digest_is_the_same_in_every_process() -> None:
    """Sets of strings are printed in an order that changes with the hash seed."""
    script = (
        "from proofmap._code import code_digest\n"
        "def f(x):\n    return x in {'a', 'b', 'c', 'd', 'e'}\n"
        "print(code_digest(f))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_a_function_method_names_its_code() -> None:
    one, other = (FromFunction(function=made(body)) for body in ("return x", "return -x"))  # type: ignore[arg-type]
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
