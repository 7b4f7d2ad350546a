"""For each promise of datasets, one that breaks it and what the message says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.data import ArrayImages, Dataset


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
