"""Metrics and games that break a promise: the promise, the plug-in, and what its check says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.metrics import Game, Insertion, Judged, Metric, RunValues
from proofmap.metrics.games import InsertionGame
from proofmap.metrics.reliability import RankingAgreement
from proofmap.session import Session


class Mean(Metric):
    """The mean of the first label's map."""

    name: ClassVar[str] = "mean"
    description: ClassVar[str] = "mean of the first label's map"
    higher_is_better: ClassVar[bool] = True

    def values(self, judged: Judged) -> Tensor:
        return judged.maps[:, 0].flatten(1).mean(dim=1)


class Forgetful(Mean):
    """What depends on its setting is kept without its settings in the key."""

    times: float = 1.0

    def values(self, judged: Judged) -> Tensor:
        return super().values(judged) * judged.session.memo(self.name, lambda: self.times)


def metric(kind: type[Metric] = Mean, /, **changes: Any) -> Metric:
    """A metric with other attributes."""
    return type("Changed", (kind,), changes)()


def giving(values: Callable[[Judged], Tensor], **changes: Any) -> Metric:
    """A metric with other values."""
    return metric(values=lambda self, judged: values(judged), **changes)


def careless(what: Callable[[Judged], object]) -> Metric:
    """A metric that does something it must not do, beside its work."""

    def values(judged: Judged) -> Tensor:
        found = Mean()(judged)
        what(judged)
        return found

    return giving(values)


def over_run(numbers: Callable[[RunValues], dict[str, tuple[float, int]]]) -> Metric:
    """A metric of whole runs with other numbers."""
    return metric(RankingAgreement, over_run=lambda self, run: numbers(run))


def restless() -> Metric:
    times = itertools.count()
    return giving(lambda judged: Mean()(judged) + next(times))


def restless_run() -> Metric:
    times = itertools.count()
    return over_run(lambda run: {"all": (next(times) / 100, 1)})


def of_the_first(run: RunValues) -> dict[str, tuple[float, int]]:
    first = next(iter(run.values.values()))["insertion"]
    return {"insertion": (float(first.mean()), len(first))}


def of_two(run: RunValues) -> dict[str, tuple[float, int]]:
    _, second, *_ = run.values.values()
    return {"insertion": (float(second["insertion"].mean()), 1)}


def add_one(judged: Judged) -> None:
    net: Any = judged.session.net.net
    next(net.parameters()).data.add_(1)


METRICS: list[tuple[str, Metric, str]] = [
    (
        "it_is_known_by_its_name_and_its_settings",
        metric(__eq__=lambda a, b: a is b, __hash__=lambda a: 0),
        "with the same settings is not equal",
    ),
    ("it_is_known_by_its_name_and_its_settings", metric(name="mean:map"), "'mean:map' must be lower case"),
    (
        "it_says_its_direction_and_limits",
        metric(higher_is_better="yes"),
        "higher_is_better is 'yes', expected True or False",
    ),
    (
        "its_record_is_plain_data_and_the_same_each_time",
        metric(record=lambda self, session: {"limits": (0, 1)}),
        "the record changes when JSON carries it",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        giving(lambda judged: Mean()(judged).abs() + 2, limits=(0.0, 1.0)),
        "returned 2.*, but its values must lie between its limits 0 and 1",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        metric(pairs=lambda self, judged: judged.maps),
        r"of shape \(4, 3\), one value per label, not of shape \(4, 3, 8, 10\)",
    ),
    ("a_value_depends_on_its_image_and_maps_alone", restless(), "values differ when made again"),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        giving(lambda judged: Mean()(judged) * judged.classifier.batches[0].size),
        "values change with batches of 5",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        giving(lambda judged: Mean()(judged) + torch.arange(len(judged.maps))),
        "values change with the order",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        giving(lambda judged: Mean()(judged) - Mean()(judged).mean()),
        "values change when an image is alone",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        giving(lambda judged: judged.maps.flatten(1).mean(dim=1)),
        "values change where the label -1 is added",
    ),
    (
        "a_session_keeps_two_settings_apart",
        Forgetful(),
        r"write session.memo\(\(self, ...\), ...\)",
    ),
    (
        "series_and_rows_are_judged_or_refused",
        giving(lambda judged: judged.maps.mean(dim=(1, 2, 3))),
        "series: IndexError: .*; raise an InputError instead",
    ),
    (
        "its_games_and_cost_cover_the_passes_that_the_net_sees",
        metric(Insertion, games=lambda self: ()),
        r"games\(\) names no game, and it plays insertion$",
    ),
    (
        "its_games_and_cost_cover_the_passes_that_the_net_sees",
        giving(lambda judged: judged.maps_again(labels=judged.labels[:, :1])[:, 0].flatten(1).mean(dim=1)),
        r"the net saw 8 inputs per image, but games\(\) and cost\(\) give 3",
    ),
    ("it_leaves_the_net_and_the_random_state_alone", careless(add_one), "these weights changed: "),
    (
        "it_leaves_the_net_and_the_random_state_alone",
        careless(lambda judged: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
    (
        "numbers_of_a_run_lie_inside_the_limits_and_depend_on_its_values_alone",
        over_run(lambda run: {"soundness": (1.5, 3)}),
        r"the number of soundness is 1\.5, expected 0 to 1 or NaN",
    ),
    (
        "numbers_of_a_run_lie_inside_the_limits_and_depend_on_its_values_alone",
        over_run(of_two),
        "ValueError: not enough values",
    ),
    (
        "numbers_of_a_run_lie_inside_the_limits_and_depend_on_its_values_alone",
        over_run(of_the_first),
        "the number of insertion changes with the order of methods",
    ),
    (
        "numbers_of_a_run_lie_inside_the_limits_and_depend_on_its_values_alone",
        restless_run(),
        "the same run gets two different numbers",
    ),
]


# ---- games ---------------------------------------------------------------------------------------------------


def game(kind: type[Game] = InsertionGame, /, **changes: Any) -> Game:
    """A game with other attributes, of few steps."""
    return type("Changed", (kind,), changes)(points=4)


def reading(read: Callable[[Classifier, Tensor], Tensor]) -> Game:
    """A game that reads something else off the net."""
    return game(read=lambda self, classifier, logits: read(classifier, logits))


def of_its_own() -> Game:
    """Equal to nothing else."""
    return game(__eq__=lambda a, b: a is b, __hash__=lambda a: 0)


def nameless() -> Game:
    def record(self: Game, session: Session) -> dict[str, object]:
        return {k: v for k, v in InsertionGame.record(self, session).items() if k != "game"}

    return game(record=record)


def among_others(classifier: Classifier, logits: Tensor) -> Tensor:
    return logits - logits.mean(dim=0, keepdim=True)


def restless_game() -> Callable[[Classifier, Tensor], Tensor]:
    times = iter(range(100_000))
    return lambda classifier, logits: logits + next(times)


def seeding(classifier: Classifier, logits: Tensor) -> Tensor:
    torch.manual_seed(0)
    return logits


def weighted(classifier: Classifier, logits: Tensor) -> Tensor:
    """By its place in the batch."""
    return logits * torch.linspace(0.5, 1, len(logits))[:, None]


GAMES: list[tuple[str, Game, str]] = [
    (
        "it_is_known_by_its_name_and_its_settings",
        of_its_own(),
        "with the same settings is not equal",
    ),
    ("it_is_known_by_its_name_and_its_settings", game(name="My Game"), "'My Game' must be lower case"),
    (
        "its_record_is_plain_data_that_names_it",
        nameless(),
        "expected 'game': 'insertion' in it",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        reading(lambda classifier, logits: logits / 0),
        "InputError: the net returned NaN on a masked image",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        reading(restless_game()),
        "values differ when made again",
    ),
    (
        "a_value_depends_on_its_image_and_maps_alone",
        reading(among_others),
        "values change when an image is alone",
    ),
    ("a_value_depends_on_its_image_and_maps_alone", reading(weighted), "values change with the order"),
    (
        "series_and_rows_are_judged_or_refused",
        game(order=lambda self, maps, keys: maps.flatten(2).argsort(dim=2).flatten(1)),
        "series: IndexError: .*; raise an InputError instead",
    ),
    (
        "its_games_and_cost_cover_the_passes_that_the_net_sees",
        game(passes=lambda self, positions: 1),
        r"the net saw 11 inputs per image, but games\(\) and cost\(\) give",
    ),
    (
        "it_leaves_the_net_and_the_random_state_alone",
        reading(seeding),
        "torch's global generator was used or seeded",
    ),
]
