"""The contract of datasets: named items that are the same in every process and thread."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.inputs import KINDS, Pictures, Rows, Text
from proofmap.data import Dataset, rebuild_dataset
from proofmap.testing.plugins import Contract

T = TypeVar("T")

check_dataset: Contract[Dataset] = Contract("dataset")
"""Checks a dataset: raises one AssertionError that names every broken promise."""

MOST = 16  # items that are read of a larger dataset
THREADS = 4


def some(dataset: Dataset) -> list[int]:
    """Indices of up to :data:`MOST` items, spread evenly over the dataset; all indices if the dataset is small."""
    n = len(dataset)
    return sorted({i * n // MOST for i in range(MOST)}) if n > MOST else list(range(n))


def content(item: Any) -> tuple[str, tuple[int, ...], bytes]:
    """A value that is equal for equal items."""
    values: NDArray[Any] = np.asarray(item)
    return item.mode if isinstance(item, Image.Image) else str(values.dtype), values.shape, values.tobytes()


def read_some(dataset: Dataset) -> tuple[dict[int, Any], dict[int, str]]:
    """Some items of the dataset by index, and the error messages of items that cannot be read, also by index."""
    items, messages = {}, {}
    for i in some(dataset):
        try:
            items[i] = dataset.read(i)
        except InputError as error:
            messages[i] = str(error)
    return items, messages


def assert_same_answers(
    dataset: Dataset, first: Callable[[int], T], second: Callable[[int], T], what: str
) -> None:
    """Assert that, for each item, both functions return the same value or raise errors with the same message."""
    for i in some(dataset):
        one, other = answer(first, i), answer(second, i)
        assert one == other, f"{what} of {dataset.names[i]!r}: {one!r:.80} and then {other!r:.80}"


def answer(what: Callable[[int], T], i: int) -> T | str:
    try:
        return what(i)
    except InputError as error:
        return str(error)


# ---- what it is -------------------------------------------------------------------------------------------------


@check_dataset.promise
def it_has_a_title_and_names_that_are_all_distinct(dataset: Dataset) -> None:
    assert isinstance(dataset.title, str) and dataset.title, f"title is {dataset.title!r}, expected text"
    paths = [word for word in dataset.title.split() if Path(word).is_absolute()]
    assert not paths, f"the title names a folder of this machine: {paths[0]}"
    names = list(dataset.names)
    assert names, "it has no items"
    assert len(dataset) == len(names), f"its length is {len(dataset)}, but it has {len(names)} names"
    wrong = [name for name in names if not (isinstance(name, str) and name)]
    assert not wrong, f"{wrong[0]!r} is not a name"
    name, times = Counter(names).most_common(1)[0]
    assert times == 1, f"{name!r} is the name of {times} items"
    assert list(dataset.names) == names, "the names change from one time to the next"


@check_dataset.promise
def its_kind_is_one_that_nets_take(dataset: Dataset) -> None:
    assert dataset.kind in KINDS, f"kind is {dataset.kind!r}, expected one of {', '.join(KINDS)}"
    assert isinstance(dataset.cropped, bool), f"cropped is {dataset.cropped!r}, expected True or False"


# ---- items ------------------------------------------------------------------------------------------------------


@check_dataset.promise
def an_item_is_a_picture_or_an_array_as_the_kind_says(dataset: Dataset) -> None:
    items, _ = read_some(dataset)
    assert items, "none of the items can be read"
    for i, item in items.items():
        name = dataset.names[i]
        if isinstance(item, Image.Image):
            assert dataset.kind == Pictures.kind, f"{name!r} is a picture, but the kind is {dataset.kind}"
            assert item.mode in ("RGB", "RGBA"), f"{name!r} has the mode {item.mode}, expected RGB or RGBA"
        elif isinstance(item, str):
            assert dataset.kind == Text.kind, f"{name!r} is a text, but the kind is {dataset.kind}"
        else:
            values: NDArray[Any] = np.asarray(item)
            assert values.dtype.kind in "fiub", f"{name!r} has values of {values.dtype}, expected numbers"
            # NaN: a missing value
            bad = np.isinf(values) if dataset.kind == Rows.kind else ~np.isfinite(values)
            assert not bad.any(), f"{name!r} has NaN or infinity, and no error says so"


@check_dataset.promise
def an_item_that_cannot_be_read_is_an_input_error_that_names_it(dataset: Dataset) -> None:
    _, messages = read_some(dataset)
    for i, message in messages.items():
        name = dataset.names[i]
        assert name in message, f"the error of {name!r} does not name it: {message}"


@check_dataset.promise
def reading_again_gives_the_same(dataset: Dataset) -> None:
    assert_same_answers(
        dataset, lambda i: content(dataset.read(i)), lambda i: content(dataset.read(i)), "two reads"
    )


@check_dataset.promise
def threads_can_read_at_once(dataset: Dataset) -> None:
    def found(i: int) -> object:
        return answer(lambda i: content(dataset.read(i)), i), answer(dataset.digest, i)

    numbers = some(dataset)[:THREADS]
    expected = {i: found(i) for i in numbers}
    together = threading.Barrier(THREADS)

    def read_all(first: int) -> bool:
        together.wait()
        turned = numbers[first:] + numbers[:first]
        return all(found(i) == expected[i] for i in turned * 4)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            same = all(pool.map(read_all, range(THREADS)))
    finally:
        sys.setswitchinterval(before)
    assert same, f"{THREADS} threads that read at once get other items or digests than one thread alone"


# ---- what is known of an item -------------------------------------------------------------------------------------


@check_dataset.promise
def a_digest_is_32_hexadecimal_digits_and_stays(dataset: Dataset) -> None:
    items, _ = read_some(dataset)
    for i in items:
        digest = dataset.digest(i)
        assert len(digest) == 32 and not set(digest) - set("0123456789abcdef"), (
            f"the digest of {dataset.names[i]!r} is {digest!r}, expected 32 digits of 0-9a-f"
        )
    assert_same_answers(dataset, dataset.digest, dataset.digest, "two digests")


@check_dataset.promise
def items_that_differ_have_digests_that_differ(dataset: Dataset) -> None:
    seen: dict[str, int] = {}
    items, _ = read_some(dataset)
    for i, item in items.items():
        first = seen.setdefault(dataset.digest(i), i)
        assert content(item) == content(items[first]), (
            f"{dataset.names[first]!r} and {dataset.names[i]!r} differ, but have the same digest"
        )


@check_dataset.promise
def a_label_is_unknown_or_has_a_name(dataset: Dataset) -> None:
    names = list(dataset.label_names)
    assert all(isinstance(name, str) for name in names), "label_names must be text"
    for i in some(dataset):
        one, labels = dataset.truth(i), dataset.true_labels(i)
        for label in labels:
            found = f"the label of {dataset.names[i]!r} is {label!r}"
            assert type(label) is int, f"{found}, expected an int or None"
            assert 0 <= label < (len(names) or math.inf), f"{found}, but there are {len(names)} label_names"
        assert len(set(labels)) == len(labels), (
            f"true_labels of {dataset.names[i]!r} has a label twice: {labels}"
        )
        assert one == (labels[0] if len(labels) == 1 else None), (
            f"the truth of {dataset.names[i]!r} is {one!r}, but its true_labels are {labels}"
        )


@check_dataset.promise
def boxes_lie_inside_their_picture(dataset: Dataset) -> None:
    items, _ = read_some(dataset)
    for i, item in items.items():
        objects = [box for boxes in dataset.objects(i).values() for box in boxes]
        for box in [*dataset.boxes(i), *objects]:
            assert len(box) == 4, f"a box of {dataset.names[i]!r} is {box}, expected (x0, y0, x1, y1)"
            wide, high = item.size if isinstance(item, Image.Image) else (math.inf, math.inf)
            x0, y0, x1, y1 = box
            assert 0 <= x0 < x1 <= wide and 0 <= y0 < y1 <= high, (
                f"the box {box} of {dataset.names[i]!r} is empty or outside its {wide} x {high} pixels"
            )


@check_dataset.promise
def a_stamp_is_text_and_stays(dataset: Dataset) -> None:
    for i in some(dataset):
        stamp = dataset.stamp(i)
        assert isinstance(stamp, str), f"the stamp of {dataset.names[i]!r} is {stamp!r}, expected text"
    assert_same_answers(dataset, dataset.stamp, dataset.stamp, "two stamps")


# ---- another process ------------------------------------------------------------------------------------------------


@check_dataset.promise
def its_settings_open_the_same_dataset_again(dataset: Dataset) -> None:
    """This check is skipped for a dataset in memory, whose ``settings()`` raises an InputError or names no dataset."""
    try:
        settings = dataset.settings()
    except InputError:
        return
    if not settings.get("dataset"):
        return
    other = rebuild_dataset(json.loads(json.dumps(settings)))
    assert other.settings() == settings, f"opened again, its settings are {other.settings()}, not {settings}"
    for attribute in ("title", "kind", "cropped"):
        one, two = getattr(dataset, attribute), getattr(other, attribute)
        assert one == two, f"opened again, its {attribute} is {two!r}, not {one!r}"
    for attribute in ("names", "label_names"):
        same = list(getattr(dataset, attribute)) == list(getattr(other, attribute))
        assert same, f"opened again, it has other {attribute}"
    assert_same_answers(dataset, dataset.digest, other.digest, "opened again, the digest")
    assert_same_answers(dataset, dataset.true_labels, other.true_labels, "opened again, the label")
    assert_same_answers(dataset, dataset.boxes, other.boxes, "opened again, the boxes")
    assert_same_answers(
        dataset,
        lambda i: content(dataset.read(i)),
        lambda i: content(other.read(i)),
        "opened again, the content",
    )
