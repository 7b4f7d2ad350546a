"""Each check fails for a plug-in that breaks its promise, and says what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from proofmap import testing
from proofmap.study.executor import LocalExecutor
from proofmap.testing import (
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
from proofmap.testing.executors import MakeExecutor, drawn_ahead
from proofmap.testing.plugins import Contract
from tests.contract.broken_datasets import DATASETS, EXECUTORS
from tests.contract.broken_fills import FILLS, INPUTS, RECORDS
from tests.contract.broken_methods import METHODS, method
from tests.contract.broken_metrics import GAMES, METRICS
from tests.docs.pages import DOCS

CONTRACTS: list[tuple[Contract[Any], Sequence[tuple[str, Any, str]]]] = [
    (check_method, METHODS),
    (check_fill, [*FILLS, *RECORDS]),
    (check_game, GAMES),
    (check_metric, METRICS),
    (check_executor, EXECUTORS),
    (check_dataset, DATASETS),
    (check_inputs, INPUTS),
]
FAULTS = [
    pytest.param(contract_, *fault, id=f"{contract_.kind}-{k}-{fault[0]}")
    for contract_, faults in CONTRACTS
    for k, fault in enumerate(faults)
]


@pytest.mark.parametrize("contract_, promise, thing, told", FAULTS)
def test_a_broken_promise_is_found(
    contract_: Contract[Any], promise: str, thing: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "LONG", 0.2)
    check = next(check for check in contract_.checks if check.__name__ == promise)
    with pytest.raises(AssertionError, match=told) as caught:
        check(thing)
    assert str(caught.value).startswith(promise.replace("_", " "))


@pytest.mark.parametrize("contract_, faults", CONTRACTS, ids=lambda given: getattr(given, "kind", ""))
def test_no_promise_is_forgotten(contract_: Contract[Any], faults: Sequence[tuple[str, Any, str]]) -> None:
    assert {promise for promise, *_ in faults} == {check.__name__ for check in contract_.checks}


def test_all_broken_promises_are_named_at_once() -> None:
    with pytest.raises(AssertionError) as caught:
        check_method(method(name="My Method", __repr__=lambda self: "MyMethod()", stochastic=True))
    heading, *promises = str(caught.value).splitlines()
    assert heading == f"MyMethod() breaks 2 of the {len(check_method.checks)} promises of every method:"
    assert [line.partition(":")[0] for line in promises if line.startswith("- ")] == [
        "- it is known by its name and its settings",
        "- label free and stochastic are true",
    ]


@pytest.mark.parametrize("optimize", [0, 1])
def test_nothing_passes_where_python_removes_assertions(
    optimize: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is compiled as by ``python -O``; a process of its own would compile torch again, too."""
    source = Path(plugins.__file__).read_text(encoding="utf-8")
    module = ModuleType("plugins as read")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look there for their module
    exec(compile(source, plugins.__file__, "exec", optimize=optimize), module.__dict__)
    contract_ = module.Contract("thing")
    contract_.promise(print)
    (check,) = contract_.checks
    if optimize:
        with pytest.raises(RuntimeError, match="the checks are assertions"):
            check("it ran")
    else:
        check("it ran")
    assert capsys.readouterr().out == ("" if optimize else "it ran\n")


# ---- the page ------------------------------------------------------------------------------------------------


def test_every_contract_is_on_the_page() -> None:
    text = (DOCS / "extend.md").read_text(encoding="utf-8")
    contracts = [name for name in testing.__all__ if name.startswith("check_")]
    assert len(contracts) == 7 and all(f"{name}(" in text or f"`{name}`" in text for name in contracts)


# ---- executors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", check_executor.checks)
def test_local(check: Callable[[MakeExecutor], None]) -> None:
    check(LocalExecutor)


def test_the_local_executor_draws_one_unit_ahead() -> None:
    assert drawn_ahead(LocalExecutor()) == 1
