"""For each promise of games, one that breaks it and what the message says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.metrics import Game
from proofmap.metrics.games import InsertionGame
from proofmap.session import Session


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


def restless() -> Callable[[Classifier, Tensor], Tensor]:
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
    ("a_value_depends_on_its_image_and_maps_alone", reading(restless()), "values differ when made again"),
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
