"""How a metric is written, what it is given, and the message that names the form which one of one's own should return."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box
from proofmap.data.given import Subjects
from proofmap.fills import Blur
from proofmap.methods import Cost, Method
from proofmap.methods.controls import Random
from proofmap.metrics import Insertion, Judged, Metric, make_metric
from proofmap.metrics.areas import Deletion
from proofmap.metrics.proof_scores import Soundness
from proofmap.metrics.reliability import RankingAgreement
from proofmap.session import Session
from proofmap.study import run_study
from proofmap.study.planning import unit_cost
from tests.sessions import bound, judged_block
from tests.study.studies import toy_study
from tests.toys import conv_classifier, counted_classifier, linear_classifier, linear_probabilities, pixels

N, LABELS = 4, 3


def own(**attributes: Any) -> Metric:
    described = {"name": "own", "description": "for tests", "higher_is_better": True}
    return type("Own", (Metric,), {**described, **attributes})()


def giving(found: Callable[[Judged], object], **attributes: Any) -> Metric:
    return own(values=lambda self, judged: found(judged), **attributes)


def evaluated(*metrics: Metric) -> pm.Evaluation:
    return pm.evaluate(
        conv_classifier(8), pixels(N, 8), methods=["random", "gradient"], metrics=list(metrics), labels="top3"
    )


@pytest.mark.parametrize(
    "found, told",
    [
        (lambda judged: 0.5, "not float"),
        (lambda judged: [0.5] * N, "not list"),
        (lambda judged: None, "not None"),
        (lambda judged: np.zeros(N), "not ndarray"),
        (lambda judged: torch.zeros(N, dtype=torch.complex64), "not torch.complex64"),
        (lambda judged: torch.zeros(2), r"not of shape \(2,\)"),
        (lambda judged: torch.zeros(()), r"not of shape \(\)"),
        (lambda judged: torch.zeros(N, 2), r"not of shape \(4, 2\)$"),
        (
            lambda judged: judged.f,
            r"not of shape \(4, 3\). Values per label belong into pairs\(judged\)",
        ),
        (lambda judged: torch.full((N,), math.inf), "finite, or NaN"),
    ],
)
def test_values_have_one_form(found: Callable[[Judged], object], told: str) -> None:
    with pytest.raises(
        pm.InputError,
        match=r"the metric own: values\(judged\) must return a torch.Tensor .* of shape \(4,\)",
    ) as error:
        evaluated(giving(found))
    with pytest.raises(pm.InputError, match=told):
        raise error.value


@pytest.mark.parametrize("found, told", [(0.5, "not float"), (torch.zeros(N), r"not of shape \(4,\)$")])
def test_pairs_have_one_form(found: object, told: str) -> None:
    for more in ({}, {"__call__": lambda self, judged: torch.zeros(N)}):
        with pytest.raises(pm.InputError, match=rf"own: pairs\(judged\) must .* of shape \(4, 3\).*{told}"):
            evaluated(own(pairs=lambda self, judged: found, **more))


def test_values_from_pairs_have_the_same_form() -> None:
    metric = own(pairs=lambda self, judged: judged.f, from_pairs=lambda self, judged, pairs: pairs)
    with pytest.raises(pm.InputError, match=r"own: from_pairs\(judged, pairs\) must .* of shape \(4,\)"):
        evaluated(metric)


def test_values_lie_inside_the_limits_up_to_rounding() -> None:
    with pytest.raises(
        pm.InputError, match=r"the metric own: .* returned 1\.5, .* between its limits 0 and 1"
    ):
        evaluated(giving(lambda judged: torch.full((N,), 1.5), limits=(0.0, 1.0)))
    near = giving(lambda judged: torch.tensor([1 + 1e-6, 0.5, 0.0, math.nan]), limits=(0.0, 1.0))
    assert evaluated(near).results[0].scores[0].n == 3


def test_a_metric_that_plays_its_own_game_keeps_its_own_limits() -> None:
    assert type("Margin", (Insertion,), {"limits": (-math.inf, math.inf)})().limits == (-math.inf, math.inf)
    assert Insertion(target="margin").limits == (-math.inf, math.inf)


def test_whole_numbers_booleans_and_values_with_a_gradient_are_taken() -> None:
    for found in (torch.arange(N), torch.arange(N) > 1, torch.arange(N).float().requires_grad_()):
        metric = giving(lambda judged, found=found: found)
        assert evaluated(metric).results[0].scores[0].value == pytest.approx(
            float(found.detach().double().mean())
        )


@pytest.mark.parametrize("attributes", [{}, {"higher_is_better": None}])
def test_the_direction_is_required(attributes: dict[str, object]) -> None:
    kind = type("Own", (Metric,), {"name": "own", "description": "for tests", **attributes})
    with pytest.raises(
        pm.InputError, match=r"the metric own must .* higher_is_better = True, or False, in class Own"
    ):
        evaluated(kind())


def test_numbers_of_a_run_have_one_form() -> None:
    metric = type("Own", (RankingAgreement,), {"name": "own", "over_run": lambda self, run: 0.5})()
    with pytest.raises(
        pm.InputError, match=r"the metric own: over_run\(run\) must return a table of subject"
    ):
        evaluated(pm.make_metric("insertion:points=4"), metric)


# ---- how metrics are written ---------------------------------------------------------------------------------


def test_every_setting_of_the_text_reaches_the_metric() -> None:
    metric = make_metric(
        "soundness:thresholds=released,e2=0.25,curve=released,fill=blur,points=7,ties=random"
    )
    told = {"e2": 0.25, "points": 7, "rule": "right", "ties": "random"}
    assert metric == Soundness(fill=Blur(), **told)
    assert told.items() <= metric.settings().items()
    assert make_metric("insertion:points=all").settings()["points"] == "all"
    assert make_metric("deletion:curve=rise") == Deletion(
        points=28, rule="trapezoid"
    )  # gray, as RISE plays it
    assert make_metric("insertion:curve=rise") == Insertion(fill=Blur(), points=28, rule="trapezoid")
    assert make_metric("insertion:within=0.2:0.6") == Insertion(within=(0.2, 0.6))


@pytest.mark.parametrize(
    "spec, told",
    [
        ("soundnes", "Did you mean 'soundness'"),
        ("soundness:e3=1", "no setting 'e3'. Its settings are: thresholds, curve, fill"),
        ("soundness:e2=much", "e2 must be a number"),
        ("insertion:curve=steep", "no curve 'steep'; known are paper, released"),
        ("insertion:points=0", "points must be"),
        ("insertion:fill=foam", "no fill is named"),
    ],
)
def test_what_cannot_be_read_is_told(spec: str, told: str) -> None:
    with pytest.raises(pm.InputError, match=told):
        make_metric(spec)


# ---- what a metric is given ----------------------------------------------------------------------------------


IMAGES, SIZE = 3, 8
GIVEN = torch.tensor([[2, 0], [1, 3], [0, 2]])


def judged(method: Method | None = None, *, seed: int = 0) -> Judged:
    f = conv_classifier(SIZE)
    ready = bound(method or Random(per_label=True), f)
    x = pixels(IMAGES, SIZE)
    return Judged(Session(f, seed=seed), x, GIVEN, ready(x, GIVEN, seed=seed), method=ready.thing)


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
    assert torch.equal(j.maps_again(labels=GIVEN[:, :1]), method(f, j.images, GIVEN[:, :1], seed=5))
    assert torch.equal(j.maps_again(seed=6), method(f, j.images, GIVEN, seed=6))
    again = j.maps_again(session=j.session.for_net(other_net))
    assert torch.equal(again, method(other_net, j.images, GIVEN, seed=5))
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
    assert cost.gradient == made.gradient * 8, "once itself, twice and five times more"
    f.frozen()
    tally.reset()
    judged_block(ready.session, ready.thing, Subjects(pixels(IMAGES, SIZE), GIVEN), metrics)
    assert IMAGES * (cost.passes - 1) == tally.images, (
        "with the insertion curves that are kept; neither metric looks at f"
    )


def test_a_metric_that_runs_the_method_again_is_evaluated_like_any_other() -> None:
    f, x = conv_classifier(SIZE), pixels(IMAGES, SIZE)
    found = pm.evaluate(f, x, methods=["gradient", "random"], metrics=[Repeated()], labels=GIVEN, seed=3)
    still, moved = (result.values["repeated"] for result in found.results)
    assert torch.equal(still, torch.zeros(IMAGES)), "gradients do not depend on the seed"
    maps = [Random()(f, x, GIVEN, seed=seed) for seed in (3, 4, 5)]
    expected = sum((m - maps[0]).abs().flatten(1).mean(dim=1) for m in maps[1:]) / 2
    torch.testing.assert_close(moved, expected)


# ---- what the data knows --------------------------------------------------------------------------------------------


class Witness(Metric):
    """It remembers what it was told about the images."""

    name: ClassVar[str] = "witness"
    description: ClassVar[str] = "the true label"
    higher_is_better: ClassVar[bool] = True
    seen: ClassVar[list[tuple[Tensor | None, Sequence[Sequence[Box]]]]] = []

    def values(self, judged: Judged) -> Tensor:
        self.seen.append((judged.truth, judged.boxes))
        return judged.images.flatten(1).mean(dim=1)


def test_truth_and_boxes_reach_a_metric() -> None:
    f, x, witness = conv_classifier(SIZE, names=["cat", "dog", "cup", "car"]), pixels(IMAGES, SIZE), Witness()
    boxes: list[list[Box]] = [[(0, 0, 4, 4)], [], [(1, 2, 3, 4), (0, 0, 8, 8)]]
    pm.evaluate(f, x, methods=["random"], metrics=[witness], truth=["dog", None, 2], boxes=boxes)
    ((truth, seen),) = witness.seen
    assert truth is not None and truth.tolist() == [1, -1, 2] and list(seen) == boxes


# ---- values of pairs -----------------------------------------------------------------------------------------


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


class Both(Counted):
    """Values of images that do not come from those of labels; it writes over the maps afterwards."""

    def values(self, judged: Judged) -> Tensor:
        found = judged.maps.flatten(1).amax(dim=1)
        judged.maps.zero_()
        return found


def evaluated_pairs(metric: Metric) -> tuple[Tensor, Tensor, Tensor]:
    """Values per image, those of pairs, and the mean of each map."""
    found = pm.evaluate(
        conv_classifier(SIZE),
        pixels(IMAGES, SIZE),
        methods=["gradient"],
        metrics=[metric],
        labels=GIVEN,
        keep_maps=IMAGES,
    )
    (result,) = found.results
    return result.values["counted"], result.pairs["counted"], result.maps


def test_pairs_run_once_for_a_block_of_a_study(tmp_path: Path) -> None:
    run_study(
        toy_study(tmp_path, 4, images_per_unit=2, methods=["random"], metrics=[Counted()]), tmp_path / "run"
    )
    assert CALLS == [2, 2]


def test_values_of_images_may_come_from_those_of_all_labels() -> None:
    values, pairs, maps = evaluated_pairs(Highest())
    assert CALLS == [IMAGES]
    torch.testing.assert_close(
        pairs, maps.flatten(2).mean(dim=2), msg="what from_pairs wrote is seen by nobody"
    )
    assert torch.equal(values, pairs.amax(dim=1))


def test_a_metric_may_give_values_of_images_that_do_not_come_from_those_of_labels() -> None:
    values, pairs, maps = evaluated_pairs(Both())
    assert CALLS == [IMAGES]
    torch.testing.assert_close(pairs, maps.flatten(2).mean(dim=2))
    torch.testing.assert_close(values, maps.flatten(1).amax(dim=1))


def test_a_metric_that_gives_neither_values_nor_pairs_says_so() -> None:
    silent = type("Silent", (Metric,), {"name": "counted", "description": "none", "higher_is_better": True})()
    with pytest.raises(pm.InputError, match="the metric counted gives no values: define values"):
        silent.values(None)


# ---- metrics of the first label ------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["deletion", "srg", "sufficient-region", "li-soundness", "average-drop"])
def test_the_value_is_that_of_the_first_label_among_all(spec: str) -> None:
    f, x, labels = conv_classifier(8), pixels(3, 8), torch.tensor([[2, 0], [1, -1], [0, 2]])
    metric = pm.make_metric(spec)
    judged = Judged(Session(f), x, labels, torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(1)))
    values, pairs = metric.measure(judged)
    every = metric.pairs(judged)
    torch.testing.assert_close(values, every[:, 0], equal_nan=True)
    torch.testing.assert_close(pairs[:, 0], values, equal_nan=True)
    assert bool(pairs[:, 1].isnan().all())
