"""From a curve to one number: the paper's mean over all s, the released sum; and games of one's own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.fills import Blur, Gray, Noise
from proofmap.metrics import Game, make_game
from proofmap.metrics.games import DeletionGame, InsertionGame, Nodes, Quadrature, Rule
from proofmap.metrics.playing import curves
from proofmap.plugins.settings import setting
from tests.sessions import bound
from tests.toys import counted_classifier, linear_classifier, normal, pixels

PHOTO = 224 * 224
RULES: tuple[Rule, ...] = ("mean", "right", "trapezoid")

rules = st.sampled_from(RULES)
sizes = st.integers(1, 400)
points = st.one_of(st.just("all"), st.integers(1, 60))
ranges = st.tuples(st.integers(0, 99), st.integers(1, 100)).filter(lambda r: r[0] < r[1])


def area(nodes: Nodes, p: np.ndarray) -> float:
    """The number that nodes make of a curve given at every count 0 .. n."""
    return float(nodes.weights.numpy() @ p[nodes.counts.numpy()])


def error(nodes: Nodes, p: np.ndarray) -> float:
    return abs(float((nodes.weights - nodes.coarse).numpy() @ p[nodes.counts.numpy()]))


# ---- the definition ----------------------------------------------------------------------------------------


@given(n=sizes, seed=st.integers(0, 9))
def test_with_all_points_it_is_the_mean_over_s_from_1_to_n(n: int, seed: int) -> None:
    p = np.random.default_rng(seed).random(n + 1)
    for rule in ("mean", "right"):
        assert area(Quadrature(points="all", rule=rule).nodes(n), p) == pytest.approx(p[1:].mean(), abs=1e-12)


@given(n=sizes, steps=st.integers(1, 60), seed=st.integers(0, 9))
def test_a_curve_that_is_linear_between_the_points_is_summed_exactly(n: int, steps: int, seed: int) -> None:
    nodes = Quadrature(points=steps).nodes(n)
    values = np.random.default_rng(seed).random(len(nodes.counts))
    p = np.interp(np.arange(n + 1), nodes.counts.numpy(), values)
    assert area(nodes, p) == pytest.approx(p[1:].mean(), abs=1e-12)


@given(n=st.integers(5, 400), steps=points, share=ranges, seed=st.integers(0, 9))
@example(n=100, steps="all", share=(29, 58), seed=0)  # 100 * 0.29 is 28.999999999999996
def test_a_range_means_the_counts_above_its_low_end_up_to_its_high_end(
    n: int, steps: int | str, share: tuple[int, int], seed: int
) -> None:
    low, high = (Fraction(s, 100) * n // 1 for s in share)
    quadrature = Quadrature(points=steps, within=(share[0] / 100, share[1] / 100))  # type: ignore[arg-type]
    if high == low:
        with pytest.raises(InputError, match="holds none"):
            quadrature.nodes(n)
        return
    nodes = quadrature.nodes(n)
    values = np.random.default_rng(seed).random(len(nodes.counts))
    p = np.interp(np.arange(n + 1), nodes.counts.numpy(), values)
    assert area(nodes, p) == pytest.approx(p[int(low) + 1 : int(high) + 1].mean(), abs=1e-12)


@given(n=sizes, steps=points, rule=rules)
def test_counts_are_distinct_whole_numbers_and_weights_sum_to_one(
    n: int, steps: int | str, rule: Rule
) -> None:
    nodes = Quadrature(points=steps, rule=rule).nodes(n)  # type: ignore[arg-type]
    counts = nodes.counts.tolist()
    assert counts == sorted(set(counts)) and counts[-1] == n
    assert counts[0] > 0 if rule == "right" else counts[0] == 0
    assert nodes.counts.dtype == torch.int64
    for weights in (nodes.weights, nodes.coarse):
        assert bool((weights >= 0).all()) and weights.sum().item() == pytest.approx(1, abs=1e-12)


# ---- other people's sums -----------------------------------------------------------------------------------


def test_the_released_range_from_2_to_6_tenths_holds_points_6_to_16_of_28() -> None:
    nodes = Quadrature(points=28, rule="right", within=(0.2, 0.6)).nodes(PHOTO)
    assert nodes.counts.tolist() == [1792 * j for j in range(6, 17)]
    assert nodes.weights.tolist() == pytest.approx([1 / 11] * 11)


@pytest.mark.parametrize("rule", ["mean", "right"])
def test_the_papers_range_on_cifar_is_every_s_from_205_to_614(rule: Rule) -> None:
    nodes = Quadrature(points="all", rule=rule, within=(0.2, 0.6)).nodes(1024)
    counted = nodes.counts[nodes.weights > 0]
    assert counted.tolist() == list(range(205, 615))
    assert nodes.weights[nodes.weights > 0].tolist() == pytest.approx([1 / 410] * 410)


# ---- the error told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_the_step_error_compares_with_every_second_point(rule: Rule) -> None:
    """With 32 and 16 points over 320 counts the coarse rule is the same rule with half the points."""
    fine, half = (Quadrature(points=k, rule=rule).nodes(320) for k in (32, 16))
    p = np.random.default_rng(3).random(321)
    assert error(fine, p) == pytest.approx(abs(area(fine, p) - area(half, p)), abs=1e-12)


# ---- what is refused ---------------------------------------------------------------------------------------


def test_the_released_range_is_not_moved_by_rounding() -> None:
    nodes = Quadrature(points=100, rule="right", within=(0.29, 0.58)).nodes(100)
    assert nodes.counts.tolist() == list(range(30, 59))


@pytest.mark.parametrize(
    "settings, n, told",
    [
        ({"within": (0.6, 0.2)}, 1000, "range of shares"),
        ({"within": (0.0, 1.5)}, 1000, "range of shares"),
        ({"points": 4, "rule": "right", "within": (0.3, 0.4)}, 1000, "holds none of 4 points"),
        ({"within": (0.0, 0.2)}, 3, "holds none of 3 positions"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(settings: dict[str, Any], n: int, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Quadrature(**settings).nodes(n)


# ---- games ---------------------------------------------------------------------------------------------------


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
