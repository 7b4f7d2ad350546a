"""The contract of games. A game reveals or hides positions step by step in a map's order; the label's probability at each step is a curve.
Curves must depend only on the net, the image, its map and the seed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.ranking import Ties, rank
from proofmap.fills import Gray, Noise
from proofmap.metrics import Curves, Game, Judged
from proofmap.metrics.playing import play
from proofmap.metrics.quadrature import Rule
from proofmap.session import Session
from proofmap.testing.nets import PICTURES, ROWS, SERIES, counted_classifier, normal, values
from proofmap.testing.plugins import (
    assert_close,
    assert_global_randomness_is_not_used,
    may_be_refused,
    plugin_contract,
    remembered,
    shared_classifier,
    with_another_seed,
)

check_game = plugin_contract(Game)
"""Checks a game: raises one AssertionError that names every broken promise."""

N = 3
LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3]])


def maps(inputs: Inputs = PICTURES) -> Tensor:
    """Random maps ``(N, L, *positions)`` for N images and L labels, no two of which are equal."""
    return normal(*LABELS.shape, *inputs.positions, seed=1)


def played(game: Game, classifier: Classifier | None = None, order: Tensor | None = None) -> Curves:
    """The curves of a game on the test pictures: all pictures, or those with the indices ``order``."""
    f, order = classifier or shared_classifier(PICTURES), torch.arange(N) if order is None else order
    return play(Session(f), game, values(PICTURES, N)[order], maps()[order], LABELS[order])


@remembered
def usual(game: Game) -> Curves:
    """The curves of a game on all test pictures, for comparison."""
    return played(game)


def assert_same_curves(found: Curves, expected: Curves, when: str, order: Tensor | None = None) -> None:
    order = torch.arange(N) if order is None else order
    assert_close(found.probabilities, expected.probabilities[order], "values of the curves", when)
    assert_close(found.auc, expected.auc[order], "areas", when)


# ---- what it is --------------------------------------------------------------------------------------------------


@check_game.promise
def its_record_is_plain_data_that_names_it_and_the_same_each_time(game: Game) -> None:
    f = shared_classifier(PICTURES)
    record, again = (each.record(Session(f)) for each in (game, dataclasses.replace(game)))
    assert record == again, f"two records differ: {record} and {again}"
    assert record.get("game") == game.name, f"the record is {record}, expected 'game': {game.name!r} in it"
    assert json.loads(json.dumps(record)) == record, f"the record changes when JSON carries it: {record}"


@check_game.promise
def other_settings_make_another_game(game: Game) -> None:
    changes: dict[str, Any] = {
        "fill": Gray(color=(0.0, 0.1, 0.2)) if game.fill.random else Noise(sigma=0.3),
        "points": 7 if game.points != 7 else 9,
        "rule": next(rule for rule in get_args(Rule) if rule != game.rule),
        "within": (0.1, 0.9) if game.within != (0.1, 0.9) else (0.0, 1.0),
        "ties": next(ties for ties in get_args(Ties) if ties != game.ties),
    }
    for key, value in changes.items():
        try:
            other = game.changed(**{key: value})
        except InputError:
            continue  # a game may insist on a setting
        assert other != game, f"another {key} makes an equal game, which is not played again"


# ---- what it shows -----------------------------------------------------------------------------------------------


@check_game.promise
def its_order_is_one_rank_per_position(game: Game) -> None:
    flat, n = maps().flatten(0, 1), PICTURES.count
    keys = streams.image_keys(flat, "ties")
    ranks = game.order(flat, keys)
    assert ranks.shape == (len(flat), n), f"ranks are {tuple(ranks.shape)}, expected {(len(flat), n)}"
    low, high = float(ranks.min()), float(ranks.max())
    if game.soft:
        assert low >= 0 and high <= 1, f"shares lie between {low:g} and {high:g}, expected 0 to 1"
    else:
        assert not ranks.is_floating_point(), f"ranks are {ranks.dtype}, expected whole numbers"
        assert low >= 0 and high < n, f"ranks lie between {low:g} and {high:g}, expected 0 .. {n - 1}"
    turned = torch.tensor([4, 2, 0])
    same = torch.equal(game.order(flat[turned], keys[turned]), ranks[turned])
    assert same, "the ranks of a map depend on the other maps"


@check_game.promise
def what_is_shown_is_boolean_and_depends_on_ranks_and_count_alone(game: Game) -> None:
    """A soft game shows fractions of positions, from 0 to 1."""
    n = PICTURES.count
    ranks = normal(6, n, seed=2).sigmoid() if game.soft else rank(normal(6, n))
    count = torch.tensor([0, 1, n // 3, n // 2, n - 1, n])[:, None]
    given = ranks.clone(), count.clone()
    shown = game.shown(ranks, count)
    assert shown.shape == ranks.shape, f"shown is {tuple(shown.shape)}, expected {tuple(ranks.shape)}"
    if game.soft:
        inside = bool(((shown >= 0) & (shown <= 1)).all())
        assert shown.is_floating_point() and inside, "a soft game shows shares between 0 and 1"
    else:
        assert shown.dtype == torch.bool, f"shown is {shown.dtype}, expected torch.bool"
    assert torch.equal(ranks, given[0]) and torch.equal(count, given[1]), "the ranks or counts were changed"
    assert torch.equal(game.shown(ranks, count), shown), "the same ranks and count show other positions"
    for row in range(6):
        alone = game.shown(ranks[row : row + 1], count[row : row + 1])
        assert torch.equal(alone[0], shown[row]), "what is shown of a map depends on the other maps"


# ---- curves ------------------------------------------------------------------------------------------------------


@check_game.promise
def curves_have_a_finite_value_for_each_step(game: Game) -> None:
    curves = usual(game)
    steps = len(game.quadrature.nodes(PICTURES.count).counts)
    expected = (*LABELS.shape, steps)
    found = curves.probabilities
    assert found.shape == expected, f"the curves are {tuple(found.shape)}, expected {expected}"
    for name in ("probabilities", "auc", "error"):
        finite = bool(getattr(curves, name).isfinite().all())
        assert finite, f"{name} of the curves are not finite everywhere"


@check_game.promise
def the_area_is_the_weighted_sum_of_the_curve(game: Game) -> None:
    curves, weights = usual(game), game.quadrature.nodes(PICTURES.count).weights
    areas = (curves.probabilities.double() * weights).sum(dim=2).float()
    assert torch.allclose(curves.auc, areas, rtol=1e-5, atol=1e-7), (
        f"areas differ from the weighted sum of the values, by up to {float((curves.auc - areas).abs().max()):.2g}"
    )


@check_game.promise
def one_map_for_all_labels_is_read_for_each_as_if_alone(game: Game) -> None:
    f, x = shared_classifier(PICTURES), values(PICTURES, N)
    session, shared = Session(f), maps()[:, :1].expand_as(maps())
    together = play(session, game, x, shared, LABELS)
    for j in range(LABELS.shape[1]):
        alone = play(session, game, x, shared[:, j : j + 1], LABELS[:, j : j + 1])
        assert_close(together.auc[:, j], alone.auc[:, 0], "areas", "when a map is shared by several labels")


@check_game.promise
def the_same_maps_give_the_same_curves(game: Game) -> None:
    once, again = usual(game), played(game)
    assert torch.equal(once.probabilities, again.probabilities), "the same maps give two different curves"


@check_game.promise
def places_without_a_label_are_nan_and_disturb_no_other(game: Game) -> None:
    f, expected, padded = shared_classifier(PICTURES), usual(game), LABELS.clone()
    padded[1, 1:], padded[2, 1] = -1, -1
    found = play(Session(f), game, values(PICTURES, N), maps(), padded)
    there = padded >= 0
    assert bool(found.auc[~there].isnan().all()), "the area of the label -1 is not NaN"
    assert_close(found.auc[there], expected.auc[there], "areas", "where another place has the label -1")


@check_game.promise
def the_batch_size_changes_nothing(game: Game) -> None:
    assert_same_curves(
        played(game, shared_classifier(PICTURES, batch_size=5)), usual(game), "with batches of 5"
    )


@check_game.promise
def the_order_of_images_changes_nothing(game: Game) -> None:
    turned = torch.tensor([2, 0, 1])
    assert_same_curves(played(game, order=turned), usual(game), "with the order", turned)


@check_game.promise
def an_image_alone_gets_the_curve_it_gets_among_others(game: Game) -> None:
    second = torch.tensor([1])
    assert_same_curves(played(game, order=second), usual(game), "when an image is alone", second)


@check_game.promise
def series_and_rows_are_played_or_refused(game: Game) -> None:
    """A game, or its fill (what hidden positions show), may refuse a kind of input with an InputError."""
    for inputs in (SERIES, ROWS):
        f = shared_classifier(inputs)
        with may_be_refused(inputs):
            curves = play(Session(f), game, values(inputs, N), maps(inputs), LABELS)
            assert bool(curves.auc.isfinite().all()), f"an area of {inputs.noun} is not finite"


# ---- what it costs, and leaves alone -----------------------------------------------------------------------------


@check_game.promise
def its_passes_are_those_that_the_net_sees(game: Game) -> None:
    f, tally = counted_classifier(size=PICTURES.size)
    f.frozen()
    game.prepare(session := Session(f))
    tally.reset()
    play(session, game, values(PICTURES, N), maps(), LABELS)
    ends = N * (1 + game.backgrounds)  # the whole images, and the fill alone
    expected = LABELS.numel() * game.passes(PICTURES.count) + ends
    assert tally.images == expected, (
        f"passes() says {expected} with the ends, but the net saw {tally.images} images"
    )


@check_game.promise
def equal_games_are_played_once(game: Game) -> None:
    f, tally = counted_classifier(size=PICTURES.size)
    judged = Judged(Session(f), values(PICTURES, N), LABELS, maps())
    first, before = judged.play(game), tally.images
    again = judged.play(dataclasses.replace(game))
    assert torch.equal(again.auc, first.auc) and tally.images == before, (
        "an equal game is played a second time"
    )


@check_game.promise
def images_maps_and_labels_stay_as_they_are(game: Game) -> None:
    f, x, heat, labels = shared_classifier(PICTURES), values(PICTURES, N), maps(), LABELS.clone()
    play(Session(f), game, x, heat, labels)
    assert torch.equal(x, values(PICTURES, N)), "the images were changed"
    assert torch.equal(heat, maps()), "the maps were changed"
    assert torch.equal(labels, LABELS), "the labels were changed"


@check_game.promise
def the_global_random_state_is_not_touched(game: Game) -> None:
    found = with_another_seed(lambda: played(game).auc)
    assert_global_randomness_is_not_used(found, usual(game).auc, "areas")
