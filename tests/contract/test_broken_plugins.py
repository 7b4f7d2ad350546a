"""Each check fails for a plug-in that breaks its promise, and says what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from proofmap.methods import Gradient
from proofmap.testing import (
    Check,
    Contract,
    check_dataset,
    check_executor,
    check_fill,
    check_game,
    check_inputs,
    check_method,
    check_metric,
    executors,
    plugins,
)
from tests.contract.broken_datasets import DATASETS
from tests.contract.broken_executors import EXECUTORS
from tests.contract.broken_fills import FILLS, fill
from tests.contract.broken_games import GAMES, counting_records
from tests.contract.broken_inputs import INPUTS
from tests.contract.broken_methods import METHODS, method
from tests.contract.broken_metrics import METRICS

CONTRACTS: list[tuple[Contract[Any], dict[str, Any]]] = [
    (check_method, METHODS),
    (check_fill, FILLS),
    (check_game, GAMES),
    (check_metric, METRICS),
    (check_executor, EXECUTORS),
    (check_dataset, DATASETS),
    (check_inputs, INPUTS),
]


@pytest.mark.parametrize(
    "check, broken",
    [pytest.param(check, broken, id=str(check)) for kind, broken in CONTRACTS for check in kind.checks],
)
def test_a_broken_promise_is_found(
    check: Check[Any], broken: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "LONG", 0.2)
    thing, told = broken[str(check)]
    with pytest.raises(AssertionError, match=told) as caught:
        check(thing)
    assert str(caught.value).startswith(check.promise)


@pytest.mark.parametrize(
    "contract_, thing, told",
    [
        (check_fill, fill(record=lambda self, session: {"color": (0.5,)}), "expected 'fill': 'gray' in it"),
        (
            check_fill,
            fill(record=lambda self, session: {"fill": "gray", "color": (0.5,)}),
            "the record changes when JSON carries it",
        ),
        (check_game, counting_records(), "two records differ"),
    ],
    ids=["a fill without its name", "a fill with a tuple", "a game that counts"],
)
def test_other_faults_of_records_are_found(contract_: Contract[Any], thing: Any, told: str) -> None:
    promise = "its_record_is_plain_data_that_names_it_and_the_same_each_time"
    check = next(check for check in contract_.checks if str(check) == promise)
    with pytest.raises(AssertionError, match=told):
        check(thing)


@pytest.mark.parametrize("contract_, broken", CONTRACTS, ids=lambda given: getattr(given, "kind", ""))
def test_no_promise_is_forgotten(contract_: Contract[Any], broken: dict[str, Any]) -> None:
    assert list(broken) == [str(check) for check in contract_.checks]


def test_all_broken_promises_are_named_at_once() -> None:
    check_method(Gradient())
    with pytest.raises(AssertionError) as caught:
        check_method(method(name="My Method", __repr__=lambda self: "MyMethod()", stochastic=True))
    heading, *promises = str(caught.value).splitlines()
    assert heading == f"MyMethod() breaks 2 of the {len(check_method.checks)} promises of every method:"
    assert [line.partition(":")[0] for line in promises if line.startswith("- ")] == [
        "- it has a name and a description",
        "- stochastic means that the seed matters",
    ]


@pytest.mark.parametrize("optimize", [0, 1])
def test_nothing_passes_where_python_removes_assertions(
    optimize: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is compiled as by ``python -O``; a process of its own would compile torch again, too."""
    assert plugins.__file__ is not None
    source = Path(plugins.__file__).read_text(encoding="utf-8")
    module = ModuleType("plugins as read")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look there for their module
    exec(compile(source, plugins.__file__, "exec", optimize=optimize), module.__dict__)
    if optimize:
        with pytest.raises(RuntimeError, match="the checks are assertions"):
            module.Check(print)("it ran")
    else:
        module.Check(print)("it ran")
    assert capsys.readouterr().out == ("" if optimize else "it ran\n")
