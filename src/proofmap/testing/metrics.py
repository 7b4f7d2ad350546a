"""The contract of metrics: a metric's description is true, and the value of an image does not depend on other images.

Some promises are about metrics with a value per image, others about metrics with values for whole runs. A promise about one kind of metric is
not checked for the other kind.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.inputs import Inputs
from proofmap.fills import Gray
from proofmap.methods import LearnedMask, Method
from proofmap.methods.gradients.plain import GradientInput
from proofmap.metrics import Curves, Game, Judged, Metric, RunMetric, RunValues
from proofmap.session import Session
from proofmap.testing.nets import PICTURES, ROWS, SERIES, counted_classifier, normal, values
from proofmap.testing.plugins import (
    assert_close,
    assert_leaves_alone,
    assert_records,
    is_plain_name,
    may_be_refused,
    plugin_contract,
    shared_classifier,
)

check_metric = plugin_contract(Metric)
"""Checks a metric: raises one AssertionError that names every broken promise."""

_LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3], [3, 1, 2]])
_N, _TRUTH = len(_LABELS), torch.tensor([2, 3, 0, -1])
_BOXES = (((1, 1, 5, 4),), (), ((0, 0, 10, 8), (2, 3, 4, 6)), ((3, 2, 9, 8),))
_OBJECTS: Sequence[dict[int, Any]] = (
    {2: ((1, 1, 5, 4),), 0: ((6, 0, 10, 8),)},
    {},
    {0: ((0, 0, 4, 4),), 3: ((5, 4, 10, 8),), 2: ((1, 5, 4, 8),)},
    {3: ((3, 2, 9, 8),), 1: ((0, 0, 3, 2),)},
)
_USUAL_METHOD = GradientInput()
_LOOKS = 3
"""Passes per image that a metric need not announce: those for the probabilities f of the image, and for the checks of a net that the metric
makes."""


@dataclass
class _Watched(Judged):
    """Judged maps that record which games a metric plays. A game reveals or hides positions step by step in a map's order."""

    asked: list[Game] = field(default_factory=list)

    def play(self, game: Game, *, matrix: bool | None = None) -> Curves:
        self.asked.append(game)
        return super().play(game, matrix=matrix)


@functools.cache
def _usual_maps(inputs: Inputs, method: Method = _USUAL_METHOD) -> Tensor:
    """A method's maps for the test inputs. They are cached, because most promises about metrics need the same maps."""
    return method(shared_classifier(inputs), values(inputs, _N), _LABELS)


def _judged(
    f: Classifier, rows: Sequence[int] = range(_N), labels: Tensor = _LABELS, method: Method = _USUAL_METHOD
) -> _Watched:
    """A method's maps for some of the test images, with everything that a metric may need: images, labels, truth and boxes."""
    some, boxed = list(rows), f.inputs == PICTURES
    return _Watched(
        Session(f, role="learn"),
        values(f.inputs, _N)[some],
        labels[some].clone(),
        _usual_maps(f.inputs, method)[some, : labels.shape[1]].clone(),
        method=method,
        truth=_TRUTH[some],
        boxes=[_BOXES[i] for i in some] if boxed else (),
        objects=[_OBJECTS[i] for i in some] if boxed else (),
    )


@functools.lru_cache(maxsize=1)
def _usual(metric: Metric) -> tuple[Tensor, Tensor | None]:
    """The metric's values for all test images, and its values for pairs of an image and a label, for comparison."""
    return metric.measure(_judged(shared_classifier(PICTURES)))


def _only(kind: type[Metric], but: type[Metric] | None = None) -> Callable[[Callable[[Any], None]], Any]:
    """A decorator that adds a promise which only metrics of this kind must keep, ``but`` those of another."""

    def register(check: Callable[[Any], None]) -> Any:
        @functools.wraps(check)
        def kept(metric: Metric) -> None:
            if isinstance(metric, kind) and not (but and isinstance(metric, but)):
                check(metric)

        return check_metric.promise(kept)

    return register


_per_image, _per_run = _only(Metric, RunMetric), _only(RunMetric)


@check_metric.promise
def it_says_its_kind_direction_and_limits(metric: Metric) -> None:
    assert is_plain_name(metric.measures), (
        f"kind is {metric.kind!r}, expected lower case without spaces or : , = ( )"
    )
    better, (low, high) = getattr(metric, "higher_is_better", None), metric.limits
    assert isinstance(better, bool), f"higher_is_better is {better!r}, expected True or False"
    assert low < high, f"limits are {metric.limits}, expected the least and the greatest value"
    assert metric.reads in ("all", "first"), f"reads is {metric.reads!r}, expected all or first"


@check_metric.promise
def its_record_is_plain_data_and_the_same_each_time(metric: Metric) -> None:
    session = Session(shared_classifier(PICTURES))
    assert_records(metric.full_record(session), replace(metric).full_record(session))


@_per_image
def it_gives_an_image_one_value_or_nan(metric: Metric) -> None:
    """Shapes and limits are checked by ``measure``."""
    found, _ = _usual(metric)
    assert found.is_floating_point(), f"values are {found.dtype}, expected floats"
    assert not bool(found.isnan().all()), "none of the images counts: all values are NaN"


@_per_image
def a_value_depends_on_its_image_and_maps_alone(metric: Metric) -> None:
    """It does not depend on the size of batches, or on the other images and their order; and the label -1 is a place without one."""
    f, usual = shared_classifier(PICTURES), _usual(metric)[0]
    again = metric(_judged(f))
    assert torch.equal(again.nan_to_num(), usual.nan_to_num()), "the same maps get two different values"
    for batch_size, rows, when in (
        (64, [2, 0, 3, 1], "with the order"),
        (64, [0], "when an image is alone"),
        (5, [0, 1, 2, 3], "with batches of 5"),
    ):
        found = metric(_judged(shared_classifier(PICTURES, batch_size=batch_size), rows))
        assert_close(found, usual[rows], "values", when)
    padded = _LABELS.clone()
    padded[:, 2] = -1
    long, short = (metric.measure(_judged(f, labels=labels)) for labels in (padded, _LABELS[:, :2]))
    assert_close(long[0], short[0], "values", "where the label -1 is added")
    if long[1] is not None and short[1] is not None:
        assert bool(long[1][:, 2].isnan().all()), "the pair of the label -1 has a value, expected NaN"
        assert_close(long[1][:, :2], short[1], "pairs", "where the label -1 is added")


@_per_image
def series_and_rows_are_judged_or_refused(metric: Metric) -> None:
    """A metric, or a game it plays, may refuse a kind of input with an InputError."""
    for inputs in (SERIES, ROWS):
        f = shared_classifier(inputs)
        with may_be_refused(inputs.noun):
            found = metric(_judged(f))
            assert_close(metric(_judged(f, [1])), found[1:2], "values", "when one is alone")


@_per_image
def its_games_and_cost_cover_the_passes_that_the_net_sees(metric: Metric) -> None:
    """``games()`` are those that it plays. The passes are not checked if the cost is unknown."""
    method, named = LearnedMask(steps=8, scale=2, fill=Gray()), set(metric.games())
    f, tally = counted_classifier(size=PICTURES.size)
    judged = _judged(f, method=method)
    f.frozen()
    tally.reset()
    metric.measure(judged)
    played = set(judged.asked)
    assert played == named, f"games() names {_names(named)}, and it plays {_names(played)}"
    labels = _LABELS.shape[1] if metric.reads == "all" else 1
    beyond = metric.cost(labels, method.cost(_LABELS.shape[1]))
    if beyond is not None:
        steps = sum(game.passes(PICTURES.count) * labels + 1 + game.backgrounds for game in named)
        expected = steps + beyond.passes + _LOOKS
        assert tally.images <= _N * expected, (
            f"the net saw {tally.images / _N:g} inputs per image, but games() and cost() give {expected}"
        )


def _names(games: set[Game]) -> str:
    return ", ".join(sorted(game.title() for game in games)) or "no game"


@_per_image
def it_leaves_the_net_and_the_random_state_alone(metric: Metric) -> None:
    assert_leaves_alone(lambda f: metric(_judged(f)), "values")


# ---- values per run ----------------------------------------------------------------------------------------------

_SCORES = {"completeness": True, "soundness": True, "best-effort": True, "insertion": True, "deletion": False}
_IMAGES = 7


def _run_values(methods: Sequence[int] = (0, 1, 2, 3), images: int = _IMAGES) -> RunValues:
    """Random scores of some methods on some images, for metrics of whole runs. Some scores are NaN: these images do not count."""
    found: dict[str, dict[str, Tensor]] = {}
    for k in methods:
        table = normal(len(_SCORES), _IMAGES, seed=k).sigmoid() / 2 + 0.1 * k
        table[2, k] = torch.nan
        found[f"method {k}"] = {name: table[i, :images].clone() for i, name in enumerate(_SCORES)}
    return RunValues(found, dict(_SCORES))


def _numbers(metric: RunMetric, run: RunValues) -> dict[str, float]:
    """The metric's numbers by subject (what the number is about, such as a method or a pair of methods); NaN as -1000."""
    found = metric.measure_run(run)
    (low, high), images = metric.limits, len(next(iter(run.values["method 1"].values())))
    for v in found:
        inside = math.isnan(v.value) or (math.isfinite(v.value) and low - 1e-6 <= v.value <= high + 1e-6)
        assert inside, f"the number of {v.subject} is {v.value}, expected {low:g} to {high:g} or NaN"
        assert 0 <= v.n <= images, f"the number of {v.subject} is from {v.n} of {images} images"
    numbers = {v.subject: -1000.0 if math.isnan(v.value) else v.value for v in found}
    assert len(numbers) == len(found), "two numbers have the same subject"
    return numbers


@_per_run
def a_run_gets_numbers_inside_the_limits_or_nan(metric: RunMetric) -> None:
    """Also a run of one method or of one image."""
    numbers = _numbers(metric, _run_values())
    assert any(number != -1000 for number in numbers.values()), "all numbers are NaN"
    _numbers(metric, _run_values(methods=[1]))
    _numbers(metric, _run_values(images=1))


@_per_run
def numbers_of_a_run_depend_on_its_values_alone(metric: RunMetric) -> None:
    """Of two orders of methods, only numbers with the same subject are compared: a subject may be an ordered pair of methods."""
    run, before = _run_values(), _run_values()
    once, other = _numbers(metric, run), _numbers(metric, _run_values([3, 1, 0, 2]))
    assert _numbers(metric, run) == once, "the same run gets two different numbers"
    for subject in once.keys() & other.keys():
        same = math.isclose(once[subject], other[subject], rel_tol=1e-6, abs_tol=1e-12)
        assert same, f"the number of {subject} changes with the order of methods"
    for method, scores in before.values.items():
        for name, expected in scores.items():
            same = torch.equal(run.values[method][name].nan_to_num(), expected.nan_to_num())
            assert same, f"the values of {name} were changed"
