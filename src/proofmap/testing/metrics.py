"""The contracts of metrics and of games.

A metric's description is true, and the value of an image does not depend on other images. A game reveals or hides positions step by step in
a map's order, and keeps the promises of the metric that returns the areas of its curves. Some promises are about metrics with a value per image,
one is about metrics of whole runs; a promise about one kind of metric is not checked for the other kind.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.inputs import Inputs
from proofmap.fills import Gray
from proofmap.methods import LearnedMask, Method
from proofmap.methods.gradients.plain import GradientInput
from proofmap.metrics import Curves, Game, Judged, Metric, RunMetric, RunValues
from proofmap.plugins.settings import required
from proofmap.session import Session
from proofmap.testing.plugins import (
    PICTURES,
    TRIED,
    Contract,
    assert_alone,
    assert_apart,
    assert_close,
    assert_leaves_alone,
    assert_records,
    may_be_refused,
    net_for,
    normal,
    shared_classifier,
    values,
)

check_metric = Contract.of(Metric)
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
    """Judged maps that record which games a metric plays."""

    asked: list[Game] = field(default_factory=list)

    def play(self, game: Game, *, matrix: bool | None = None) -> Curves:
        self.asked.append(game)
        return super().play(game, matrix=matrix)


@functools.cache
def _usual_maps(inputs: Inputs, method: Method = _USUAL_METHOD) -> Tensor:
    """A method's maps for the test inputs. They are cached, because most promises about metrics need the same maps."""
    return method(shared_classifier(inputs), values(inputs, _N), _LABELS)


def _judged(
    f: Classifier,
    rows: Sequence[int] = range(_N),
    labels: Tensor = _LABELS,
    method: Method = _USUAL_METHOD,
    session: Session | None = None,
) -> _Watched:
    """A method's maps for some of the test images, with everything that a metric may need: images, labels, truth and boxes."""
    some, boxed = list(rows), f.inputs == PICTURES
    return _Watched(
        session or Session(f, role="learn"),
        values(f.inputs, _N)[some],
        labels[some].clone(),
        _usual_maps(f.inputs, method)[some, : labels.shape[1]].clone(),
        method=method,
        truth=_TRUTH[some],
        boxes=[_BOXES[i] for i in some] if boxed else (),
        objects=[_OBJECTS[i] for i in some] if boxed else (),
    )


@check_metric.promise
def it_says_its_direction_and_limits(metric: Metric) -> None:
    better, (low, high) = getattr(metric, "higher_is_better", None), metric.limits
    assert isinstance(better, bool), f"higher_is_better is {better!r}, expected True or False"
    assert low < high, f"limits are {metric.limits}, expected the least and the greatest value"
    assert metric.reads in ("all", "first"), f"reads is {metric.reads!r}, expected all or first"


@check_metric.promise
def its_record_is_plain_data_and_the_same_each_time(metric: Metric) -> None:
    session = Session(shared_classifier(PICTURES))
    assert_records(metric.full_record(session), replace(metric).full_record(session))


@check_metric.promise
def a_value_depends_on_its_image_and_maps_alone(metric: Metric) -> None:
    """It does not depend on the size of batches, or on the other images and their order; the label -1 is a place without one; and some image
    counts. Shapes and limits are checked by ``measure``."""
    if isinstance(metric, RunMetric):
        return

    def run(batch_size: int, rows: list[int]) -> Tensor:
        return metric.measure(_judged(shared_classifier(PICTURES, batch_size=batch_size), rows))[0]

    found = assert_alone(run, _N, "values")
    assert found.is_floating_point(), f"values are {found.dtype}, expected floats"
    assert not bool(found.isnan().all()), "none of the images counts: all values are NaN"
    padded, f = _LABELS.clone(), shared_classifier(PICTURES)
    padded[:, 2] = -1
    long, short = (metric.measure(_judged(f, labels=labels)) for labels in (padded, _LABELS[:, :2]))
    assert_close(long[0], short[0], "values", "where the label -1 is added")
    if long[1] is not None and short[1] is not None:
        assert bool(long[1][:, 2].isnan().all()), "the pair of the label -1 has a value, expected NaN"
        assert_close(long[1][:, :2], short[1], "pairs", "where the label -1 is added")


@check_metric.promise
def a_session_keeps_two_settings_apart(metric: Metric) -> None:
    f = shared_classifier(PICTURES)

    def measured(one: Metric, session: Session) -> Tensor:
        return one.measure(_judged(f, session=session))[0]

    if not isinstance(metric, RunMetric):
        assert_apart(metric, lambda: Session(f, role="learn"), measured, "values")


@check_metric.promise
def series_and_rows_are_judged_or_refused(metric: Metric) -> None:
    """A metric, or a game it plays, may refuse a kind of input with an InputError."""
    for inputs in () if isinstance(metric, RunMetric) else TRIED[1:3]:
        with may_be_refused(inputs.noun):
            Session(shared_classifier(inputs)).judging().prepare(metric)
            found = metric(_judged(shared_classifier(inputs)))
            assert found.shape == (_N,), f"got {tuple(found.shape)} values for {_N} {inputs.noun}"


@check_metric.promise
def its_games_and_cost_cover_the_passes_that_the_net_sees(metric: Metric) -> None:
    """``games()`` are those that it plays. The passes are not checked if the cost is unknown."""
    if isinstance(metric, RunMetric):
        return
    method, named = LearnedMask(steps=8, scale=2, fill=Gray()), set(metric.games())
    seen: list[int] = []
    counter = nn.Identity()
    counter.forward = lambda x: seen.append(len(x)) or x  # type: ignore[assignment, func-returns-value, method-assign]
    f = Classifier(nn.Sequential(counter, net_for(PICTURES)), inputs=PICTURES, batch_size=64)
    f.frozen()
    seen.clear()
    judged = _judged(f, method=method)
    metric.measure(judged)
    played = set(judged.asked)
    assert played == named, f"games() names {_names(named)}, and it plays {_names(played)}"
    labels = _LABELS.shape[1] if metric.reads == "all" else 1
    beyond = metric.cost(labels, method.cost(_LABELS.shape[1]))
    if beyond is not None:
        steps = sum(game.passes(PICTURES.count) * labels + 1 + game.backgrounds for game in named)
        expected = steps + beyond.passes + _LOOKS
        assert sum(seen) <= _N * expected, (
            f"the net saw {sum(seen) / _N:g} inputs per image, but games() and cost() give {expected}"
        )


def _names(games: set[Game]) -> str:
    return ", ".join(sorted(game.title() for game in games)) or "no game"


@check_metric.promise
def it_leaves_the_net_and_the_random_state_alone(metric: Metric) -> None:
    if not isinstance(metric, RunMetric):
        _usual_maps(PICTURES)  # made before, as their net is drawn by torch's generator
        assert_leaves_alone(lambda f: metric(_judged(f)), "values")


_SCORES = {"completeness": True, "soundness": True, "best-effort": True, "insertion": True, "deletion": False}


def _run_values(methods: Sequence[int] = (0, 1, 2, 3), images: int = 7) -> RunValues:
    """Random scores of some methods on some images, for metrics of whole runs. Some scores are NaN: these images do not count."""
    found: dict[str, dict[str, Tensor]] = {}
    for k in methods:
        table = normal(len(_SCORES), 7, seed=k).sigmoid() / 2 + 0.1 * k
        table[2, k] = torch.nan
        found[f"method {k}"] = {name: table[i, :images].clone() for i, name in enumerate(_SCORES)}
    return RunValues(found, dict(_SCORES))


def _numbers(metric: RunMetric, run: RunValues) -> dict[str, float]:
    """The metric's numbers by subject (what the number is about, such as a method or a pair of methods); NaN as -1000."""
    (low, high), numbers = metric.limits, dict[str, float]()
    for subject, (value, _) in metric.measure_run(run).items():
        inside = math.isnan(value) or (math.isfinite(value) and low - 1e-6 <= value <= high + 1e-6)
        assert inside, f"the number of {subject} is {value}, expected {low:g} to {high:g} or NaN"
        numbers[subject] = -1000.0 if math.isnan(value) else value
    return numbers


@check_metric.promise
def numbers_of_a_run_lie_inside_the_limits_and_depend_on_its_values_alone(metric: Metric) -> None:
    """Also of a run of one method or of one image. Of two orders of methods, only numbers with the same subject are compared."""
    if not isinstance(metric, RunMetric):
        return
    run = _run_values()
    once, other = _numbers(metric, run), _numbers(metric, _run_values([3, 1, 0, 2]))
    assert any(number != -1000 for number in once.values()), "all numbers are NaN"
    assert _numbers(metric, run) == once, "the same run gets two different numbers"
    for subject in once.keys() & other.keys():
        same = math.isclose(once[subject], other[subject], rel_tol=1e-6, abs_tol=1e-12)
        assert same, f"the number of {subject} changes with the order of methods"
    _numbers(metric, _run_values(methods=[1]))
    _numbers(metric, _run_values(images=1))


_PLAYED = (
    a_value_depends_on_its_image_and_maps_alone,
    series_and_rows_are_judged_or_refused,
    its_games_and_cost_cover_the_passes_that_the_net_sees,
    it_leaves_the_net_and_the_random_state_alone,
)
"""Promises of metrics that games keep too."""


# ---- games --------------------------------------------------------------------------------------------------------

check_game = Contract.of(Game)
"""Checks a game: raises one AssertionError that names every broken promise."""


class _Areas(Metric):
    """The areas of a game's curves."""

    name = "areas"
    description = "areas of the curves of a game"
    higher_is_better = True
    game: Game = required("a game")

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def pairs(self, judged: Judged) -> Tensor:
        curves = judged.play(self.game)
        weights = self.game.quadrature.nodes(judged.inputs.count).weights
        found = (curves.probabilities.double() * weights).sum(dim=2).float()
        assert_close(curves.auc, found, "areas", "where the weighted values of the curve are summed")
        return found


@check_game.promise
def its_record_is_plain_data_that_names_it(game: Game) -> None:
    session = Session(shared_classifier(PICTURES))
    record = game.record(session)
    assert_records(record, replace(game).record(session))
    assert record.get("game") == game.name, f"the record is {record}, expected 'game': {game.name!r} in it"


for _check in _PLAYED:
    check_game.promise(functools.wraps(_check)(lambda game, check=_check: check(_Areas(game=game))))
