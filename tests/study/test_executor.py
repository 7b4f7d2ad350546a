"""The local executor: in order, no further ahead than a hint of what comes next, errors as themselves."""

from __future__ import annotations

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
