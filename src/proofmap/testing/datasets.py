"""The contract of datasets: named items that are the same in every process and thread."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.inputs import KINDS, Pictures, Rows, Text
from proofmap.data import Dataset, rebuild_dataset
from proofmap.testing.plugins import Contract

check_dataset: Contract[Dataset] = Contract("dataset")
"""Checks a dataset: raises one AssertionError that names every broken promise."""

_MOST = 16  # items that are read of a larger dataset
_THREADS = 4


def _some(dataset: Dataset) -> list[int]:
    """Indices of up to 16 items, spread evenly over the dataset; all indices if the dataset is small."""
    n = len(dataset)
    return sorted({i * n // _MOST for i in range(_MOST)}) if n > _MOST else list(range(n))


def _read(dataset: Dataset) -> tuple[dict[int, Any], dict[int, str]]:
    """Some items of the dataset by index, and the error messages of items that cannot be read, also by index."""
    items, messages = {}, {}
    for i in _some(dataset):
        try:
            items[i] = dataset.read(i)
        except InputError as error:
            messages[i] = str(error)
    return items, messages


def _content(item: Any) -> tuple[str, tuple[int, ...], bytes]:
    """A value that is equal for equal items."""
    values: NDArray[Any] = np.asarray(item)
    return item.mode if isinstance(item, Image.Image) else str(values.dtype), values.shape, values.tobytes()


def _known(dataset: Dataset, i: int) -> dict[str, Any]:
    """What each function of a dataset returns for an item: its answer, or the message of its error."""
    found: dict[str, Any] = {}
    for name in ("read", "digest", "stamp", "true_labels", "truth", "objects"):
        try:
            answer = getattr(dataset, name)(i)
            found[name] = _content(answer) if name == "read" else answer
        except InputError as error:
            found[name] = str(error)
    return found


def _assert_same(one: Dataset, other: Dataset, when: str) -> None:
    for i in _some(one):
        first, second = _known(one, i), _known(other, i)
        for name in first.keys() - ({"stamp"} if one is not other else set()):
            assert first[name] == second[name], f"{name}({one.names[i]!r}) differs {when}"


@check_dataset.promise
def it_has_a_title_distinct_names_and_a_kind(dataset: Dataset) -> None:
    assert isinstance(dataset.title, str) and dataset.title, f"title is {dataset.title!r}, expected text"
    paths = [word for word in dataset.title.split() if Path(word).is_absolute()]
    assert not paths, f"the title names a folder of this machine: {paths[0]}"
    names = list(dataset.names)
    assert names and len(dataset) == len(names), (
        f"its length is {len(dataset)}, but it has {len(names)} names"
    )
    wrong = [name for name in names if not (isinstance(name, str) and name)]
    assert not wrong, f"{wrong[0]!r} is not a name"
    name, times = Counter(names).most_common(1)[0]
    assert times == 1, f"{name!r} is the name of {times} items"
    assert dataset.kind in KINDS, f"kind is {dataset.kind!r}, expected one of {', '.join(KINDS)}"


@check_dataset.promise
def an_item_is_what_the_kind_says_or_an_input_error_names_it(dataset: Dataset) -> None:
    items, messages = _read(dataset)
    for i, message in messages.items():
        assert dataset.names[i] in message, f"the error of {dataset.names[i]!r} does not name it: {message}"
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
def an_item_stays_the_same(dataset: Dataset) -> None:
    _assert_same(dataset, dataset, "from one time to the next")


@check_dataset.promise
def threads_can_read_at_once(dataset: Dataset) -> None:
    numbers = _some(dataset)[:_THREADS]
    expected = {i: _known(dataset, i) for i in numbers}
    together = threading.Barrier(_THREADS)

    def read_all(first: int) -> bool:
        together.wait()
        turned = numbers[first:] + numbers[:first]
        return all(_known(dataset, i) == expected[i] for i in turned * 4)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            same = all(pool.map(read_all, range(_THREADS)))
    finally:
        sys.setswitchinterval(before)
    assert same, f"{_THREADS} threads that read at once get other items or digests than one thread alone"


@check_dataset.promise
def a_digest_has_32_digits_and_differs_where_items_do(dataset: Dataset) -> None:
    seen: dict[str, int] = {}
    items, _ = _read(dataset)
    for i, item in items.items():
        digest = dataset.digest(i)
        assert len(digest) == 32 and not set(digest) - set("0123456789abcdef"), (
            f"the digest of {dataset.names[i]!r} is {digest!r}, expected 32 digits of 0-9a-f"
        )
        first = seen.setdefault(digest, i)
        assert _content(item) == _content(items[first]), (
            f"{dataset.names[first]!r} and {dataset.names[i]!r} differ, but have the same digest"
        )


@check_dataset.promise
def a_label_has_a_name_and_a_box_lies_inside_its_picture(dataset: Dataset) -> None:
    names = list(dataset.label_names)
    for i, item in _read(dataset)[0].items():
        name, labels, known = dataset.names[i], dataset.true_labels(i), len(names) or math.inf
        for label in labels:
            assert type(label) is int and 0 <= label < known, (
                f"the label of {name!r} is {label!r}, but there are {len(names)} label_names"
            )
        truth = labels[0] if len(labels) == 1 else None
        assert dataset.truth(i) == truth, (
            f"the truth of {name!r} is {dataset.truth(i)!r}, but true_labels are {labels}"
        )
        objects = [box for boxes in dataset.objects(i).values() for box in boxes]
        wide, high = item.size if isinstance(item, Image.Image) else (math.inf, math.inf)
        for box in objects:
            x0, y0, x1, y1 = box
            assert 0 <= x0 < x1 <= wide and 0 <= y0 < y1 <= high, (
                f"the box {box} of {name!r} is empty or outside its {wide} x {high} pixels"
            )


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
    for attribute in ("title", "kind", "cropped", "names", "label_names"):
        one, two = getattr(dataset, attribute), getattr(other, attribute)
        assert one == two or list(one) == list(two), f"opened again, its {attribute} is {two!r}, not {one!r}"
    _assert_same(dataset, other, "opened again")
