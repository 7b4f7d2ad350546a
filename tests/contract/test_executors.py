"""The executor of one process keeps the contract of executors; for Ray's see tests/study/test_ray_executor.py."""

from __future__ import annotations

import pytest

from proofmap.study.executor import LocalExecutor
from proofmap.testing import check_executor
from proofmap.testing.executors import MakeExecutor, drawn_ahead
from proofmap.testing.plugins import Check


@pytest.mark.parametrize("check", check_executor.checks, ids=str)
def test_local(check: Check[MakeExecutor]) -> None:
    check(LocalExecutor)


def test_the_local_executor_draws_one_unit_ahead() -> None:
    assert drawn_ahead(LocalExecutor()) == 1
