"""The contract of datasets: named items that are the same in every process and thread."""

from __future__ import annotations

import json
import math
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
    return sorted({i * n // min(n, _MOST) for i in range(min(n, _MOST))})


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
    assert names and len(dataset) == len(names), f"length is {len(dataset)}, with {len(names)} names"
    name, times = Counter(names).most_common(1)[0]
    assert times == 1, f"{name!r} is the name of {times} items"
    assert dataset.kind in KINDS, f"kind is {dataset.kind!r}, expected one of {', '.join(KINDS)}"


@check_dataset.promise
def an_item_is_what_the_kind_says_or_an_input_error_names_it(dataset: Dataset) -> None:
    """A box lies inside its picture. Items that differ have different digests, of 32 digits."""
    seen: dict[str, int] = {}
    for i in _some(dataset):
        name, item, message = dataset.names[i], None, ""
        try:
            item = dataset.read(i)
        except InputError as error:
            message = str(error)
        assert not message or name in message, f"the error of {name!r} does not name it: {message}"
        if item is None:
            continue
        values, picture = np.asarray(item), isinstance(item, Image.Image)
        # NaN: a missing value
        whole = (
            values.dtype.kind in "fiub"
            and not (np.isinf(values) if dataset.kind == Rows.kind else ~np.isfinite(values)).any()
        )
        fits = dataset.kind == Pictures.kind and item.mode in ("RGB", "RGBA") if picture else whole
        assert dataset.kind == Text.kind if isinstance(item, str) else fits, (
            f"{name!r} is a {type(item).__name__} {f'of mode {item.mode}' if picture else values.dtype}, expected one of "
            f"{dataset.kind} (pictures: RGB or RGBA; numbers: finite)"
        )
        digest = dataset.digest(i)
        assert len(digest) == 32 and not set(digest) - set("0123456789abcdef"), (
            f"the digest of {name!r} is {digest!r}, expected 32 digits of 0-9a-f"
        )
        if picture:
            for x0, y0, x1, y1 in (box for boxes in dataset.objects(i).values() for box in boxes):
                assert 0 <= x0 < x1 <= item.width and 0 <= y0 < y1 <= item.height, (
                    f"the box {(x0, y0, x1, y1)} of {name!r} is empty or outside its {item.width} x {item.height} pixels"
                )
        first = seen.setdefault(digest, i)
        assert _content(item) == _content(dataset.read(first)), (
            f"{dataset.names[first]!r} and {name!r} differ, but have the same digest"
        )
    assert seen, "none of the items can be read"


@check_dataset.promise
def an_item_stays_the_same_and_threads_can_read_at_once(dataset: Dataset) -> None:
    _assert_same(dataset, dataset, "from one time to the next")
    numbers = _some(dataset)[:_THREADS] * 8
    expected = {i: _known(dataset, i) for i in numbers}
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda i: _known(dataset, i), numbers))
    same = all(here == expected[i] for i, here in zip(numbers, found, strict=True))
    assert same, f"{_THREADS} threads that read at once get other items or digests than one thread alone"


@check_dataset.promise
def a_label_has_a_name(dataset: Dataset) -> None:
    known = len(dataset.label_names) or math.inf
    for i in _some(dataset):
        name, labels = dataset.names[i], dataset.true_labels(i)
        wrong = [label for label in labels if not (type(label) is int and 0 <= label < known)]
        assert not wrong, f"the label of {name!r} is {wrong[0]!r}, but there are {known} label_names"
        truth = labels[0] if len(labels) == 1 else None
        assert dataset.truth(i) == truth, (
            f"the truth of {name!r} is {dataset.truth(i)!r}, but true_labels are {labels}"
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
