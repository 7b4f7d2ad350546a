"""Label names: one for each output, told apart by anyone."""

from __future__ import annotations

import json
from pathlib import Path

from proofmap.models.names import CIFAR10_NAMES, cifar100_names, distinct, imagenet_names


def test_every_name_occurs_once_whatever_the_case() -> None:
    for names, count in ((CIFAR10_NAMES, 10), (cifar100_names(), 100), (imagenet_names(), 1000)):
        assert len(names) == len({name.lower() for name in names}) == count


def test_names_that_two_classes_share_carry_a_gloss() -> None:
    glossed = {index: name for index, name in enumerate(imagenet_names()) if name.endswith(")")}
    assert glossed == {
        134: "crane (bird)",
        264: "Cardigan (dog)",
        474: "cardigan (garment)",
        517: "crane (machine)",
        638: "maillot (tights)",
        639: "maillot (tank suit)",
    }


def test_imagenet_names_follow_the_usual_order(data: Path) -> None:
    published = json.loads((data / "imagenet_classes.json").read_text())
    plain = [name.rpartition(" (")[0] or name for name in imagenet_names()]
    assert plain == [published[str(index)][1].replace("_", " ") for index in range(1000)]


def test_cifar_names_are_alphabetical() -> None:
    assert list(CIFAR10_NAMES) == sorted(CIFAR10_NAMES)
    assert list(cifar100_names()) == sorted(cifar100_names())


def test_distinct_changes_only_what_is_shared() -> None:
    assert distinct(["a", "B", "b", "c"]) == ("a", "B (1)", "b (2)", "c")
