"""The contract of executors, which run the units (small jobs) of a study in workers. Each unit is run once and is drawn from its iterator
only shortly before it is needed, errors are passed on unchanged, and no thread or process is left behind.

:mod:`proofmap.study.executor` explains the promises. The checks must run in the main thread of a POSIX system, because one of
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

from proofmap.core.errors import InputError
from proofmap.core.files import process_runs
from proofmap.study.executor import Executor
from proofmap.testing.plugins import Contract, normal

MakeExecutor = Callable[[], Executor]

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


def _assert_nothing_is_left(threads_before: set[threading.Thread], process: int) -> None:
    """Assert that this process has no threads other than ``threads_before``, and that the worker process ``process`` has ended."""

    def rest() -> set[threading.Thread]:
        return set(threading.enumerate()) - threads_before

    assert until(lambda: not rest()), f"these threads are left: {', '.join(t.name for t in rest())}"
    assert process == os.getpid() or until(lambda: not process_runs(process)), f"process {process} is left"


def _error_of(units: Iterator[Any]) -> BaseException | None:
    """The error that ends the iteration."""
    try:
        list(units)
    except BaseException as error:
        return error
    return None


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


def _given(worker: Callable[[int], Any]) -> Callable[[int], Any]:
    return worker


def make_squarer() -> Callable[[int], int]:
    return lambda unit: unit * unit


def _make_noted(notes: Path) -> Callable[[int], int]:
    with notes.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return lambda unit: os.getpid()


def _cannot_be_made() -> Callable[[int], int]:
    raise InputError("there is no net of that name")


def _sines(seed: int) -> Any:
    return normal(3, 100, seed=seed).sin().numpy()


def _make_endless(started: Path) -> Callable[[int], int]:
    """A worker function. Unit 0 returns the id of the process that computed it; other units never end."""

    def work(unit: int) -> int:
        if unit > 0:
            started.touch()
            until(lambda: False)
        return os.getpid()

    return work


# ---- promises -----------------------------------------------------------------------------------------------------


@check_executor.promise
def each_unit_comes_back_once_with_its_result_bit_for_bit(make_executor: MakeExecutor) -> None:
    units = [*range(200), 7, 7]  # also several times
    pairs = list(make_executor().run(make_squarer, iter(units)))
    assert len(pairs) == len(units), f"{len(units)} units went in, {len(pairs)} came back"
    assert sorted(pairs) == sorted((unit, unit * unit) for unit in units), "other units or results came back"
    for unit, there in make_executor().run(partial(_given, _sines), range(5)):
        found: Any = there
        assert found.tobytes() == _sines(unit).tobytes(), f"the result of unit {unit} differs"
        assert found.flags.writeable, "the result cannot be written to"


@check_executor.promise
def a_worker_is_made_once_per_process_that_has_units(make_executor: MakeExecutor) -> None:
    with TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        worked = {process for _, process in make_executor().run(partial(_make_noted, notes), range(20))}
        made = [int(line) for line in notes.read_text().splitlines()]
    assert len(made) == len(set(made)), f"{len(made)} workers were made in {len(set(made))} processes"
    assert worked == set(made), "a process worked without a worker of its own, or did not work at all"
    assert list(make_executor().run(_cannot_be_made, iter(()))) == [], "without units, a unit came back"


@check_executor.promise
def units_are_drawn_in_the_consumers_thread_and_not_far_ahead(make_executor: MakeExecutor) -> None:
    furthest = drawn_ahead(make_executor())
    assert furthest <= FAR_AHEAD, f"{furthest} units more were drawn than handed back"


@check_executor.promise
def an_error_comes_out_as_itself_and_ends_the_run(make_executor: MakeExecutor) -> None:
    """An error of a worker, and one while the worker is made."""
    threads = set(threading.enumerate())
    makers: list[tuple[Callable[[], Any], type[Exception]]] = [
        (make_squarer, TypeError),
        (_cannot_be_made, InputError),
    ]
    for make_worker, expected in makers:
        results = make_executor().run(make_worker, iter([1, None, 2]))
        error = _error_of(results)
        assert type(error) is expected, f"{expected.__name__} came out as {error!r}"
        assert list(results) == [], "results came after the error"
    _assert_nothing_is_left(threads, os.getpid())


@check_executor.promise
def an_interrupt_comes_through_and_closing_leaves_nothing(make_executor: MakeExecutor) -> None:
    """Also while a unit is under way."""
    threads, main = set(threading.enumerate()), threading.main_thread().ident or 0
    with TemporaryDirectory() as folder:
        started = Path(folder, "started")

        def press_control_c() -> None:
            if until(started.exists):
                signal.pthread_kill(main, signal.SIGINT)

        finger = threading.Thread(target=press_control_c)
        with closing(make_executor().run(partial(_make_endless, started), itertools.count())) as results:
            process: Any = next(results)[1]

            def interrupted() -> Iterator[Any]:
                finger.start()
                yield from itertools.islice(results, 1)

            error = _error_of(interrupted())
        finger.join()
        assert isinstance(error, KeyboardInterrupt), f"KeyboardInterrupt came out as {error!r}"
        _assert_nothing_is_left(threads, process)
