"""The Ray executor: dead workers, lost units, clusters of ours and of others, and what cannot be placed.

What the executor decides is tried with forked actors (``forked``), which start at once; what Ray does for it, with Ray (``ray``).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import proofmap.study.executors.ray_executor as module
from proofmap.core.errors import InputError, MissingExtra, ProofmapError
from proofmap.study.executors.executor import Lost
from proofmap.study.executors.ray_executor import LARGEST_GROUP, RayExecutor, _Actor, _Job, _Jobs, _Raised
from proofmap.testing import Check, check_executor, executors
from proofmap.testing.executors import MakeExecutor, make_squarer, until
from tests.forked import check_fork
from tests.study.forked_ray import ForkedRay


@pytest.fixture(scope="module")
def running_ray() -> Iterator[ModuleType]:
    ray = pytest.importorskip("ray")
    settings = {
        "prestart_worker_first_driver": False,  # our actors have an environment of their own
        "worker_register_timeout_seconds": 600,  # on a busy machine a process is slow to start
    }
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="CRITICAL",
        _system_config=settings,
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def ray(running_ray: ModuleType) -> ModuleType:
    """Ray with a cluster of two cores, none of them taken."""
    assert until(lambda: running_ray.available_resources().get("CPU") == 2)
    return running_ray


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> ForkedRay:
    """Two cores, with actors that are forked from this process, in the place of Ray."""
    check_fork()
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    stand_in = ForkedRay(cloudpickle)
    monkeypatch.setitem(sys.modules, "ray", stand_in)  # type: ignore[arg-type]
    return stand_in


def die() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


# ---- workers: they are pickled, so they are named and stand alone -------------------------------------------------


def make_mortal(notes: Path, fatal: int, tries: int) -> Callable[[int], int]:
    """A worker whose process dies of the fatal unit that many times."""

    def work(unit: int) -> int:
        if unit == fatal:
            with notes.open("a") as file:
                file.write("x")
            if notes.stat().st_size <= tries:
                die()
        return -unit

    return work


def make_stillborn(births: Path) -> Callable[[int], int]:
    with births.open("a") as file:
        file.write("x")
    return die()


def make_single(first: Path) -> Callable[[int], int]:
    """Only one process survives this."""
    try:
        first.touch(exist_ok=False)
    except FileExistsError:
        die()
    return abs


def make_waiting(folder: Path) -> Callable[[int], int]:
    """A worker that tells its process and waits at unit 1 until it may go on."""

    def work(unit: int) -> int:
        if unit == 1 and not (folder / "go on").exists():
            (folder / "pid").write_text(str(os.getpid()))
            until((folder / "go on").exists)
        return -unit

    return work


def make_meeting(folder: Path) -> Callable[[int], bool]:
    """A worker that waits at each unit until the other unit is under way too."""

    def work(unit: int) -> bool:
        (folder / str(unit)).touch()
        return until((folder / str(1 - unit)).exists)

    return work


class Odd(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def make_odd() -> Callable[[int], Any]:
    def work(unit: int) -> Any:
        raise Odd("odd ", "error")

    return work


# ---- the contract of executors --------------------------------------------------------------------------------------


def one_worker() -> RayExecutor:
    return RayExecutor(workers=1)


@pytest.mark.parametrize("check", check_executor.checks, ids=str)
def test_it_keeps_the_contract(
    check: Check[MakeExecutor], forked: ForkedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And has only a few groups of units ahead."""
    monkeypatch.setattr(executors, "FAR_AHEAD", 7 * LARGEST_GROUP - 1)
    check(one_worker)


def promises(*names: str) -> list[Check[MakeExecutor]]:
    found = [check for check in check_executor.checks if str(check) in names]
    assert len(found) == len(names)
    return found


def test_on_ray_results_are_those_of_this_process(ray: ModuleType) -> None:
    (check,) = promises("results_are_those_of_this_process_bit_for_bit")
    check(one_worker)


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    promises(
        "an_error_comes_out_as_itself_and_ends_the_run",
        "an_interrupt_comes_through_while_a_unit_is_under_way",
    ),
    ids=str,
)
def test_on_ray_it_keeps_what_passes_through_ray(check: Check[MakeExecutor], ray: ModuleType) -> None:
    """Errors and interrupts; the rest of the contract is the executor's own."""
    check(one_worker)


def test_without_units_no_cluster_is_started() -> None:
    assert list(RayExecutor(address="nobody:1").run(make_squarer, [])) == []


# ---- workers that die ---------------------------------------------------------------------------------------------


def test_a_unit_that_always_kills_is_lost_and_no_other_is(forked: ForkedRay, tmp_path: Path) -> None:
    """Also when it ran in a group, as trivial units soon do."""
    make = partial(make_mortal, tmp_path / "notes", 3000, 99)
    results = list(RayExecutor(workers=1, retries=1).run(make, range(4000)))
    assert sorted(unit for unit, _ in results) == list(range(4000))
    lost = {unit: result for unit, result in results if isinstance(result, Lost)}
    assert list(lost) == [3000] and "died each time it ran alone (1)" in lost[3000].reason
    assert all(result == -unit for unit, result in results if unit not in lost)
    assert (tmp_path / "notes").read_text() in (
        "xx",
        "xxx",
    )  # in company (twice if an answer was on the way), then alone


@pytest.mark.slow
def test_a_process_killed_from_outside_loses_nothing(ray: ModuleType, tmp_path: Path) -> None:
    results = RayExecutor(workers=1, retries=1).run(partial(make_waiting, tmp_path), range(4))
    assert next(results) == (0, 0)
    assert until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    (tmp_path / "go on").touch()  # for the next process: this one is stopped before it can look
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert sorted(results) == [(unit, -unit) for unit in range(1, 4)]


def test_workers_that_die_at_the_start_are_given_up(
    forked: ForkedRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FAILED_STARTS", 2)
    with pytest.raises(ProofmapError, match="Ray workers die while they start, 2 in a row"):
        list(RayExecutor(workers=1).run(partial(make_stillborn, tmp_path / "births"), range(5)))
    assert (tmp_path / "births").read_text() == "xx"


def test_the_workers_that_can_start_go_on_alone(
    forked: ForkedRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FAILED_STARTS", 1)

    def units() -> Iterator[int]:  # as many as it takes until the others are given up
        unit = 0
        while not caught:
            yield unit
            unit += 1

    with pytest.warns(RuntimeWarning, match="die while they start; continuing with 1") as caught:
        results = list(RayExecutor(workers=2).run(partial(make_single, tmp_path / "first"), units()))
    assert sorted(results) == [(unit, unit) for unit in range(len(results))]


# ---- what workers see -----------------------------------------------------------------------------------------------


def test_of_two_units_each_worker_gets_one_though_one_starts_first(forked: ForkedRay, tmp_path: Path) -> None:
    assert dict(RayExecutor(workers=2).run(partial(make_meeting, tmp_path), range(2))) == {0: True, 1: True}


@pytest.mark.slow
def test_a_worker_has_the_modules_of_the_driver_and_its_number_of_threads(
    ray: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebodys_module.py").write_text(
        "import os, torch\n"
        "def make():\n"
        "    return lambda unit: (torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import somebodys_module  # type: ignore[import-not-found]

    assert list(RayExecutor(cpus_per_worker=2).run(somebodys_module.make, [1])) == [(1, (2, "2"))]


def test_an_error_that_cannot_be_pickled_is_told_all_the_same() -> None:
    """What the actor answers; the contract checks that the driver raises it."""
    pytest.importorskip("ray")
    actor: _Actor[int, Any] = _Actor()
    actor.start(pickle.dumps(make_odd), threads=torch.get_num_threads())
    raised = pickle.loads(actor.work(pickle.dumps([1])))
    assert isinstance(raised, _Raised) and type(raised.error) is RuntimeError
    assert str(raised.error) == "Odd: odd error" and "in work" in "".join(raised.error.__notes__)


# ---- clusters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"gpus_per_worker": 1}, {"cpus_per_worker": 3}])
def test_what_no_machine_has_is_refused_at_once(ray: ModuleType, asked: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"asks for \d CPU, \d GPU, .* of the cluster has .*: 2 CPU, 0 GPU"):
        list(RayExecutor(**asked).run(make_odd, [0]))


@pytest.mark.slow
def test_a_cluster_without_room_is_not_waited_for_for_ever(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLACEMENT_TIMEOUT", 0.1)
    other = ray.remote(num_cpus=2)(_Actor).remote()
    ray.get(other.__ray_ready__.remote())
    with pytest.raises(ProofmapError, match="made no room for a worker"):
        list(RayExecutor().run(make_odd, [0]))
    ray.kill(other)


@pytest.mark.slow
def test_a_running_cluster_is_left_as_it_was(ray: ModuleType, tmp_path: Path) -> None:
    """Here from another process, whose functions and classes stand in its main script."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        from dataclasses import dataclass
        from proofmap.study.executors.ray_executor import RayExecutor

        @dataclass(frozen=True)
        class Box:
            content: int

        def make():
            return lambda box: Box(box.content + 1)

        results = RayExecutor(workers=1, address=sys.argv[1]).run(make, map(Box, range(3)))
        print(sorted((unit.content, result == Box(unit.content + 1)) for unit, result in results))
        """)
    )
    folder = Path(module.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, script, ray.get_runtime_context().gcs_address],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[(0, True), (1, True), (2, True)]\n" and done.stderr == ""
    assert ray.is_initialized()
    assert until(lambda: ray.available_resources().get("CPU") == 2)


@pytest.mark.slow
def test_a_cluster_of_our_own_says_nothing_and_is_gone_afterwards(tmp_path: Path) -> None:
    """In a process of its own, which has no Ray yet."""
    pytest.importorskip("ray")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal
        from pathlib import Path
        from proofmap.study.executors.ray_executor import RayExecutor
        from proofmap.testing.executors import make_squarer

        def children():
            return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()

        results = RayExecutor(workers=1).run(make_squarer, range(1000))
        unit = next(results)
        assert children()
        results.close()
        import ray
        assert not ray.is_initialized() and not children()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert "RAY_USAGE_STATS_ENABLED" not in os.environ
        """)
    )
    root = Path(__file__).parents[2]
    environment = {k: v for k, v in os.environ.items() if k != "RAY_USAGE_STATS_ENABLED"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_address_where_nobody_listens_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(ProofmapError, match=r"cannot connect to the Ray cluster at '127.0.0.1:1': .*refused"):
        list(RayExecutor(address="127.0.0.1:1").run(make_odd, [0]))


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"proofmap\[ray\]"):
        list(RayExecutor().run(make_odd, [0]))


@pytest.mark.parametrize(
    "wrong, complaint",
    [
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"cpus_per_worker": 0}, "cpus_per_worker must be a whole number of at least 1"),
        ({"gpus_per_worker": 1.5}, "gpus_per_worker must be a fraction of one GPU or whole GPUs"),
        ({"retries": 0}, "retries must be a whole number of at least 1"),
        ({"ahead": -1}, "ahead must be a whole number of at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        RayExecutor(**wrong)


# ---- groups -------------------------------------------------------------------------------------------------------


def test_jobs_that_came_back_go_first_and_some_go_alone() -> None:
    jobs = _Jobs(iter("abcdefg"))
    assert jobs.fill(5) == 5
    first = jobs.take(3)
    assert [job.unit for job in first] == ["a", "b", "c"]
    first[1].alone = True
    jobs.give_back(first)
    assert jobs.fill(99) == 7
    assert [[job.unit for job in jobs.take(2)] for _ in range(5)] == [
        ["a"],
        ["b"],
        ["c", "d"],
        ["e", "f"],
        ["g"],
    ]
    assert jobs.fill(1) == 0
    jobs.give_back([_Job("z")])
    assert jobs.fill(9) == 1 and [job.unit for job in jobs.take(9)] == ["z"]


def test_an_actor_hands_back_what_it_does_not_reach_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    now = 0.0

    def take_time(seconds: float) -> float:
        nonlocal now
        now += seconds
        return seconds

    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    actor: _Actor[float, float] = _Actor()
    actor._worker = take_time
    assert actor._work(pickle.dumps([0.01, 0.02, 60.0, 0.01])) == ([0.01, 0.02, 60.0], pytest.approx(60.03))
    assert actor._work(pickle.dumps([0.01, 0.02])) == ([0.01, 0.02], pytest.approx(0.03))
