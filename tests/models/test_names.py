"""Label names: one for each output, told apart by anyone."""

from __future__ import annotations

import json
from pathlib import Path

from proofmap.models.names import distinct, label_names


def test_every_name_occurs_once_whatever_the_case() -> None:
    for dataset, count in (("cifar10", 10), ("cifar100", 100), ("imagenet", 1000)):
        names = label_names(dataset)  # type: ignore[arg-type]
        assert len(names) == len({name.lower() for name in names}) == count


def test_names_that_two_classes_share_carry_a_gloss() -> None:
    glossed = {index: name for index, name in enumerate(label_names("imagenet")) if name.endswith(")")}
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
    plain = [name.rpartition(" (")[0] or name for name in label_names("imagenet")]
    assert plain == [published[str(index)][1].replace("_", " ") for index in range(1000)]


def test_distinct_changes_only_what_is_shared() -> None:
    assert distinct(["a", "B", "b", "c"]) == ("a", "B (1)", "b (2)", "c")
