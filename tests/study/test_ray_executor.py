"""The Ray executor: dead workers, lost units, clusters of ours and of others, and what cannot be placed.

What the executor decides is tried with forked processes (``forked``), which start at once; what Ray does for it, with Ray (``ray``)."""

from __future__ import annotations

import os
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

import proofmap.study.executor as module
from proofmap.core.errors import InputError, MissingExtra, ProofmapError
from proofmap.study.executor import LocalExecutor, Lost, RayExecutor
from proofmap.testing import check_executor
from proofmap.testing.executors import MakeExecutor, make_squarer, until
from tests.forked import check_fork
from tests.study.forked_ray import ForkedRay


@pytest.fixture(scope="module")
def running_ray() -> Iterator[ModuleType]:
    ray = pytest.importorskip("ray")
    settings = {
        "prestart_worker_first_driver": False,  # our tasks have an environment of their own
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
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkedRay]:
    """Two cores, with processes that are forked from this one, in the place of Ray."""
    check_fork()
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    stand_in = ForkedRay(cloudpickle)
    monkeypatch.setitem(sys.modules, "ray", stand_in)  # type: ignore[arg-type]
    yield stand_in
    stand_in.shutdown()


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


@pytest.mark.parametrize("check", check_executor.checks)
def test_it_keeps_the_contract(check: Callable[[MakeExecutor], None], forked: ForkedRay) -> None:
    check(one_worker)


def promises(*names: str) -> list[Callable[[MakeExecutor], None]]:
    found = [check for check in check_executor.checks if check.__name__ in names]
    assert len(found) == len(names)
    return found


def test_on_ray_results_are_those_of_this_process(ray: ModuleType) -> None:
    (check,) = promises("each_unit_comes_back_once_with_its_result_bit_for_bit")
    check(one_worker)


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    promises(
        "an_error_comes_out_as_itself_and_ends_the_run",
        "an_interrupt_comes_through_and_closing_leaves_nothing",
    ),
)
def test_on_ray_it_keeps_what_passes_through_ray(
    check: Callable[[MakeExecutor], None], ray: ModuleType
) -> None:
    """Errors and interrupts; the rest of the contract is the executor's own."""
    check(one_worker)


def test_without_units_no_cluster_is_started() -> None:
    assert list(RayExecutor(address="nobody:1").run(make_squarer, [])) == []


# ---- workers that die ---------------------------------------------------------------------------------------------


def test_a_unit_that_always_kills_is_lost_and_no_other_is(forked: ForkedRay, tmp_path: Path) -> None:
    make = partial(make_mortal, tmp_path / "notes", 30, 99)
    results = list(RayExecutor(workers=1, retries=1).run(make, range(40)))
    assert sorted(unit for unit, _ in results) == list(range(40))
    lost = {unit: result for unit, result in results if isinstance(result, Lost)}
    assert list(lost) == [30] and "died 2 times: it was killed." in lost[30].reason
    assert all(result == -unit for unit, result in results if unit not in lost)
    assert (tmp_path / "notes").read_text() == "xx"


class Together(int):
    """A unit that stays with the one before it."""

    together = True


def test_units_that_stay_together_have_one_process_until_one_kills_it(
    forked: ForkedRay, tmp_path: Path
) -> None:
    make = partial(make_mortal, tmp_path / "notes", 2, 99)
    results = dict(RayExecutor(retries=1).run(make, [0, 1, Together(2), Together(3), 4]))
    assert isinstance(results.pop(2), Lost) and results == {0: 0, 1: -1, 3: -3, 4: -4}
    assert (tmp_path / "notes").read_text() == "xxxx", "twice in company, twice alone"


@pytest.mark.slow
def test_a_process_killed_from_outside_loses_nothing(ray: ModuleType, tmp_path: Path) -> None:
    results = RayExecutor(workers=1, retries=1).run(partial(make_waiting, tmp_path), range(4))
    assert next(results) == (0, 0)
    assert until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    (tmp_path / "go on").touch()  # for the next process: this one is stopped before it can look
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert sorted(results) == [(unit, -unit) for unit in range(1, 4)]


def test_workers_that_die_at_the_start_are_given_up(forked: ForkedRay, tmp_path: Path) -> None:
    with pytest.raises(ProofmapError, match="Ray workers die while they start: it was killed"):
        list(RayExecutor(workers=1, retries=1).run(partial(make_stillborn, tmp_path / "births"), range(5)))
    assert (tmp_path / "births").read_text() == "xx"


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


def test_an_error_that_cannot_be_pickled_is_told_all_the_same(forked: ForkedRay) -> None:
    with pytest.raises(RuntimeError, match=r"^Odd: odd error") as raised:
        list(RayExecutor(workers=1).run(make_odd, [1]))
    assert "in work" in "".join(raised.value.__notes__)


# ---- clusters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"gpus_per_worker": 1}, {"cpus_per_worker": 3}])
def test_what_no_machine_has_is_refused_at_once(ray: ModuleType, asked: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"asks for \d CPU, \d GPU, .* of the cluster has .*: 2 CPU, 0 GPU"):
        list(RayExecutor(**asked).run(make_odd, [0]))


@pytest.mark.slow
def test_a_running_cluster_is_left_as_it_was(ray: ModuleType, tmp_path: Path) -> None:
    """Here from another process, whose functions and classes stand in its main script."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        from dataclasses import dataclass
        from proofmap.study.executor import RayExecutor

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
        from proofmap.study.executor import RayExecutor
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
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        RayExecutor(**wrong)


# ---- The local executor: in order, no further ahead than a hint of what comes next, errors as themselves --------------


def test_the_next_unit_is_hinted_at_before_the_current_one_is_run() -> None:
    said: list[str] = []

    class Worker:
        def prefetch(self, unit: str) -> None:
            said.append(f"soon {unit}")

        def __call__(self, unit: str) -> None:
            said.append(f"now {unit}")

    list(LocalExecutor().run(Worker, "abc"))
    assert said == ["soon b", "now a", "soon c", "now b", "now c"]
