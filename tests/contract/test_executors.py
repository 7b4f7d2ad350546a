"""The executor of one process keeps the contract of executors; for Ray's see tests/study/test_ray_executor.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proofmap.study.executor import LocalExecutor
from proofmap.testing import check_executor
from proofmap.testing.executors import MakeExecutor, drawn_ahead


@pytest.mark.parametrize("check", check_executor.checks)
def test_local(check: Callable[[MakeExecutor], None]) -> None:
    check(LocalExecutor)


def test_the_local_executor_draws_one_unit_ahead() -> None:
    assert drawn_ahead(LocalExecutor()) == 1
