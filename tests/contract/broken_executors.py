"""For each promise of executors, one that breaks it and what the message says."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from proofmap.core.errors import InputError
from proofmap.study.executor import LocalExecutor
from proofmap.testing.executors import MakeExecutor

Run = Callable[[Callable[[], Any], Iterable[Any]], Generator[Any, None, None]]


def executor(run: Run) -> MakeExecutor:
    class Changed(LocalExecutor):
        def run(self, make_worker: Any, units: Any) -> Any:
            return run(make_worker, units)

    return Changed


def twice(make_worker: Any, units: Any) -> Any:
    for pair in LocalExecutor().run(make_worker, units):
        yield pair
        yield pair


def a_worker_for_each_unit(make_worker: Any, units: Any) -> Any:
    return ((unit, make_worker()(unit)) for unit in units)


def a_worker_at_once(make_worker: Any, units: Any) -> Any:
    worker = make_worker()
    yield from ((unit, worker(unit)) for unit in units)


def with_less_precision(make_worker: Any, units: Any) -> Any:
    for unit, result in LocalExecutor().run(make_worker, units):
        yield unit, result.astype(np.float16) if isinstance(result, np.ndarray) else result


def greedy(make_worker: Any, units: Any) -> Any:
    worker, rest = None, iter(units)
    while taken := list(itertools.islice(rest, 4000)):
        worker = worker or make_worker()
        yield from ((unit, worker(unit)) for unit in taken)


def wrapping(make_worker: Any, units: Any) -> Any:
    try:
        yield from LocalExecutor().run(make_worker, units)
    except InputError as error:
        raise RuntimeError(f"task failed: {error}") from error


def leaving_a_thread(make_worker: Any, units: Any) -> Any:
    threading.Thread(target=time.sleep, args=(30,), name="forgotten", daemon=True).start()
    yield from LocalExecutor().run(make_worker, units)


def deaf(make_worker: Any, units: Any) -> Any:
    worker = make_worker()
    for unit in units:
        try:
            result = worker(unit)
        except KeyboardInterrupt:
            result = (os.getpid(), threading.get_ident())
        yield unit, result


EXECUTORS: list[tuple[str, MakeExecutor, str]] = [
    (
        "each_unit_comes_back_once_with_its_result_bit_for_bit",
        executor(twice),
        "202 units went in, 404 came back",
    ),
    (
        "a_worker_is_made_once_per_process_that_has_units",
        executor(a_worker_for_each_unit),
        "20 workers were made in 1 processes",
    ),
    (
        "a_worker_is_made_once_per_process_that_has_units",
        executor(a_worker_at_once),
        "there is no net of that name",
    ),
    (
        "each_unit_comes_back_once_with_its_result_bit_for_bit",
        executor(with_less_precision),
        "the result of unit 0 differs",
    ),
    (
        "units_are_drawn_in_the_consumers_thread_and_not_far_ahead",
        executor(greedy),
        "3999 units more were drawn than handed back",
    ),
    (
        "an_error_comes_out_as_itself_and_ends_the_run",
        executor(wrapping),
        "InputError came out as RuntimeError",
    ),
    (
        "an_interrupt_comes_through_and_closing_leaves_nothing",
        executor(leaving_a_thread),
        "these threads are left: forgotten",
    ),
    (
        "an_interrupt_comes_through_and_closing_leaves_nothing",
        executor(deaf),
        "KeyboardInterrupt came out as None",
    ),
]
