"""The local executor: in order, no further ahead than a hint of what comes next, errors as themselves."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import pytest

from proofmap.study.executor import LocalExecutor


def test_the_next_unit_is_hinted_at_before_the_current_one_is_run() -> None:
    said: list[str] = []

    class Worker:
        def prefetch(self, unit: str) -> None:
            said.append(f"soon {unit}")

        def __call__(self, unit: str) -> None:
            said.append(f"now {unit}")

    list(LocalExecutor().run(Worker, "abc"))
    assert said == ["soon b", "now a", "soon c", "now b", "now c"]


def test_units_are_computed_in_the_consumers_thread() -> None:
    here = threading.current_thread()
    for _, thread in LocalExecutor().run(lambda: lambda _: threading.current_thread(), range(3)):
        assert thread is here


def test_results_before_an_error_are_still_handed_over() -> None:
    results = LocalExecutor().run(lambda: lambda unit: 1 // unit, [3, 2, 1, 0, 5])
    assert [next(results) for _ in range(3)] == [(3, 0), (2, 0), (1, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_even_an_exit_in_the_worker_reaches_the_consumer() -> None:
    with pytest.raises(SystemExit):
        list(LocalExecutor().run(lambda: exit, [1]))


def test_a_warning_in_the_worker_reaches_the_consumers_filter() -> None:
    with pytest.warns(UserWarning, match="batch halved"):
        list(LocalExecutor().run(lambda: lambda unit: warnings.warn("batch halved", stacklevel=1), [1]))


def test_closing_before_the_first_unit_starts_nothing() -> None:
    made: list[int] = []

    def make() -> Callable[[int], int]:
        made.append(1)
        return abs

    LocalExecutor().run(make, [1]).close()
    assert made == []
