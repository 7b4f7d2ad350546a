"""For each promise of games, one that breaks it and what the message says."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.metrics import Game, InsertionGame
from proofmap.session import Session
from tests.contract.broken_fills import eating


def game(kind: type[Game] = InsertionGame, /, **changes: Any) -> Game:
    """A game with other attributes, of few steps."""
    return type("Changed", (kind,), changes)(points=4)


def reading(read: Callable[[Classifier, Tensor], Tensor]) -> Game:
    """A game that reads something else off the net."""
    return game(read=lambda self, classifier, logits: read(classifier, logits))


def of_its_own() -> Game:
    """Equal to nothing else."""
    return game(__eq__=lambda a, b: a is b, __hash__=lambda a: 0)


def forgetful() -> Game:
    """Equal to the same game with other steps."""

    def equal(one: Game, other: Game) -> bool:
        return InsertionGame.__eq__(one, dataclasses.replace(other, points=one.points))

    return game(__eq__=equal, __hash__=lambda a: 0)


def nameless() -> Game:
    def record(self: Game, session: Session) -> dict[str, object]:
        return {k: v for k, v in InsertionGame.record(self, session).items() if k != "game"}

    return game(record=record)


def counting_records() -> Game:
    """The record says how often it was asked for."""
    times = itertools.count()

    def record(self: Game, session: Session) -> dict[str, object]:
        return {**InsertionGame.record(self, session), "time": next(times)}

    return game(record=record)


def with_own_settings() -> Game:
    class Positional(InsertionGame):
        power: float = 2.0

    return dataclasses.dataclass(frozen=True)(Positional)()


def among_others(classifier: Classifier, logits: Tensor) -> Tensor:
    return logits - logits.mean(dim=0, keepdim=True)


def restless() -> Callable[[Classifier, Tensor], Tensor]:
    times = iter(range(100_000))
    return lambda classifier, logits: logits + next(times)


def seeding(classifier: Classifier, logits: Tensor) -> Tensor:
    torch.manual_seed(0)
    return logits


def weighted(classifier: Classifier, logits: Tensor) -> Tensor:
    """By its place in the batch."""
    return logits * torch.linspace(0.5, 1, len(logits))[:, None]


def changing_weights() -> Game:
    """Its steps stay, but their weights are others when they are checked."""
    usual, other = (InsertionGame(points=4, rule=rule).quadrature for rule in ("mean", "trapezoid"))
    rules = itertools.cycle([usual, other, other, usual])  # made, played twice, checked
    return game(quadrature=property(lambda self: next(rules)))


GAMES: dict[str, tuple[Game, str]] = {
    "its_settings_are_frozen_keyword_only_and_recorded": (with_own_settings(), "not keyword-only: power"),
    "it_compares_by_its_settings_and_can_be_a_key": (
        of_its_own(),
        "with the same settings is not equal",
    ),
    "it_has_a_name_and_a_description": (game(name="My Game"), "'My Game' must be lower case"),
    "its_record_is_plain_data_that_names_it_and_the_same_each_time": (
        nameless(),
        "expected 'game': 'insertion' in it",
    ),
    "other_settings_make_another_game": (forgetful(), "another points makes an equal game"),
    "its_order_is_one_rank_per_position": (
        game(order=lambda self, maps, keys: maps.flatten(1)),
        "ranks are torch.float32, expected whole numbers",
    ),
    "what_is_shown_is_boolean_and_depends_on_ranks_and_count_alone": (
        game(shown=lambda self, ranks, count: ranks < count.max()),
        "what is shown of a map depends on the other maps",
    ),
    "curves_have_a_finite_value_for_each_step": (
        reading(lambda classifier, logits: logits / 0),
        "InputError: the net returned NaN on a masked image",
    ),
    "the_area_is_the_weighted_sum_of_the_curve": (
        changing_weights(),
        "areas differ from the weighted sum of the values",
    ),
    "one_map_for_all_labels_is_read_for_each_as_if_alone": (
        reading(restless()),
        "areas change when a map is shared by several labels",
    ),
    "the_same_maps_give_the_same_curves": (reading(restless()), "give two different curves"),
    "places_without_a_label_are_nan_and_disturb_no_other": (
        reading(among_others),
        "areas change where another place has the label -1",
    ),
    "the_batch_size_changes_nothing": (reading(among_others), "curves change with batches of 5"),
    "the_order_of_images_changes_nothing": (reading(weighted), "curves change with the order"),
    "an_image_alone_gets_the_curve_it_gets_among_others": (
        reading(among_others),
        "curves change when an image is alone",
    ),
    "series_and_rows_are_played_or_refused": (
        game(order=lambda self, maps, keys: maps.flatten(2).argsort(dim=2).flatten(1)),
        "series end in IndexError: .*; raise an InputError instead",
    ),
    "its_passes_are_those_that_the_net_sees": (
        game(passes=lambda self, positions: 2),
        r"passes\(\) says 24 with the ends, but the net saw 33 images",
    ),
    "equal_games_are_played_once": (of_its_own(), "an equal game is played a second time"),
    "images_maps_and_labels_stay_as_they_are": (
        InsertionGame(points=4, fill=eating()),
        "the images were changed",
    ),
    "the_global_random_state_is_not_touched": (
        reading(seeding),
        "torch's global generator was used or seeded",
    ),
}
