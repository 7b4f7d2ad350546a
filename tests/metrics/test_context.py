"""What a metric is given: what the net believes, the method to run again, and what the data knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box
from proofmap.data.given import Subjects
from proofmap.methods import Cost, Method
from proofmap.methods.controls import Random
from proofmap.metrics import Judged, Metric
from proofmap.session import Session
from proofmap.study.planning import unit_cost
from tests.sessions import bound, judged_block
from tests.toys import conv_classifier, counted_classifier, linear_classifier, linear_probabilities, pixels

N, SIZE = 3, 8
LABELS = torch.tensor([[2, 0], [1, 3], [0, 2]])


def judged(method: Method | None = None, *, seed: int = 0) -> Judged:
    f = conv_classifier(SIZE)
    ready = bound(method or Random(per_label=True), f)
    x = pixels(N, SIZE)
    return Judged(Session(f, seed=seed), x, LABELS, ready(x, LABELS, seed=seed), method=ready.thing)


# ---- what the net believes ------------------------------------------------------------------------------------------


def test_f_is_of_the_labels_and_probabilities_are_of_all_outputs() -> None:
    f, x = linear_classifier(4, 5), pixels(2, 4)
    j = Judged(Session(f), x, torch.tensor([[3, 0, 4], [1, 2, -1]]), torch.zeros(2, 3, 4, 4))
    expected = [linear_probabilities(f, image.numpy()) for image in x]
    assert j.probabilities.shape == (2, 5) and j.f.shape == (2, 3)
    for i in range(2):
        assert j.probabilities[i].tolist() == pytest.approx(expected[i], rel=1e-5)
        for place, label in enumerate(j.labels[i].tolist()):
            if label >= 0:
                assert float(j.f[i, place]) == pytest.approx(expected[i][label], rel=1e-5)
    assert j.f.isnan().tolist() == [[False] * 3, [False, False, True]]


def test_the_net_is_asked_once_for_what_it_believes() -> None:
    f, tally = counted_classifier(size=SIZE)
    j = Judged(Session(f), pixels(N, SIZE), LABELS, torch.zeros(N, 2, SIZE, SIZE))
    f.frozen()
    tally.reset()
    for _ in range(2):
        assert j.f.shape == (N, 2) and j.top2[0].shape == (N, 2) and len(j.probabilities) == N
    assert tally.images == N


# ---- the method again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec", ["gradient-x-input", "grad-cam", "random:per_label=true", "top-label:gradient"]
)
def test_the_method_runs_again_on_anything_else(spec: str) -> None:
    method, other_net = pm.make_method(spec), conv_classifier(SIZE, seed=1)
    j, f = judged(method, seed=5), conv_classifier(SIZE)
    x, labels = pixels(2, SIZE, seed=9), torch.tensor([[3], [1]])
    assert torch.equal(j.maps_again(), j.maps)
    assert torch.equal(j.maps_again(x, labels), method(f, x, labels, seed=5))
    assert torch.equal(j.maps_again(labels=LABELS[:, :1]), method(f, j.images, LABELS[:, :1], seed=5))
    assert torch.equal(j.maps_again(seed=6), method(f, j.images, LABELS, seed=6))
    again = j.maps_again(session=j.session.for_net(other_net))
    assert torch.equal(again, method(other_net, j.images, LABELS, seed=5))
    assert torch.equal(again, j.maps) == (spec == "random:per_label=true"), "another net has other maps"


def test_without_its_method_a_metric_is_told_why_it_cannot_run_it() -> None:
    j = judged()
    j.method = None
    with pytest.raises(InputError, match="runs the method again, but only its maps are known here"):
        j.maps_again()


class Repeated(Metric):
    """How far the maps of another seed are from these, on average; the method runs ``times`` more."""

    name: ClassVar[str] = "repeated"
    description: ClassVar[str] = "mean distance of maps of other seeds"
    higher_is_better: ClassVar[bool] = False
    times: int = 2

    def values(self, judged: Judged) -> Tensor:
        again = [judged.maps_again(seed=judged.session.seed + 1 + k) for k in range(self.times)]
        return torch.stack([(maps - judged.maps).abs().flatten(1).mean(dim=1) for maps in again]).mean(dim=0)

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        return None if method is None else method * self.times


@pytest.mark.parametrize("spec", ["grad-cam", "learned-mask:steps=3,fill=gray", "random"])
def test_the_plan_counts_a_method_that_runs_again(spec: str) -> None:
    f, tally = counted_classifier(size=SIZE)
    ready = bound(pm.make_method(spec), f)
    made, metrics = ready.cost(2), {"two": Repeated(), "five": Repeated(times=5)}
    cost = unit_cost(ready.thing, list(metrics.values()), 2, ready.session)
    assert made is not None and cost is not None
    assert cost.gradient == made.gradient * 8, "once itself, twice and five times more"
    f.frozen()
    tally.reset()
    judged_block(ready.session, ready.thing, Subjects(pixels(N, SIZE), LABELS), metrics)
    assert N * (cost.passes - 1) == tally.images, (
        "with the insertion curves that are kept; neither metric looks at f"
    )


def test_a_metric_that_runs_the_method_again_is_evaluated_like_any_other() -> None:
    f, x = conv_classifier(SIZE), pixels(N, SIZE)
    found = pm.evaluate(f, x, methods=["gradient", "random"], metrics=[Repeated()], labels=LABELS, seed=3)
    still, moved = (result.values["repeated"] for result in found.results)
    assert torch.equal(still, torch.zeros(N)), "gradients do not depend on the seed"
    maps = [Random()(f, x, LABELS, seed=seed) for seed in (3, 4, 5)]
    expected = sum((m - maps[0]).abs().flatten(1).mean(dim=1) for m in maps[1:]) / 2
    torch.testing.assert_close(moved, expected)


# ---- what the data knows --------------------------------------------------------------------------------------------


class Witness(Metric):
    """It remembers what it was told about the images."""

    name: ClassVar[str] = "witness"
    description: ClassVar[str] = "the true label"
    higher_is_better: ClassVar[bool] = True
    seen: list[tuple[Tensor | None, Sequence[Sequence[Box]]]] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        """A list is nothing that a setting can be."""

    def settings(self) -> dict[str, object]:
        return {}

    def values(self, judged: Judged) -> Tensor:
        self.seen.append((judged.truth, judged.boxes))
        return judged.images.flatten(1).mean(dim=1)


def test_truth_and_boxes_reach_a_metric() -> None:
    f, x, witness = conv_classifier(SIZE, names=["cat", "dog", "cup", "car"]), pixels(N, SIZE), Witness()
    boxes: list[list[Box]] = [[(0, 0, 4, 4)], [], [(1, 2, 3, 4), (0, 0, 8, 8)]]
    pm.evaluate(f, x, methods=["random"], metrics=[witness], truth=["dog", None, 2], boxes=boxes)
    ((truth, seen),) = witness.seen
    assert truth is not None and truth.tolist() == [1, -1, 2] and list(seen) == boxes
