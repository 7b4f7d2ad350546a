"""The contract of metrics: a metric's description is true, and the value of an image does not depend on other images.

Some promises are about metrics with a value per image, others about metrics with values for whole runs. A promise about one kind of metric is
not checked for the other kind.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.inputs import Box, Inputs
from proofmap.fills import Gray
from proofmap.methods import GradientInput, LearnedMask, Method
from proofmap.metrics import Curves, Game, Judged, Metric, RunMetric, RunValue, RunValues
from proofmap.metrics.metric import Per, Reads
from proofmap.session import Session
from proofmap.testing.nets import PICTURES, ROWS, SERIES, counted_classifier, normal, values
from proofmap.testing.plugins import (
    assert_close,
    assert_global_randomness_is_not_used,
    assert_net_stays_as_it_is,
    is_plain_name,
    may_be_refused,
    plugin_contract,
    remembered,
    shared_classifier,
    with_another_seed,
)

check_metric = plugin_contract(Metric)
"""Checks a metric: raises one AssertionError that names every broken promise."""

N = 4
LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3], [3, 1, 2]])
TRUTH = torch.tensor([2, 3, 0, -1])
BOXES: Sequence[Sequence[Box]] = (((1, 1, 5, 4),), (), ((0, 0, 10, 8), (2, 3, 4, 6)), ((3, 2, 9, 8),))
OBJECTS: Sequence[Mapping[int, Sequence[Box]]] = (
    {2: ((1, 1, 5, 4),), 0: ((6, 0, 10, 8),)},
    {},
    {0: ((0, 0, 4, 4),), 3: ((5, 4, 10, 8),), 2: ((1, 5, 4, 8),)},
    {3: ((3, 2, 9, 8),), 1: ((0, 0, 3, 2),)},
)
USUAL_METHOD = GradientInput()
LOOKS = 3
"""Passes per image that a metric need not announce: those for the probabilities f of the image, and for the checks of a net that the metric
makes."""


@dataclass
class Watched(Judged):
    """Judged maps that record which games a metric plays. A game reveals or hides positions step by step in a map's order."""

    asked: list[Game] = field(default_factory=list)

    def play(self, game: Game, *, matrix: bool | None = None) -> Curves:
        self.asked.append(game)
        return super().play(game, matrix=matrix)


@functools.cache
def usual_maps(
    inputs: Inputs,
    method: Method = USUAL_METHOD,
    order: tuple[int, ...] = tuple(range(N)),
    labels: tuple[tuple[int, ...], ...] = tuple(map(tuple, LABELS.tolist())),
) -> Tensor:
    """A method's maps for some of the test inputs, on the test net. They are cached, because most promises about metrics need the same maps."""
    some = list(order)
    return method(shared_classifier(inputs), values(inputs, N)[some], torch.tensor(labels)[some])


def judged(
    classifier: Classifier | None = None,
    *,
    order: Sequence[int] = tuple(range(N)),
    labels: Tensor = LABELS,
    method: Method = USUAL_METHOD,
    inputs: Inputs = PICTURES,
    maps: Tensor | None = None,
) -> Watched:
    """A method's maps for some of the test images, with everything that a metric may need: images, labels, truth and boxes."""
    f, some = classifier or shared_classifier(inputs), list(order)
    x, session = values(inputs, N)[some], Session(f, role="learn")
    if maps is None and classifier is None:
        maps = usual_maps(inputs, method, tuple(some), tuple(map(tuple, labels.tolist())))
    maps = session.maps(method, x, labels[some]) if maps is None else maps.clone()
    boxes = [BOXES[i] for i in some] if inputs is PICTURES else ()
    objects = [OBJECTS[i] for i in some] if inputs is PICTURES else ()
    return Watched(
        session,
        x,
        labels[some].clone(),
        maps,
        method=method,
        truth=TRUTH[some],
        boxes=boxes,
        objects=objects,
    )


@dataclass(frozen=True)
class Judgement:
    """The judged maps, and the metric's values for images and for pairs of an image and a label. Judgements are cached, because many promises
    need the same one."""

    judged: Watched
    values: Tensor
    pairs: Tensor | None
    calls_of_pairs: int = 0


@remembered
def called(metric: Metric) -> Judgement:
    """The judgement from direct calls of the metric: its values for all test images, and its values for pairs of an image and a label."""
    j = judged()
    return Judgement(j, metric(j), metric.pairs(j))


@remembered
def measured(metric: Metric) -> Judgement:
    """The judgement of all test images as an evaluation computes it, with the number of calls for pairs."""
    calls = 0

    def counted(self: Metric, judged: Judged) -> Tensor | None:
        nonlocal calls
        calls += 1
        return type(metric).pairs(self, judged)

    twin = dataclasses.replace(metric)
    object.__setattr__(twin, "__class__", type(type(metric).__name__, (type(metric),), {"pairs": counted}))
    j = judged()
    return Judgement(j, *twin.measure(j), calls_of_pairs=calls)


def usual(metric: Metric) -> Tensor:
    """The metric's values for all test images, for comparison."""
    return called(metric).values


def promise_per(per: Per) -> Callable[[Callable[[Any], None]], Callable[[Metric], None]]:
    """A decorator that registers a promise which only metrics with one value per image, or per run, must keep."""

    def register(check: Callable[[Any], None]) -> Callable[[Metric], None]:
        @functools.wraps(check)
        def kept(metric: Metric) -> None:
            if metric.per == per:
                check(metric)

        return check_metric.promise(kept)

    return register


per_image, per_run = promise_per("image"), promise_per("run")


# ---- what it is --------------------------------------------------------------------------------------------------


@check_metric.promise
def it_says_its_kind_direction_and_limits(metric: Metric) -> None:
    kind = metric.kind or metric.name
    assert is_plain_name(kind), f"kind is {kind!r}, expected lower case without spaces or any of : , = ( )"
    better = getattr(metric, "higher_is_better", None)
    assert isinstance(better, bool), f"higher_is_better is {better!r}, expected True or False"
    assert isinstance(metric.intrinsic, bool), f"intrinsic is {metric.intrinsic!r}, expected True or False"
    assert metric.reads in get_args(Reads), (
        f"reads is {metric.reads!r}, expected one of {', '.join(get_args(Reads))}"
    )
    assert metric.per in get_args(Per), f"per is {metric.per!r}, expected one of {', '.join(get_args(Per))}"
    run = isinstance(metric, RunMetric)
    assert run == (metric.per == "run"), (
        f"per is {metric.per!r}, but it is {'' if run else 'not '}a RunMetric"
    )
    low, high = metric.limits
    assert low < high, f"limits are {metric.limits}, expected the least and the greatest value"


@check_metric.promise
def its_record_is_plain_data_and_the_same_each_time(metric: Metric) -> None:
    f = shared_classifier(PICTURES)
    record = metric.full_record(Session(f))
    assert json.loads(json.dumps(record)) == record, f"the record changes when JSON carries it: {record}"
    again = dataclasses.replace(metric).full_record(Session(f))
    assert again == record, f"two records differ: {record} and {again}"


# ---- values per image --------------------------------------------------------------------------------------------


@per_image
def values_are_one_float_per_image_inside_the_limits_or_nan(metric: Metric) -> None:
    found = usual(metric)
    assert found.shape == (N,), f"values are {tuple(found.shape)}, expected {(N,)}"
    assert found.is_floating_point(), f"values are {found.dtype}, expected floats"
    assert not found.requires_grad, "values still require a gradient; detach them"
    _assert_inside(found, metric, "value")
    assert not bool(found.isnan().all()), "none of the images counts: all values are NaN"


@per_image
def pairs_are_one_value_per_label_or_none(metric: Metric) -> None:
    found = called(metric).pairs
    if found is not None:
        expected = tuple(LABELS.shape)
        assert found.shape == expected, f"pairs are {tuple(found.shape)}, expected {expected}"
        assert found.is_floating_point(), f"pairs are {found.dtype}, expected floats"
        assert bool((found.isfinite() | found.isnan()).all()), "a value of a pair is infinite"


@per_image
def pairs_are_computed_once(metric: Metric) -> None:
    calls = measured(metric).calls_of_pairs
    assert calls == 1, (
        f"pairs() ran {calls} times for one block; define from_pairs(judged, pairs) in place of values(judged)"
    )


@per_image
def the_same_maps_get_the_same_values(metric: Metric) -> None:
    once, again = usual(metric), measured(metric).values
    assert torch.equal(once.nan_to_num(), again.nan_to_num()), "the same maps get two different values"


@per_image
def the_batch_size_changes_nothing(metric: Metric) -> None:
    found = metric(judged(shared_classifier(PICTURES, batch_size=5), maps=usual_maps(PICTURES)))
    assert_close(found, usual(metric), "values", "with batches of 5")


@per_image
def the_order_of_images_changes_nothing(metric: Metric) -> None:
    turned = [2, 0, 3, 1]
    assert_close(metric(judged(order=turned)), usual(metric)[turned], "values", "with the order")


@per_image
def an_image_alone_gets_the_value_it_gets_among_others(metric: Metric) -> None:
    together = usual(metric)
    for i in (0, 2):
        assert_close(metric(judged(order=[i])), together[i : i + 1], "values", "when an image is alone")


@per_image
def places_without_a_label_do_not_count(metric: Metric) -> None:
    padded = LABELS.clone()
    padded[:, 2] = -1
    long, short = judged(labels=padded), judged(labels=LABELS[:, :2])
    assert_close(metric(long), metric(short), "values", "where the label -1 is added")
    found, expected = metric.pairs(long), metric.pairs(short)
    if found is not None and expected is not None:
        assert bool(found[:, 2].isnan().all()), "the pair of the label -1 has a value, expected NaN"
        assert_close(found[:, :2], expected, "pairs", "where the label -1 is added")


@per_image
def series_and_rows_are_judged_or_refused(metric: Metric) -> None:
    """A metric, or a game it plays, may refuse a kind of input with an InputError."""
    for inputs in (SERIES, ROWS):
        together, alone = judged(inputs=inputs), judged(inputs=inputs, order=[1])
        with may_be_refused(inputs):
            found = metric(together)
            assert found.shape == (N,), f"values of {inputs.noun} are {tuple(found.shape)}, expected {(N,)}"
            _assert_inside(found, metric, f"value of {inputs.noun}")
            assert_close(metric(alone), found[1:2], f"values of {inputs.noun}", "when one is alone")


# ---- what it costs, and leaves alone -----------------------------------------------------------------------------


@per_image
def its_games_are_those_it_plays(metric: Metric) -> None:
    j = measured(metric).judged
    named = set(metric.games())
    missing, idle = set(j.asked) - named, named - set(j.asked)
    assert not missing, f"it plays a game that games() does not name: {_names(missing)}"
    assert not idle, f"games() names a game that it does not play: {_names(idle)}"


@per_image
def its_games_and_cost_cover_the_passes_that_the_net_sees(metric: Metric) -> None:
    """Nothing is checked if the cost is unknown."""
    method = LearnedMask(steps=8, scale=2, fill=Gray())
    labels = LABELS.shape[1] if metric.reads == "all" else 1
    beyond = metric.cost(labels, method.cost(LABELS.shape[1]))
    if beyond is None:
        return
    f, tally = counted_classifier(size=PICTURES.size)
    j = judged(f, method=method, maps=usual_maps(PICTURES, method))
    f.frozen()
    tally.reset()
    metric.measure(j)
    games = set(metric.games())
    steps = sum(game.passes(PICTURES.count) * labels + 1 + game.backgrounds for game in games)
    expected = steps + beyond.passes + LOOKS
    assert tally.images <= N * expected, (
        f"the net saw {tally.images / N:g} inputs per image, but games() and cost() give {expected}"
    )


@per_image
def what_is_judged_stays_as_it_is(metric: Metric) -> None:
    j, before = called(metric).judged, judged()
    for name in ("images", "labels", "maps", "truth"):
        assert torch.equal(getattr(j, name), getattr(before, name)), f"judged.{name} was changed"
    assert j.boxes == before.boxes, "judged.boxes was changed"
    assert j.objects == before.objects, "judged.objects was changed"


@per_image
def the_net_is_afterwards_what_it_was(metric: Metric) -> None:
    assert_net_stays_as_it_is(lambda classifier: metric(judged(classifier, maps=usual_maps(PICTURES))))


@per_image
def the_global_random_state_is_not_touched(metric: Metric) -> None:
    found = with_another_seed(lambda: metric(judged()))
    assert_global_randomness_is_not_used(found, usual(metric), "values")


# ---- values per run ----------------------------------------------------------------------------------------------

SCORES = {"completeness": True, "soundness": True, "best-effort": True, "insertion": True, "deletion": False}
IMAGES = 7


def run_values(methods: Sequence[int] = (0, 1, 2, 3), images: int = IMAGES) -> RunValues:
    """Random scores of some methods on some images, for metrics of whole runs. Some scores are NaN: these images do not count."""
    found: dict[str, dict[str, Tensor]] = {}
    for k in methods:
        table = normal(len(SCORES), IMAGES, seed=k).sigmoid() / 2 + 0.1 * k
        table[2, k] = torch.nan
        found[f"method {k}"] = {name: table[i, :images].clone() for i, name in enumerate(SCORES)}
    return RunValues(found, dict(SCORES))


def numbers(found: Sequence[RunValue]) -> dict[str, tuple[Any, int]]:
    """Value and number of images by subject (what the value is about, such as a method or a pair of methods). NaN is replaced by None, so that
    values can be compared."""
    return {v.subject: (None if math.isnan(v.value) else v.value, v.n) for v in found}


@per_run
def a_run_gets_numbers_inside_the_limits_or_nan(metric: RunMetric) -> None:
    _assert_numbers(metric.over_run(run_values()), metric, IMAGES)
    assert any(not math.isnan(v.value) for v in metric.over_run(run_values())), "all numbers are NaN"


@per_run
def a_run_of_one_method_or_one_image_gets_numbers_or_nan(metric: RunMetric) -> None:
    _assert_numbers(metric.over_run(run_values(methods=[1])), metric, IMAGES)
    _assert_numbers(metric.over_run(run_values(images=1)), metric, 1)


@per_run
def the_order_of_methods_changes_no_number(metric: RunMetric) -> None:
    """Only numbers with the same subject are compared, because a subject may be an ordered pair of methods."""
    one, other = (numbers(metric.over_run(run_values(order))) for order in ([0, 1, 2, 3], [3, 1, 0, 2]))
    for subject in one.keys() & other.keys():
        (a, n), (b, m) = one[subject], other[subject]
        same = n == m and (
            a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12))
        )
        assert same, f"the number of {subject} changes with the order of methods: {a} and {b}"


@per_run
def a_run_gets_the_same_numbers_and_stays_as_it_is(metric: RunMetric) -> None:
    run, before = run_values(), run_values()
    with torch.random.fork_rng(devices=[]):
        state = torch.manual_seed(1).get_state()
        once = numbers(metric.over_run(run))
        assert torch.equal(torch.get_rng_state(), state), "torch's global generator was used or seeded"
    assert numbers(metric.over_run(run)) == once, "the same run gets two different numbers"
    for method, scores in before.values.items():
        for name, expected in scores.items():
            same = torch.equal(run.values[method][name].nan_to_num(), expected.nan_to_num())
            assert same, f"the values of {name} were changed"


def _assert_numbers(found: Sequence[RunValue], metric: RunMetric, images: int) -> None:
    low, high = metric.limits
    for v in found:
        assert isinstance(v, RunValue), f"{v!r} is not a RunValue"
        assert isinstance(v.value, float), f"the number of {v.subject} is {v.value!r}, expected a float"
        inside = math.isnan(v.value) or (math.isfinite(v.value) and low - 1e-6 <= v.value <= high + 1e-6)
        assert inside, f"the number of {v.subject} is {v.value}, expected {low:g} to {high:g} or NaN"
        assert 0 <= v.n <= images, f"the number of {v.subject} is from {v.n} of {images} images"
    assert len(numbers(found)) == len(found), "two numbers have the same subject"


def _assert_inside(found: Tensor, metric: Metric, what: str) -> None:
    low, high = metric.limits
    known = found[~found.isnan()]
    wrong = known[~known.isfinite() | (known < low - 1e-5) | (known > high + 1e-5)].tolist()
    assert not wrong, f"a {what} is {wrong[0]:g}, expected {low:g} to {high:g} or NaN"


def _names(games: set[Game]) -> str:
    return ", ".join(sorted(game.title() for game in games))
