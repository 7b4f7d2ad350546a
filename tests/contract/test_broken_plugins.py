"""Each check fails for a plug-in that breaks its promise, and says what is wrong."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.data import ArrayImages, Dataset
from proofmap.methods import Gradient, Method, Random
from proofmap.study.executors.executor import LocalExecutor
from proofmap.testing import Check, Contract, check_dataset, check_executor, check_method, contract, executors
from proofmap.testing.executors import MakeExecutor

Broken = dict[str, tuple[Any, str]]
"""For each promise, a plug-in that breaks it and what the message says."""

# ---- methods ------------------------------------------------------------------------------------------------------


def method(kind: type[Method] = Gradient, /, **changes: Any) -> Method:
    """A method with other attributes."""
    return type("Changed", (kind,), changes)()


def after(change: Callable[[Tensor], Tensor]) -> Method:
    """Gradients whose maps are changed after all has been checked."""

    def call(self: Method, *arguments: Any, **options: Any) -> Tensor:
        return change(Gradient.__call__(self, *arguments, **options))

    return method(__call__=call)


def computing(compute: Callable[..., Tensor], kind: type[Method] = Gradient, **changes: Any) -> Method:
    """A method with another ``compute(classifier, images, labels, seed, progress)``."""

    def own(self: Method, f: Any, x: Tensor, labels: Tensor, *, seed: int, progress: Any) -> Tensor:
        return compute(f, x, labels, seed, progress)

    return method(kind, compute=own, **changes)


def brightness(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    return x.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


def per_label(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    """Brightness to the power of label + 1: different for each label, and for -1 constant."""
    return brightness(f, x, labels) ** (labels + 1)[:, :, None, None]


def careless(what: Callable[[Any, Tensor, Tensor], object]) -> Method:
    """A method that does something it must not do, beside its work."""

    def compute(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
        what(f, x, labels)
        return per_label(f, x, labels)

    return computing(compute)


def with_own_settings() -> Method:
    class Positional(Gradient):
        power: float = 2.0

    return dataclasses.dataclass(frozen=True)(Positional)()


def announcing(f: Any, x: Tensor, labels: Tensor, seed: int, progress: Any) -> Tensor:
    with progress.task("careless", 10) as task:
        task.advance(9)
    return per_label(f, x, labels)


def enabling(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    torch.set_grad_enabled(True)
    return per_label(f, x, labels)


def unchecked(self: Method, f: Any, x: Tensor, labels: Tensor, **_: Any) -> Tensor:
    return per_label(f, x, labels)


def net_of(f: Any) -> Any:
    return next(f.net.children())


METHODS: Broken = {
    "its_settings_are_frozen_keyword_only_and_recorded": (with_own_settings(), "not keyword-only: power"),
    "it_equals_its_copy_and_can_be_a_key": (
        method(__eq__=lambda a, b: a is b, __hash__=lambda a: 0),
        "its deep copy is not equal",
    ),
    "it_has_a_name_and_a_meaning": (method(name="My Method"), "'My Method' must be lower case"),
    "maps_are_finite_float32_one_per_label": (after(Tensor.double), "maps are torch.float64"),
    "maps_are_not_constant": (after(torch.ones_like), "9 of 9 maps have one value only"),
    "one_image_with_one_label_is_enough": (
        after(lambda maps: maps.expand(maps.shape[0], 3, *maps.shape[2:])),
        r"got maps \(1, 3, 8, 10\), expected \(1, 1, 8, 10\)",
    ),
    "label_free_means_one_map_for_all_labels": (
        computing(brightness),
        "label_free is False, but labels get the same maps",
    ),
    "stochastic_means_that_the_seed_matters": (
        method(Random, stochastic=False),
        "stochastic is False, but two seeds give different maps",
    ),
    "places_without_a_label_are_zero_and_disturb_no_other": (
        method(__call__=unchecked),
        "a map for the label -1 is not zero",
    ),
    "the_batch_size_changes_nothing": (
        computing(lambda f, *rest: per_label(f, *rest) * f.batches[0].size),
        "maps change with batches of 1",
    ),
    "the_order_of_images_and_labels_changes_nothing": (
        computing(lambda f, x, labels, *_: per_label(f, x, labels) * (1 + labels[:, :1, None, None])),
        "maps change with the order",
    ),
    "an_image_alone_gets_the_map_it_gets_among_others": (
        computing(lambda f, x, labels, *_: per_label(f, x / x.mean(), labels)),
        "maps change when an image is alone",
    ),
    "it_works_where_gradients_are_switched_off": (computing(enabling), "gradients are left switched on"),
    "the_net_is_afterwards_what_it_was": (
        careless(lambda f, x, labels: f.logits(x).sum() and next(f.net.parameters()).data.add_(1)),
        "these weights changed: ",
    ),
    "no_hook_is_left_on_the_classifier": (
        careless(lambda f, x, labels: net_of(f).register_forward_hook(print)),
        r"a hook is left on classifier\.net",
    ),
    "images_and_labels_stay_as_they_are": (
        careless(lambda f, x, labels: x.mul_(0.5)),
        "the images were changed",
    ),
    "the_global_random_state_is_not_touched": (
        careless(lambda f, x, labels: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
    "progress_does_what_it_announced": (computing(announcing), "10 passes were announced and 9 done"),
    "labels_and_images_that_do_not_fit_are_refused": (method(__call__=unchecked), "InputError not raised"),
}

# ---- executors ------------------------------------------------------------------------------------------------------

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
    threading.Thread(target=time.sleep, args=(0.5,), name="forgotten").start()
    yield from LocalExecutor().run(make_worker, units)


def deaf(make_worker: Any, units: Any) -> Any:
    worker = make_worker()
    for unit in units:
        try:
            result = worker(unit)
        except KeyboardInterrupt:
            result = (os.getpid(), threading.get_ident())
        yield unit, result


EXECUTORS: Broken = {
    "each_unit_comes_back_once_with_its_result": (executor(twice), "2002 units went in, 4004 came back"),
    "a_worker_is_made_once_per_process": (
        executor(a_worker_for_each_unit),
        "20 workers were made in 1 processes",
    ),
    "no_worker_is_made_for_no_units": (executor(a_worker_at_once), "there is no net of that name"),
    "results_are_those_of_this_process_bit_for_bit": (
        executor(with_less_precision),
        "the result of unit 0 differs",
    ),
    "units_are_drawn_in_the_consumers_thread_and_not_far_ahead": (
        executor(greedy),
        "3999 units more were drawn than handed back",
    ),
    "an_error_of_a_worker_comes_out_as_itself_and_ends_the_run": (
        executor(wrapping),
        "RuntimeError: task failed",
    ),
    "an_error_while_the_worker_is_made_comes_out_as_itself": (
        executor(wrapping),
        "RuntimeError: task failed: there is no net",
    ),
    "an_error_of_the_iterator_comes_out_as_itself": (
        executor(wrapping),
        "RuntimeError: task failed: no more units",
    ),
    "closing_leaves_nothing_though_a_unit_is_under_way": (
        executor(leaving_a_thread),
        "these threads are left: forgotten",
    ),
    "an_interrupt_comes_through_while_a_unit_is_under_way": (
        executor(deaf),
        "KeyboardInterrupt not raised",
    ),
}

# ---- datasets -------------------------------------------------------------------------------------------------------


def pictures(**changes: Any) -> Dataset:
    """Six pictures in memory, with other attributes."""
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)
    kind = type("Changed", (ArrayImages,), changes)
    dataset: Dataset = kind(images, [0, 1, 0, 1, -1, 1], label_names=["cat", "dog"])
    return dataset


class Forgetful(ArrayImages):
    """It keeps what it reads next where every thread can change it."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8))
        self.next = 0

    def read(self, i: int) -> Image.Image:
        self.next = i
        picture = Image.new("RGB", (64, 64)).resize((65, 65))  # something that takes its time
        del picture
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


DATASETS: Broken = {
    "it_has_a_title_and_names_that_are_all_distinct": (
        pictures(names=property(lambda self: ["a", "b"] * 3, lambda self, value: None)),
        "'a' is the name of 3 items",
    ),
    "its_kind_is_one_that_nets_take": (pictures(kind="words"), "kind is 'words', expected one of pictures"),
    "an_item_is_a_picture_or_an_array_as_the_kind_says": (
        pictures(read=lambda self, i: Image.new("L", (4, 4))),
        "'image-00000' has the mode L",
    ),
    "an_item_that_cannot_be_read_is_an_input_error_that_names_it": (
        pictures(read=nameless),
        "the error of 'image-00000' does not name it: it cannot be read",
    ),
    "reading_again_gives_the_same": (
        pictures(read=Restless(lambda k: Image.new("RGB", (4, 4), (k, k, k)))),
        "two reads of 'image-00000'",
    ),
    "threads_can_read_at_once": (Forgetful(), "4 threads that read at once get other items"),
    "a_digest_is_32_hexadecimal_digits_and_stays": (
        pictures(digest=Restless(lambda k: f"{k:032x}")),
        "two digests of 'image-00000'",
    ),
    "items_that_differ_have_digests_that_differ": (
        pictures(digest=lambda self, i: "0" * 32),
        "'image-00000' and 'image-00001' differ, but have the same digest",
    ),
    "a_label_is_unknown_or_has_a_name": (
        pictures(truth=lambda self, i: i),
        "the label of 'image-00002' is 2, but there are 2 label_names",
    ),
    "boxes_lie_inside_their_picture": (
        pictures(boxes=lambda self, i: [(0, 0, 5, 4), (1, 1, 4, 5)]),
        r"the box \(1, 1, 4, 5\) of 'image-00000' is empty or outside its 5 x 4 pixels",
    ),
    "a_stamp_is_text_and_stays": (pictures(stamp=lambda self, i: 3), "stamp of 'image-00000' is 3"),
    "its_settings_open_the_same_dataset_again": (
        pictures(settings=lambda self: {"dataset": "samples"}),
        "opened again, its title is 'samples', not 'arrays'",
    ),
}

# ---- all ------------------------------------------------------------------------------------------------------------

CONTRACTS: list[tuple[Contract[Any], Broken]] = [
    (check_method, METHODS),
    (check_executor, EXECUTORS),
    (check_dataset, DATASETS),
]


@pytest.mark.parametrize(
    "check, broken",
    [
        pytest.param(check, broken, id=str(check))
        for contract, broken in CONTRACTS
        for check in contract.checks
    ],
)
def test_a_broken_promise_is_found(
    check: Check[Any], broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "LONG", 0.2)
    thing, told = broken[str(check)]
    with pytest.raises(AssertionError, match=told) as caught:
        check(thing)
    assert str(caught.value).startswith(check.promise)


class Fine(Gradient):
    name: ClassVar[str] = "fine"


def test_all_broken_promises_are_named_at_once() -> None:
    check_method(Fine())
    with pytest.raises(AssertionError) as caught:
        check_method(method(name="My Method", __repr__=lambda self: "MyMethod()", stochastic=True))
    heading, *promises = str(caught.value).splitlines()
    assert heading == f"MyMethod() breaks 2 of the {len(check_method.checks)} promises of every method:"
    assert [line.partition(":")[0] for line in promises if line.startswith("- ")] == [
        "- it has a name and a meaning",
        "- stochastic means that the seed matters",
    ]


def run_python(program: str, *options: str) -> str:
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_contracts_need_no_pytest() -> None:
    program = """
import sys
sys.modules["pytest"] = None
from proofmap.data import TensorData
from proofmap.testing import check_dataset
check_dataset(TensorData([[1.0], [2.0]], kind="rows"))
print("passed")
"""
    assert run_python(program) == "passed\n"


def test_nothing_passes_where_python_removes_assertions() -> None:
    program = f"""
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("contract", {contract.__file__!r})
module = module_from_spec(spec)
import sys
sys.modules["contract"] = module
spec.loader.exec_module(module)
module.Check(print)("it ran")
"""
    assert run_python(program) == "it ran\n"
    assert "RuntimeError: the checks are assertions" in run_python(program, "-O")
