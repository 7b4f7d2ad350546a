"""What every executor must do: each unit once, drawn late, errors as themselves, nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.study.executors.executor import Executor, LocalExecutor
from proofmap.study.executors.ray_executor import LARGEST_GROUP, RayExecutor

LONG = 120.0  # seconds after which something that must happen has not
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    yield
    ray.shutdown()


@pytest.fixture(params=["local", "ray"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "local":
        return LocalExecutor()
    request.getfixturevalue("cluster")
    return RayExecutor(workers=1)


def until(condition: Callable[[], bool]) -> bool:
    """Wait for the condition, but not for ever."""
    end = time.monotonic() + LONG
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def nothing_is_left(pid: int) -> bool:
    """No worker in this process, and none in that one if it is another."""
    if any(thread.name.startswith("proofmap-") for thread in threading.enumerate()):
        return False
    return pid == os.getpid() or not Path(f"/proc/{pid}").exists()


# ---- workers: they are pickled, so they are named and stand alone -------------------------------------------------


def make_squarer() -> Callable[[int], int]:
    return lambda unit: unit * unit


def make_noted(notes: Path) -> Callable[[int], int]:
    with notes.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return lambda unit: os.getpid()


def make_failing(unit: Any) -> Callable[[Any], Any]:
    def fail(given: Any) -> Any:
        if given == unit:
            raise InputError(f"no map for {unit}")
        return given

    return fail


def cannot_be_made() -> Callable[[int], int]:
    raise InputError("there is no net of that name")


def make_convolver() -> Callable[[int], np.ndarray]:
    def convolve(seed: int) -> np.ndarray:
        draw = torch.Generator().manual_seed(seed)
        x, w = torch.randn(4, 8, 32, 32, generator=draw), torch.randn(16, 8, 3, 3, generator=draw)
        return sum(torch.nn.functional.conv2d(x * k, w, padding=1) for k in range(1, 4)).numpy()

    return convolve


def make_endless(started: Path) -> Callable[[int], int]:
    def work(unit: int) -> int:
        if unit == 0:
            return os.getpid()
        started.write_text(str(os.getpid()))
        while True:
            time.sleep(0.01)

    return work


# ---- what comes back --------------------------------------------------------------------------------------------


def test_each_unit_comes_back_once_with_its_result(executor: Executor) -> None:
    units = [*range(2000), 7, 7]  # also several times
    pairs = list(executor.run(make_squarer, iter(units)))
    assert sorted(unit for unit, _ in pairs) == sorted(units)
    assert all(result == unit * unit for unit, result in pairs)


def test_a_worker_is_made_once_per_process(executor: Executor, tmp_path: Path) -> None:
    pids = {pid for _, pid in executor.run(partial(make_noted, tmp_path / "notes"), range(20))}
    assert pids == {int(line) for line in (tmp_path / "notes").read_text().splitlines()}
    assert len((tmp_path / "notes").read_text().splitlines()) == len(pids)


@pytest.mark.parametrize("executor", [LocalExecutor(), RayExecutor()], ids=["local", "ray"])
def test_nothing_is_made_for_no_units(executor: Executor) -> None:
    assert list(executor.run(cannot_be_made, iter([]))) == []


def test_results_are_those_of_this_process_bit_for_bit(executor: Executor) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = make_convolver()
        for unit, there in executor.run(make_convolver, range(5)):
            assert isinstance(there, np.ndarray) and there.tobytes() == here(unit).tobytes()
            there += 1  # it is ours to change
    finally:
        torch.set_num_threads(threads)


# ---- how far ahead ----------------------------------------------------------------------------------------------


def test_units_are_drawn_in_the_consumers_thread_and_not_far_ahead(executor: Executor) -> None:
    drawn = 0

    def endless() -> Iterator[int]:
        nonlocal drawn
        for unit in itertools.count():
            assert threading.current_thread() is threading.main_thread()
            drawn += 1
            yield unit

    most = 4 if isinstance(executor, LocalExecutor) else 7 * LARGEST_GROUP
    with closing(executor.run(make_squarer, endless())) as results:
        for taken, _ in enumerate(itertools.islice(results, 5000)):
            assert drawn - taken <= most


# ---- errors -----------------------------------------------------------------------------------------------------


def test_an_error_out_of_a_worker_comes_out_as_itself(executor: Executor) -> None:
    results = executor.run(partial(make_failing, 3), range(100))
    with pytest.raises(InputError, match=r"^no map for 3$") as caught:
        list(results)
    assert type(caught.value) is InputError
    assert until(lambda: nothing_is_left(os.getpid()))
    assert list(results) == []  # it is over


def test_an_error_while_the_worker_is_made_comes_out_as_itself(executor: Executor) -> None:
    with pytest.raises(InputError, match=r"^there is no net of that name$"):
        list(executor.run(cannot_be_made, range(3)))


def test_an_error_of_the_iterator_comes_out_as_itself(executor: Executor) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise InputError("no more units")

    with pytest.raises(InputError, match=r"^no more units$"):
        list(executor.run(make_squarer, broken()))
    assert until(lambda: nothing_is_left(os.getpid()))


# ---- leaving early ----------------------------------------------------------------------------------------------


def test_closing_leaves_nothing_though_a_unit_is_under_way(executor: Executor, tmp_path: Path) -> None:
    started = tmp_path / "started"
    results = executor.run(partial(make_endless, started), itertools.count())
    _, pid = next(results)
    if isinstance(executor, LocalExecutor):  # it computes when it is asked, so nothing is under way
        assert not started.exists()
        results.close()
        return
    assert until(started.exists)
    results.close()
    assert until(lambda: nothing_is_left(pid))  # type: ignore[arg-type]


def test_an_interrupt_comes_through_while_a_unit_is_under_way(executor: Executor, tmp_path: Path) -> None:
    started = tmp_path / "started"
    main = threading.main_thread().ident
    assert main is not None

    def press_control_c() -> None:
        if until(started.exists):
            signal.pthread_kill(main, signal.SIGINT)

    finger = threading.Thread(target=press_control_c)
    finger.start()
    with closing(executor.run(partial(make_endless, started), itertools.count())) as results:
        _, pid = next(results)
        with pytest.raises(KeyboardInterrupt):
            next(results)
    finger.join()
    assert until(lambda: nothing_is_left(pid))  # type: ignore[arg-type]
