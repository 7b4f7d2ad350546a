"""Games of a user's own: another order, another end, something else that is read off the net."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.fills import Blur, Gray, Noise
from proofmap.metrics import Game, make_game
from proofmap.metrics.games import DeletionGame, InsertionGame
from proofmap.metrics.playing import curves
from proofmap.plugins.settings import setting
from tests.sessions import bound
from tests.toys import counted_classifier, linear_classifier, normal, pixels

N, SIZE, LABELS = 2, 4, torch.tensor([[2, 0, 1], [1, 3, 2]])


class LeastFirst(Game):
    """The least important positions are hidden first (LeRF); the margin to the best other label is read."""

    name: ClassVar[str] = "least-first"
    description: ClassVar[str] = "the least important positions are hidden first; the margin is read"

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks < ranks.shape[1] - count

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        best, second = logits.topk(2, dim=1).values.T
        return logits - torch.where(logits < best[:, None], best[:, None], second[:, None])


class Framed(Game):
    """Some positions, by their rank, are always shown: neither end is the whole image or the fill alone."""

    name: ClassVar[str] = "framed"
    description: ClassVar[str] = "best first, while the last positions are always shown and the first never"
    always: int = setting(2, "positions that are always shown", least=0)

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ((ranks < count) & (ranks > 0)) | (ranks >= ranks.shape[1] - self.always)


def played_in_a_loop(game: Game, f: Classifier, x: Tensor, map_: Tensor, label: int) -> list[float]:
    """What is read off for one label at each step, one position and one pass at a time."""
    n, found = map_.numel(), []
    order = np.argsort(-map_.flatten().numpy(), kind="stable")
    for count in game.quadrature.nodes(n).counts.tolist():
        image = f.blank(1)[0]
        for place, position in enumerate(order):
            if isinstance(game, LeastFirst):
                visible = place < n - count
            else:
                visible = 0 < place < count or place >= n - 2
            if visible:
                row, column = divmod(int(position), SIZE)
                image[:, row, column] = x[:, row, column]
        logits = f.logits(image[None])[0]
        others = [float(z) for a, z in enumerate(logits) if a != label]
        margin = float(logits[label]) - max(others)
        found.append(margin if isinstance(game, LeastFirst) else float(f.log_f(logits).exp()[label]))
    return found


@pytest.mark.parametrize("points", [5, "all"])
@pytest.mark.parametrize("kind", [LeastFirst, Framed])
def test_a_game_of_ones_own_is_played_as_a_loop_would(kind: type[Game], points: int | str) -> None:
    f, x, maps = linear_classifier(SIZE, 4), pixels(N, SIZE), normal(N, 3, SIZE, SIZE)
    game = kind.build({"points": points})
    found = curves(game, f, x, maps, LABELS)
    weights = game.quadrature.nodes(SIZE * SIZE).weights
    for i in range(N):
        for j in range(3):
            expected = played_in_a_loop(game, f, x[i], maps[i, j], int(LABELS[i, j]))
            assert found.probabilities[i, j].tolist() == pytest.approx(expected, abs=1e-5)
            assert float(found.auc[i, j]) == pytest.approx(
                float(weights @ torch.tensor(expected).double()), abs=1e-5
            )
    assert torch.equal(found.f, f.probabilities(x).gather(1, LABELS)), "f stays f, whatever a game reads"


def test_ends_that_show_part_of_the_input_are_passes_of_their_own() -> None:
    f, tally = counted_classifier(size=SIZE)
    maps, labels = normal(N, 3, SIZE, SIZE), LABELS
    seen = {}
    f.frozen()
    for game in (InsertionGame(points=4), Framed(points=4)):
        tally.reset()
        curves(game, f, pixels(N, SIZE), maps, labels)
        seen[game.name] = tally.images - 2 * N  # without the whole images and the fill alone
        assert seen[game.name] == 6 * game.passes(SIZE * SIZE)
    assert seen == {"insertion": 6 * 3, "framed": 6 * 5}
    assert [Framed().all_shown(count, 16) for count in (0, 7, 16)] == [None, None, None]
    assert [InsertionGame().all_shown(count, 16) for count in (0, 7, 16)] == [False, None, True]
    assert [DeletionGame().all_shown(count, 16) for count in (0, 7, 16)] == [True, None, False]


def test_a_record_says_how_the_curve_was_drawn() -> None:
    f = linear_classifier(SIZE, 4)
    steps = {"points": 32, "rule": "mean", "within": [0.0, 1.0], "ties": "index"}
    gray = {"fill": "gray", "color": pytest.approx([0.5, 0.4, 0.3])}
    assert bound(InsertionGame(), f).record() == {"game": "insertion", **gray, **steps}
    assert bound(Framed(always=3), f).record() == {"game": "framed", "always": 3, **gray, **steps}
    noisy = bound(InsertionGame(fill=Noise(), draws=4), f)
    assert noisy.record()["draws"] == 4 and noisy.backgrounds == 4
    assert InsertionGame(draws=4).backgrounds == 1, "a fill that is not random is drawn once"


def test_games_are_made_from_text_tables_and_values() -> None:
    game = InsertionGame(fill=Blur(sigma=3), points=28, rule="trapezoid")
    assert make_game("insertion:curve=rise,fill=blur(sigma=3)") == game
    assert make_game("insertion", curve="rise", fill=Blur(sigma=3)) == game
    assert make_game(InsertionGame(fill=Blur(sigma=3)), points=28, rule="trapezoid") == game
    assert make_game("deletion:curve=rise").fill == Gray(), "as RISE plays it"
    with pytest.raises(InputError, match=r"no game is named 'insert'\. Did you mean 'insertion'"):
        make_game("insert")
    with pytest.raises(InputError, match="game 'insertion' has no setting 'steps'"):
        make_game("insertion:steps=3")
