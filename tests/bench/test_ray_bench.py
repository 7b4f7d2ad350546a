"""A task under Ray on two nodes gives the record that one process gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from proofmap.bench import Record, Task, run_task
from proofmap.study import LocalExecutor, RayExecutor, Run

NO_DATA = Path("no-data")


@pytest.fixture
def two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster of two raylets with one core each, started in different folders."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for name in ("first", "second", "driver"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    small = {"num_cpus": 1, "object_store_memory": 128 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    monkeypatch.chdir(tmp_path / "second")
    cluster.add_node(num_cpus=1, object_store_memory=128 * 2**20)
    monkeypatch.chdir(tmp_path / "driver")
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
def test_two_nodes_give_the_record_of_one_process(two_nodes: str, tmp_path: Path) -> None:
    smoke = Task.named("smoke")
    task = replace(smoke, settings={**smoke.settings, "images_per_unit": 1})
    executor = RayExecutor(workers=2, address=two_nodes)

    def record(name: str, executor: Any) -> Record:
        return run_task(
            task, "gradient", tmp_path / name, data=NO_DATA, executor=executor, threads=1, device="cpu"
        )

    spread, alone = record("ray", executor), record("local", LocalExecutor())
    same = {key: value for key, value in asdict(spread).items() if key not in ("seconds", "machine")}
    assert same == {key: asdict(alone)[key] for key in same}
    with Run(tmp_path / "ray") as run:
        assert run.store.rows("SELECT count(*) FROM units") == [(10,)]
