"""Values of (image, label) pairs are computed once for a block, and the values of images come from them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.metrics import Judged, Metric
from proofmap.study import run_study
from tests.study.studies import toy_study
from tests.toys import conv_classifier, pixels

N, SIZE = 3, 8
LABELS = torch.tensor([[2, 0], [1, 3], [0, 2]])
CALLS: list[int] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


class Counted(Metric):
    """The mean of each map; every call is counted by its number of images."""

    name: ClassVar[str] = "counted"
    description: ClassVar[str] = "for tests"
    higher_is_better: ClassVar[bool] = True

    def pairs(self, judged: Judged) -> Tensor:
        CALLS.append(len(judged.images))
        return judged.maps.flatten(2).mean(dim=2)


class Highest(Counted):
    """The highest value of a label; it writes into what it is given."""

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        highest = pairs.amax(dim=1)
        pairs.zero_()
        return highest


class Doubled(Counted):
    """Twice what the class above it gives."""

    def values(self, judged: Judged) -> Tensor:
        return 2 * self.from_pairs(judged, self.pairs(judged))


class Both(Counted):
    """Values of images that do not come from those of labels; it writes over the maps afterwards."""

    def values(self, judged: Judged) -> Tensor:
        found = judged.maps.flatten(1).amax(dim=1)
        judged.maps.zero_()
        return found


def evaluated(metric: Metric) -> tuple[Tensor, Tensor, Tensor]:
    """Values per image, those of pairs, and the mean of each map."""
    found = pm.evaluate(
        conv_classifier(SIZE),
        pixels(N, SIZE),
        methods=["gradient"],
        metrics=[metric],
        labels=LABELS,
        keep_maps=N,
    )
    (result,) = found.results
    return result.values["counted"], result.pairs["counted"], result.maps


def test_pairs_run_once_for_a_block_of_a_study(tmp_path: Path) -> None:
    run_study(
        toy_study(tmp_path, 4, images_per_unit=2, methods=["random"], metrics=[Counted()]), tmp_path / "run"
    )
    assert CALLS == [2, 2]


def test_values_of_images_may_come_from_those_of_all_labels() -> None:
    values, pairs, maps = evaluated(Highest())
    assert CALLS == [N]
    torch.testing.assert_close(
        pairs, maps.flatten(2).mean(dim=2), msg="what from_pairs wrote is seen by nobody"
    )
    assert torch.equal(values, pairs.amax(dim=1))


def test_a_metric_may_give_values_of_images_that_do_not_come_from_those_of_labels() -> None:
    values, pairs, maps = evaluated(Both())
    assert CALLS == [N]
    torch.testing.assert_close(pairs, maps.flatten(2).mean(dim=2))
    torch.testing.assert_close(values, maps.flatten(1).amax(dim=1))


def test_a_metric_may_build_on_the_values_of_the_class_above_it() -> None:
    values, pairs, _ = evaluated(Doubled())
    assert torch.equal(values, 2 * pairs[:, 0])


def test_a_metric_that_gives_neither_values_nor_pairs_says_so() -> None:
    silent = type("Silent", (Metric,), {"name": "counted", "description": "none", "higher_is_better": True})()
    with pytest.raises(pm.InputError, match="the metric counted gives no values: define values"):
        silent.values(None)
