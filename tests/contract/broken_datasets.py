"""Datasets and executors that break a promise: the promise, the thing, and what its check says."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.data import ArrayImages, Dataset
from proofmap.study.executor import LocalExecutor
from proofmap.testing.executors import MakeExecutor


def pictures(**changes: Any) -> Dataset:
    """Six pictures in memory, with other attributes."""
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)
    kind = type("Changed", (ArrayImages,), changes)
    return kind(images, [0, 1, 0, 1, -1, 1], label_names=["cat", "dog"])


class Forgetful(ArrayImages):
    """It keeps what it reads next where every thread can change it."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8))
        self.next = 0

    def read(self, i: int) -> Image.Image:
        self.next = i
        Image.new("RGB", (400, 400)).resize(
            (401, 401), Image.Resampling.LANCZOS
        )  # takes its time, without the lock
        return super().read(self.next)


class Restless:
    """Another answer each time."""

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.times, self.answer = 0, answer

    def __call__(self, *_: Any) -> Any:
        self.times += 1
        return self.answer(self.times)


def nameless(self: Dataset, i: int) -> Image.Image:
    raise InputError("it cannot be read")


DATASETS: list[tuple[str, Dataset, str]] = [
    (
        "it_has_a_title_distinct_names_and_a_kind",
        pictures(names=property(lambda self: ["a", "b"] * 3, lambda self, value: None)),
        "'a' is the name of 3 items",
    ),
    (
        "it_has_a_title_distinct_names_and_a_kind",
        pictures(kind="words"),
        "kind is 'words', expected one of pictures",
    ),
    (
        "an_item_is_what_the_kind_says_or_an_input_error_names_it",
        pictures(read=lambda self, i: Image.new("L", (4, 4))),
        "'image-00000' is a Image of mode L",
    ),
    (
        "an_item_is_what_the_kind_says_or_an_input_error_names_it",
        pictures(read=nameless),
        "the error of 'image-00000' does not name it: it cannot be read",
    ),
    (
        "an_item_stays_the_same_and_threads_can_read_at_once",
        pictures(read=Restless(lambda k: Image.new("RGB", (4, 4), (k, k, k)))),
        r"read\('image-00000'\) differs from one time",
    ),
    (
        "an_item_stays_the_same_and_threads_can_read_at_once",
        Forgetful(),
        "4 threads that read at once get other items",
    ),
    (
        "an_item_stays_the_same_and_threads_can_read_at_once",
        pictures(digest=Restless(lambda k: f"{k:032x}")),
        r"digest\('image-00000'\) differs from one time",
    ),
    (
        "an_item_is_what_the_kind_says_or_an_input_error_names_it",
        pictures(digest=lambda self, i: "0" * 32),
        "'image-00000' and 'image-00001' differ, but have the same digest",
    ),
    (
        "a_label_has_a_name",
        pictures(truth=lambda self, i: i),
        "the label of 'image-00002' is 2, but there are 2 label_names",
    ),
    (
        "an_item_is_what_the_kind_says_or_an_input_error_names_it",
        pictures(objects=lambda self, i: {0: [(0, 0, 5, 4), (1, 1, 4, 5)]}),
        r"the box \(1, 1, 4, 5\) of 'image-00000' is empty or outside its 5 x 4 pixels",
    ),
    (
        "its_settings_open_the_same_dataset_again",
        pictures(settings=lambda self: {"dataset": "samples"}),
        "opened again, its title is 'samples', not 'arrays'",
    ),
]


# ---- executors -----------------------------------------------------------------------------------------------


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
