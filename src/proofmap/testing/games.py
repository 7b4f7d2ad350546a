"""The contract of games. A game reveals or hides positions step by step in a map's order; the label's probability at each step is a curve.
Curves must depend only on the net, the image, its map and the seed."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.ranking import rank
from proofmap.metrics import Curves, Game
from proofmap.metrics.playing import play
from proofmap.session import Session
from proofmap.testing.nets import PICTURES, ROWS, SERIES, counted_classifier, normal, values
from proofmap.testing.plugins import (
    assert_close,
    assert_leaves_alone,
    assert_records,
    may_be_refused,
    plugin_contract,
    shared_classifier,
)

check_game = plugin_contract(Game)
"""Checks a game: raises one AssertionError that names every broken promise."""

_LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3]])
_N, _COUNT = len(_LABELS), PICTURES.count


def _maps(inputs: Inputs = PICTURES) -> Tensor:
    """Random maps ``(N, L, *positions)`` for N images and L labels, no two of which are equal."""
    return normal(*_LABELS.shape, *inputs.positions, seed=1)


def _played(game: Game, f: Classifier, labels: Tensor = _LABELS) -> Curves:
    """The curves of a game on the test inputs."""
    return play(Session(f), game, values(f.inputs, _N), _maps(f.inputs), labels)


@functools.lru_cache(maxsize=1)
def _usual(game: Game) -> Curves:
    """The curves of a game on all test pictures, for comparison."""
    return _played(game, shared_classifier(PICTURES))


@check_game.promise
def its_record_is_plain_data_that_names_it(game: Game) -> None:
    session = Session(shared_classifier(PICTURES))
    record = game.record(session)
    assert_records(record, dataclasses.replace(game).record(session))
    assert record.get("game") == game.name, f"the record is {record}, expected 'game': {game.name!r} in it"


@check_game.promise
def its_order_is_one_rank_per_position(game: Game) -> None:
    flat = _maps().flatten(0, 1)
    keys = streams.image_keys(flat, "ties")
    ranks = game.order(flat, keys)
    assert ranks.shape == (len(flat), _COUNT), (
        f"ranks are {tuple(ranks.shape)}, expected {(len(flat), _COUNT)}"
    )
    low, high, most = float(ranks.min()), float(ranks.max()), 1 if game.soft else _COUNT - 1
    assert game.soft or not ranks.is_floating_point(), f"ranks are {ranks.dtype}, expected whole numbers"
    assert low >= 0 and high <= most, f"ranks lie between {low:g} and {high:g}, expected 0 to {most}"
    turned = torch.tensor([4, 2, 0])
    same = torch.equal(game.order(flat[turned], keys[turned]), ranks[turned])
    assert same, "the ranks of a map depend on the other maps"


@check_game.promise
def what_is_shown_depends_on_ranks_and_count_alone(game: Game) -> None:
    """What is shown is boolean; of a soft game, a share of each position."""
    ranks = normal(6, _COUNT, seed=2).sigmoid() if game.soft else rank(normal(6, _COUNT))
    count = torch.tensor([0, 1, _COUNT // 3, _COUNT // 2, _COUNT - 1, _COUNT])[:, None]
    shown, kind = game.shown(ranks, count), "float32" if game.soft else "bool"
    assert shown.shape == ranks.shape, f"shown is {tuple(shown.shape)}, expected {tuple(ranks.shape)}"
    assert shown.dtype == getattr(torch, kind), f"shown is {shown.dtype}, expected torch.{kind}"
    assert bool(((shown >= 0) & (shown <= 1)).all()), "a soft game shows shares between 0 and 1"
    for row in range(6):
        alone = game.shown(ranks[row : row + 1], count[row : row + 1])
        assert torch.equal(alone[0], shown[row]), "what is shown of a map depends on the other maps"


@check_game.promise
def a_curve_has_a_finite_value_for_each_step_and_an_area(game: Game) -> None:
    curves, nodes = _usual(game), game.quadrature.nodes(_COUNT)
    found, expected = curves.probabilities, (*_LABELS.shape, len(nodes.counts))
    assert found.shape == expected, f"the curves are {tuple(found.shape)}, expected {expected}"
    assert bool(found.isfinite().all()), "a value of the curves is not finite"
    areas = (found.double() * nodes.weights).sum(dim=2).float()
    assert_close(curves.auc, areas, "areas", "where the weighted values are summed")


@check_game.promise
def a_curve_depends_on_its_image_and_map_alone(game: Game) -> None:
    f, usual, x, maps = shared_classifier(PICTURES), _usual(game), values(PICTURES, _N), _maps()
    assert torch.equal(_played(game, f).probabilities, usual.probabilities), (
        "the same maps give two different curves"
    )
    for batch_size, rows, when in (
        (64, [2, 0, 1], "with the order"),
        (64, [1], "when an image is alone"),
        (5, [0, 1, 2], "with batches of 5"),
    ):
        session = Session(shared_classifier(PICTURES, batch_size=batch_size))
        found = play(session, game, x[rows], maps[rows], _LABELS[rows])
        assert_close(found.probabilities, usual.probabilities[rows], "values of the curves", when)
        assert_close(found.auc, usual.auc[rows], "areas", when)
    padded = _LABELS.clone()
    padded[1, 1:], padded[2, 1] = -1, -1
    expected = usual.auc.where(padded >= 0, torch.nan)
    assert_close(_played(game, f, padded).auc, expected, "areas", "where another place has the label -1")
    shared = maps[:, :1].expand_as(maps)
    together = play(Session(f), game, x, shared, _LABELS)
    for j in range(_LABELS.shape[1]):
        alone = play(Session(f), game, x, shared[:, j : j + 1], _LABELS[:, j : j + 1])
        assert_close(together.auc[:, j], alone.auc[:, 0], "areas", "when a map is shared by several labels")


@check_game.promise
def series_and_rows_are_played_or_refused(game: Game) -> None:
    """A game, or its fill (what hidden positions show), may refuse a kind of input with an InputError."""
    for inputs in (SERIES, ROWS):
        with may_be_refused(inputs.noun):
            curves = _played(game, shared_classifier(inputs))
            assert bool(curves.auc.isfinite().all()), "an area is not finite"


@check_game.promise
def its_passes_are_those_that_the_net_sees(game: Game) -> None:
    f, tally = counted_classifier(size=PICTURES.size)
    f.frozen()
    game.prepare(Session(f))
    tally.reset()
    _played(game, f)
    ends = _N * (1 + game.backgrounds)  # the whole images, and the fill alone
    expected = _LABELS.numel() * game.passes(_COUNT) + ends
    assert tally.images == expected, (
        f"passes() says {expected} with the ends, but the net saw {tally.images} images"
    )


@check_game.promise
def it_leaves_the_net_and_the_random_state_alone(game: Game) -> None:
    assert_leaves_alone(lambda f: _played(game, f).auc, "areas")
