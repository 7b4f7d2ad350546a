"""The contract of executors, which run the units (small jobs) of a study in workers. Each unit is run once and is drawn from its iterator
only shortly before it is needed, errors are passed on unchanged, and no thread or process is left behind.

:mod:`proofmap.study.executors.executor` explains the promises. The checks must run in the main thread of a POSIX system, because one of
them sends an interrupt.
"""

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
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proofmap.core.errors import InputError
from proofmap.core.files import process_runs
from proofmap.study.executors.executor import Executor
from proofmap.testing.plugins import Contract, raises

MakeExecutor = Callable[[], Executor]
Where = tuple[int, int]
"""The ids of a process and of a thread in it."""

check_executor: Contract[MakeExecutor] = Contract("executor")
"""Checks a function that makes an executor: raises one AssertionError that names every broken promise."""

LONG = 600.0  # seconds after which something that must happen has not
FAR_AHEAD = 2048  # units


def until(condition: Callable[[], bool]) -> bool:
    """Wait until the condition is true or :data:`LONG` seconds have passed. Returns whether the condition is true."""
    end = time.monotonic() + LONG
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def assert_nothing_is_left(threads_before: set[threading.Thread], process: int | None = None) -> None:
    """Assert that this process has no threads other than ``threads_before``, and that the worker process ``process`` has ended."""

    def rest() -> set[threading.Thread]:
        return set(threading.enumerate()) - threads_before

    assert until(lambda: not rest()), f"these threads are left: {', '.join(t.name for t in rest())}"
    if process not in (None, os.getpid()):
        assert until(lambda: not process_runs(process)), f"process {process} is left"


def drawn_ahead(executor: Executor, units: int = 5000) -> int:
    """The largest number of units that the executor had drawn from an endless iterator and whose results it had not returned yet."""
    drawn, furthest = 0, 0
    consumer = threading.current_thread()

    def endless() -> Iterator[int]:
        nonlocal drawn
        for unit in itertools.count():
            assert threading.current_thread() is consumer, "units are drawn in another thread"
            drawn += 1
            yield unit

    with closing(executor.run(make_squarer, endless())) as results:
        for taken, _ in enumerate(itertools.islice(results, units), start=1):
            furthest = max(furthest, drawn - taken)
    return furthest


# ---- workers, at module level because they are pickled --------------------------------------------------------------


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


def make_convolver() -> Callable[[int], NDArray[np.float32]]:
    def convolve(seed: int) -> NDArray[np.float32]:
        draw = torch.Generator().manual_seed(seed)
        x, w = torch.randn(4, 8, 32, 32, generator=draw), torch.randn(16, 8, 3, 3, generator=draw)
        parts = [torch.nn.functional.conv2d(x * k, w, padding=1) for k in range(1, 4)]
        result: NDArray[np.float32] = torch.stack(parts).sum(dim=0).numpy()
        return result

    return convolve


def make_endless(started: Path) -> Callable[[int], Where]:
    """A worker function. Unit 0 returns the ids of the process and the thread that computed it; other units never end."""

    def work(unit: int) -> Where:
        if unit > 0:
            started.touch()
            until(lambda: False)
        return os.getpid(), threading.get_ident()

    return work


# ---- what comes back --------------------------------------------------------------------------------------------


@check_executor.promise
def each_unit_comes_back_once_with_its_result(make_executor: MakeExecutor) -> None:
    units = [*range(2000), 7, 7]  # also several times
    pairs = list(make_executor().run(make_squarer, iter(units)))
    assert len(pairs) == len(units), f"{len(units)} units went in, {len(pairs)} came back"
    assert sorted(unit for unit, _ in pairs) == sorted(units), "other units came back than went in"
    wrong = next(((unit, result) for unit, result in pairs if result != unit * unit), None)
    assert wrong is None, f"unit {wrong[0]} came back with {wrong[1]!r}"


@check_executor.promise
def a_worker_is_made_once_per_process(make_executor: MakeExecutor) -> None:
    with TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        worked = {process for _, process in make_executor().run(partial(make_noted, notes), range(20))}
        made = [int(line) for line in notes.read_text().splitlines()]
    assert len(made) == len(set(made)), f"{len(made)} workers were made in {len(set(made))} processes"
    assert worked == set(made), "a process worked without a worker of its own, or did not work at all"


@check_executor.promise
def no_worker_is_made_for_no_units(make_executor: MakeExecutor) -> None:
    results = list(make_executor().run(cannot_be_made, iter(())))
    assert results == [], f"without units, {results} came back"


@check_executor.promise
def results_are_those_of_this_process_bit_for_bit(make_executor: MakeExecutor) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = make_convolver()
        for unit, there in make_executor().run(make_convolver, range(5)):
            assert isinstance(there, np.ndarray), f"an array came back as {type(there).__name__}"
            assert there.tobytes() == here(unit).tobytes(), f"the result of unit {unit} differs"
            assert there.flags.writeable, "the result cannot be written to"
    finally:
        torch.set_num_threads(threads)


@check_executor.promise
def units_are_drawn_in_the_consumers_thread_and_not_far_ahead(make_executor: MakeExecutor) -> None:
    furthest = drawn_ahead(make_executor())
    assert furthest <= FAR_AHEAD, f"{furthest} units more were drawn than handed back"


# ---- errors -----------------------------------------------------------------------------------------------------


@check_executor.promise
def an_error_of_a_worker_comes_out_as_itself_and_ends_the_run(make_executor: MakeExecutor) -> None:
    threads = set(threading.enumerate())
    results = make_executor().run(partial(make_failing, 3), range(100))
    with raises(InputError, r"^no map for 3$") as caught:
        list(results)
    assert type(caught.exception) is InputError, f"it came out as {type(caught.exception).__name__}"
    assert_nothing_is_left(threads)
    assert list(results) == [], "results came after the error"


@check_executor.promise
def an_error_while_the_worker_is_made_comes_out_as_itself(make_executor: MakeExecutor) -> None:
    with raises(InputError, r"^there is no net of that name$"):
        list(make_executor().run(cannot_be_made, range(3)))


@check_executor.promise
def an_error_of_the_iterator_comes_out_as_itself(make_executor: MakeExecutor) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise InputError("no more units")

    threads = set(threading.enumerate())
    with raises(InputError, r"^no more units$"):
        list(make_executor().run(make_squarer, broken()))
    assert_nothing_is_left(threads)


# ---- leaving early ----------------------------------------------------------------------------------------------


@check_executor.promise
def closing_leaves_nothing_though_a_unit_is_under_way(make_executor: MakeExecutor) -> None:
    threads = set(threading.enumerate())
    with TemporaryDirectory() as folder:
        started = Path(folder, "started")
        results = make_executor().run(partial(make_endless, started), itertools.count())
        process, thread = _where(next(results)[1])
        if (process, thread) == (os.getpid(), threading.get_ident()):
            assert not started.exists(), "the next unit was run before it was asked for"
        else:  # its next unit is under way, now or soon
            until(started.exists)
        results.close()
        assert_nothing_is_left(threads, process)


@check_executor.promise
def an_interrupt_comes_through_while_a_unit_is_under_way(make_executor: MakeExecutor) -> None:
    threads = set(threading.enumerate())
    with TemporaryDirectory() as folder:
        started = Path(folder, "started")
        finger = threading.Thread(target=_press_control_c, args=(started,))
        with closing(make_executor().run(partial(make_endless, started), itertools.count())) as results:
            process, _ = _where(next(results)[1])
            with raises(KeyboardInterrupt, ""):
                finger.start()  # the interrupt may come at any moment from now on
                next(results)
        finger.join()
        assert_nothing_is_left(threads, process)


def _where(result: object) -> Where:
    assert isinstance(result, tuple), f"a unit was lost: {result}"
    return result


def _press_control_c(started: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None
    if until(started.exists):
        signal.pthread_kill(main, signal.SIGINT)
