"""The insertion and deletion games, against plain loops over a net whose answers are a formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills import Blur, Fill, Gray
from proofmap.metrics import completeness, deletion, insertion, make_game, soundness
from proofmap.metrics.judged import Judged
from proofmap.metrics.playing import curves
from proofmap.session import Session
from tests.sessions import bound
from tests.toys import (
    Linear,
    PassCounter,
    counted_classifier,
    linear_classifier,
    linear_probabilities,
    normal,
    pixels,
)

GAMES = ("insertion", "deletion")
N, LABELS, SIZE = 3, 4, (3, 4)
POSITIONS = 12


def order_of(map_: Tensor) -> np.ndarray:
    """Positions from the most salient on; equal ones from the first on."""
    return np.argsort(-map_.double().numpy().ravel(), kind="stable")


def plain_curve(
    classifier: Classifier, image: Tensor, order: np.ndarray, game: str, background: Tensor | None = None
) -> np.ndarray:
    """f(x~_s, .) for s = 0 .. n, ``(n + 1, A)``: one pixel after the other, in numpy."""
    gray = torch.tensor(classifier.mean).view(-1, 1, 1).expand_as(image)
    x, filled = (t.double().numpy() for t in (image, gray if background is None else background))
    shown, hidden = (filled, x) if game == "insertion" else (x, filled)
    composite = shown.copy()
    rows = [linear_probabilities(classifier, composite)]
    for position in order:
        composite.reshape(len(x), -1)[:, position] = hidden.reshape(len(x), -1)[:, position]
        rows.append(linear_probabilities(classifier, composite))
    return np.stack(rows)


@pytest.fixture(scope="module")
def f() -> Classifier:
    return linear_classifier(SIZE, LABELS)


@pytest.fixture(scope="module")
def images() -> Tensor:
    return pixels(N, SIZE)


@pytest.fixture(scope="module")
def maps() -> Tensor:
    return normal(N, LABELS, *SIZE, seed=5)


@pytest.fixture(scope="module")
def labels() -> Tensor:
    return torch.stack([torch.from_numpy(np.random.default_rng(i).permutation(LABELS)) for i in range(N)])


# ---- the exact answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("label_set", ["all", [0, 2, 3]])
def test_areas_and_scores_of_a_linear_net_are_exact(
    game: str, label_set: Any, images: Tensor, maps: Tensor
) -> None:
    f = linear_classifier(SIZE, LABELS, label_set=label_set, renormalise=label_set != "all")
    labels = torch.tensor(f.label_set).expand(N, -1)
    maps = maps[:, : labels.shape[1]]
    played = curves(game, f, images, maps, labels, points="all")
    for i in range(N):
        whole = linear_probabilities(f, images[i].numpy())
        for j, a in enumerate(labels[i].tolist()):
            p = plain_curve(f, images[i], order_of(maps[i, j]), game)[:, a]
            assert played.probabilities[i, j].tolist() == pytest.approx(p.tolist(), abs=2e-6)
            area = p[1:].mean()
            assert played.auc[i, j].item() == pytest.approx(area, abs=2e-6)
            assert played.f[i, j].item() == pytest.approx(whole[a], abs=2e-6)
            alpha = completeness(played.auc, played.f, 0.01)[i, j].item()
            beta = soundness(played.auc, played.f, 0.001)[i, j].item()
            assert alpha == pytest.approx(min(max(area, 0.01) / whole[a], 1), abs=2e-5)
            assert beta == pytest.approx(min(max(whole[a], 0.001) / area, 1), abs=2e-5)
    assert played.error.max() == 0


@pytest.mark.parametrize("preset", ["released", "rise", "restricted", "paper"])
@pytest.mark.parametrize("game", GAMES)
def test_presets_are_weighted_sums_of_the_exact_curve(preset: str, game: str) -> None:
    f = linear_classifier(8, LABELS, seed=3, strength=0.2)
    x, map_ = pixels(1, 8), normal(1, 1, 8, 8)
    chosen = make_game(game, curve=preset)
    assert chosen.fill == (Blur() if (preset, game) == ("rise", "insertion") else Gray())
    background = bound(chosen.fill, f)(x, torch.zeros(1, dtype=torch.long))[0]
    p = plain_curve(f, x[0], order_of(map_[0, 0]), game, background)[:, 2]
    played = curves(game, f, x, map_, torch.tensor([[2]]), curve=preset)
    counts = played.counts.numpy()
    expected = {
        "released": p[[round(j * 64 / 28) for j in range(1, 29)]].mean(),
        "rise": ((p[counts][1:] + p[counts][:-1]) / 2 * np.diff(counts)).sum() / 64,
        "restricted": p[13:39].mean(),  # s from 0.2 * 64 = 12.8 to 38.4: all are looked at
        "paper": np.interp(range(1, 65), counts, p[counts]).mean(),
    }[preset]
    assert played.auc.item() == pytest.approx(expected, abs=2e-6)


# ---- what always holds -------------------------------------------------------------------------------------


transforms: dict[str, Callable[[Tensor], Tensor]] = {
    "stretched": lambda m: 3 * m + 100,
    "cubed": lambda m: m**3,
    "exponential": torch.exp,
    "double precision": lambda m: m.double() / 7,
    "ranks": lambda m: m.flatten(2).argsort(2).argsort(2).view(m.shape),
}


@pytest.mark.parametrize("name", transforms)
@pytest.mark.parametrize("game", GAMES)
def test_a_monotone_transform_of_a_map_changes_nothing(
    name: str, game: str, f: Classifier, images: Tensor, labels: Tensor
) -> None:
    rng = np.random.default_rng(8)
    steps = np.stack([rng.permutation(POSITIONS) for _ in range(N * LABELS)]) / 4 - 1.0
    maps = torch.from_numpy(steps).float().view(N, LABELS, *SIZE)
    before = curves(game, f, images, maps, labels)
    after = curves(game, f, images, transforms[name](maps), labels)
    assert torch.equal(before.probabilities, after.probabilities)
    assert torch.equal(before.auc, after.auc)


# ---- nothing depends on the batch --------------------------------------------------------------------------


# ---- ties --------------------------------------------------------------------------------------------------


def test_ties_are_decided_by_index_or_from_the_centre(f: Classifier, images: Tensor) -> None:
    flat, x, label = torch.zeros(1, 1, *SIZE), images[:1], torch.tensor([[1]])
    by_index = np.arange(POSITIONS)
    rows, columns = np.divmod(by_index, SIZE[1])
    distance = (rows - (SIZE[0] - 1) / 2) ** 2 + (columns - (SIZE[1] - 1) / 2) ** 2
    from_centre = np.argsort(distance, kind="stable")
    for ties, order in {"index": by_index, "center": from_centre}.items():
        played = insertion(f, x, flat, label, points="all", ties=ties)
        p = plain_curve(f, x[0], order, "insertion")[:, 1]
        assert played.probabilities.flatten().tolist() == pytest.approx(p.tolist(), abs=2e-6)
        assert played.settings["ties"] == ties


# ---- fills -------------------------------------------------------------------------------------------------


class Shades(Fill):
    """A shade of gray for each key, and a list of the keys it was asked for."""

    name: ClassVar[str] = "shades"
    random: ClassVar[bool] = True
    asked: list[int] = field(default_factory=list, compare=False)

    @staticmethod
    def shade(key: int) -> float:
        return (key % 1009) / 1009

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        assert len(images) == len(keys)
        self.asked.extend(keys.tolist())
        shades = torch.tensor([self.shade(key) for key in keys.tolist()]).view(-1, 1, 1, 1)
        return shades.expand_as(images)


@pytest.mark.parametrize("game", GAMES)
def test_a_random_fill_is_averaged_over_its_draws(
    game: str, f: Classifier, images: Tensor, maps: Tensor
) -> None:
    fill, x, m = Shades(), images[:1], maps[:1, :2]
    played = curves(game, f, x, m, torch.tensor([[0, 3]]), fill=fill, draws=5, points="all")
    keys = sorted(set(fill.asked))
    assert len(keys) == 5  # the same five backgrounds for every map and step
    for j, a in enumerate((0, 3)):
        drawn = [
            plain_curve(f, x[0], order_of(m[0, j]), game, torch.full_like(x[0], Shades.shade(key)))[:, a]
            for key in keys
        ]
        p = np.mean(drawn, axis=0)
        assert played.probabilities[0, j].tolist() == pytest.approx(p.tolist(), abs=2e-6)
        assert played.auc[0, j].item() == pytest.approx(p[1:].mean(), abs=2e-6)


# ---- label by label ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", GAMES)
def test_the_matrix_holds_every_label_under_every_map(
    game: str, f: Classifier, images: Tensor, maps: Tensor, labels: Tensor
) -> None:
    played = curves(game, f, images, maps, labels, matrix=True, points=5)
    for a in range(LABELS):
        torch.testing.assert_close(played.matrix[:, a, a], played.auc[:, a], rtol=0, atol=0)
        for b in range(LABELS):
            alone = curves(game, f, images, maps[:, a : a + 1], labels[:, b : b + 1], points=5)
            torch.testing.assert_close(played.matrix[:, a, b], alone.auc[:, 0])
    torch.testing.assert_close(played.matrix.sum(dim=2), torch.ones(N, LABELS))


# ---- how often the net runs --------------------------------------------------------------------------------


@pytest.fixture
def watched() -> tuple[Classifier, PassCounter]:
    f, tally = counted_classifier(Linear(normal(LABELS, 3 * POSITIONS)), size=SIZE, batch_size=10)
    f.frozen()  # which looks at the net
    tally.reset()
    return f, tally


INNER = POSITIONS - 1  # steps between nothing and everything; the two ends are seen once per image


def test_one_map_for_all_labels_costs_one_curve(
    watched: tuple[Classifier, PassCounter], images: Tensor, maps: Tensor, labels: Tensor
) -> None:
    f, tally = watched
    expanded = insertion(f, images, maps[:, :1].expand(-1, LABELS, -1, -1), labels, points="all")
    assert tally.images == N * INNER + 2 * N
    copied = insertion(f, images, maps[:, :1].repeat(1, LABELS, 1, 1), labels, points="all")
    assert tally.images == 2 * (N * INNER + 2 * N)
    torch.testing.assert_close(expanded.auc, copied.auc)


def test_equal_maps_among_others_are_played_once(
    watched: tuple[Classifier, PassCounter], images: Tensor, maps: Tensor, labels: Tensor
) -> None:
    f, tally = watched
    mixed = maps.clone()
    mixed[:, 3] = mixed[:, 1]
    played = insertion(f, images, mixed, labels, points="all")
    assert tally.images == N * 3 * INNER + 2 * N
    for j in range(LABELS):
        alone = insertion(f, images, mixed[:, j : j + 1], labels[:, j : j + 1], points="all")
        torch.testing.assert_close(played.auc[:, j], alone.auc[:, 0])


# ---- places without a label --------------------------------------------------------------------------------


def test_maps_of_places_without_a_label_are_never_looked_at(
    watched: tuple[Classifier, PassCounter], images: Tensor, maps: Tensor
) -> None:
    f, tally = watched
    maps = maps[:1, :2].clone()
    maps[0, 1] = math.nan
    played = insertion(f, images[:1], maps, torch.tensor([[0, -1]]), points="all")
    assert tally.images == INNER + 2
    assert played.auc[0, 0].isfinite() and played.auc[0, 1].isnan()


# ---- what a record carries ---------------------------------------------------------------------------------


# ---- what is refused ---------------------------------------------------------------------------------------


def test_a_map_with_nan_is_refused_by_image_and_label(f: Classifier, images: Tensor, maps: Tensor) -> None:
    broken = maps.clone()
    broken[1, 2, 0, 0] = math.nan
    with pytest.raises(InputError, match="the map of image 1, label 3 contains NaN"):
        insertion(f, images, broken, torch.tensor([[0, 1, 3, 2]] * N))


def test_infinite_values_have_a_rank_and_are_accepted(
    f: Classifier, images: Tensor, maps: Tensor, labels: Tensor
) -> None:
    infinite = maps.clone()
    infinite.view(N, LABELS, -1)[0, 0, maps[0, 0].argmax()] = math.inf
    assert torch.equal(insertion(f, images, infinite, labels).auc, insertion(f, images, maps, labels).auc)


def test_one_label_for_each_image_may_come_without_a_dimension(
    f: Classifier, images: Tensor, maps: Tensor, labels: Tensor
) -> None:
    expected = insertion(f, images, maps[:, :1], labels[:, :1]).auc
    for heat, own in ((maps[:, 0].numpy(), labels[:, 0].numpy()), (maps[:, 0], labels[:, 0].tolist())):
        assert torch.equal(insertion(f, images, heat, own).auc, expected)


@pytest.mark.parametrize(
    "labels, told",
    [
        (torch.tensor([[0, 4]] * N), r"0 \.\. 3"),
        (torch.tensor([[0, -2]] * N), r"0 \.\. 3"),
        (torch.tensor([[-1, 0]] * N), "first column"),
        (torch.tensor([[0.0, 1.0]] * N), "integers"),
        (torch.tensor([[[0, 1]]] * N), r"\(N, L\)"),
        (["cat", "dog", "cup"], r"labels must be integers \(N, L\), or \(N,\).*choose_labels"),
    ],
)
def test_labels_that_cannot_be(
    labels: Tensor, told: str, f: Classifier, images: Tensor, maps: Tensor
) -> None:
    with pytest.raises(InputError, match=told):
        insertion(f, images, maps[:, :2], labels)


# ---- normalised first, and shared ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fill", ["gray", "gray:color=0.2", "blur", "noise"])
@pytest.mark.parametrize("game", [*GAMES, "soft-insertion"])
def test_bits_are_those_of_composites_that_are_normalised_last(
    game: str, fill: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    scale = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    f = Classifier(net, size=8, batch_size=64, **scale).frozen(dtype=dtype)  # type: ignore[arg-type]
    x, map_ = pixels(1, 8), normal(1, 1, 8, 8)
    steps: dict[str, Any] = {} if game.startswith("soft") else {"points": 7}
    chosen = make_game(game, fill=fill, draws=1, **steps)
    played = curves(chosen, f, x, map_, torch.tensor([[1]]), seed=3)
    inner = [k for k, s in enumerate(played.counts.tolist()) if chosen.all_shown(s, 64) is None]
    order = chosen.order(map_[0], torch.zeros(1, dtype=torch.long)).expand(len(inner), -1)
    keep = chosen.shown(order, played.counts[inner, None]).view(-1, 8, 8)
    background = bound(chosen.fill, f)(x, streams.image_keys(x, 3, "curve fill", 0))
    with torch.no_grad():
        expected = f.log_f(f(f.inputs.composite(keep, x, background))).exp()[:, 1]
    assert torch.equal(played.probabilities[0, 0, inner], expected)


def test_games_of_one_evaluation_share_the_ends_and_the_order(
    watched: tuple[Classifier, PassCounter], images: Tensor, maps: Tensor, labels: Tensor
) -> None:
    f, tally = watched
    judged = Judged(Session(f), images, labels[:, :1], maps[:, :1])
    alone = [curves(game, f, images, maps[:, :1], labels[:, :1], points="all") for game in GAMES]
    apart, tally.images = tally.images, 0
    together = [judged.play(make_game(game, points="all")) for game in GAMES]
    assert (apart, tally.images) == (2 * N * (INNER + 2), N * (2 * INNER + 2))
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one.probabilities, other.probabilities) and torch.equal(one.auc, other.auc)
    blurred = judged.play(make_game("deletion", points="all", fill="blur"))
    assert tally.images == N * (3 * INNER + 3)  # the whole images are known, the blurred ones are not
    assert torch.equal(
        blurred.probabilities,
        deletion(f, images, maps[:, :1], labels[:, :1], points="all", fill="blur").probabilities,
    )


def test_an_order_is_found_once_for_games_that_take_it() -> None:
    maps, labels = normal(N, 2, *SIZE).round(), torch.tensor([[0, 1]] * N)
    board = Judged(Session(linear_classifier(SIZE, LABELS)), pixels(N, SIZE), labels, maps)
    shown = board.ranks(make_game("insertion"))
    assert board.ranks(make_game("lerf", fill="blur")) is shown
    assert not torch.equal(board.ranks(make_game("insertion", ties="random")), shown)
    assert board.ranks(make_game("soft-insertion")).is_floating_point()
