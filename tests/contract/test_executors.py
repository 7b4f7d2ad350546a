"""Our executors keep the contract of executors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proofmap.study.executors.executor import LocalExecutor
from proofmap.study.executors.ray_executor import LARGEST_GROUP, RayExecutor
from proofmap.testing import Check, check_executor
from proofmap.testing.executors import MakeExecutor, drawn_ahead, make_squarer

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    yield
    ray.shutdown()


def one_ray_worker() -> RayExecutor:
    return RayExecutor(workers=1)


@pytest.mark.parametrize("check", check_executor.checks, ids=str)
def test_local(check: Check[MakeExecutor]) -> None:
    check(LocalExecutor)


@pytest.mark.parametrize("check", check_executor.checks, ids=str)
@pytest.mark.usefixtures("cluster")
def test_ray(check: Check[MakeExecutor]) -> None:
    check(one_ray_worker)


def test_the_local_executor_draws_one_unit_ahead() -> None:
    assert drawn_ahead(LocalExecutor()) == 1


@pytest.mark.usefixtures("cluster")
def test_a_ray_worker_has_a_few_groups_ahead() -> None:
    assert drawn_ahead(one_ray_worker()) < 7 * LARGEST_GROUP


def test_without_units_no_cluster_is_started() -> None:
    assert list(RayExecutor(address="nobody:1").run(make_squarer, [])) == []
