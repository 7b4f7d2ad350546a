"""Is a map where the thing is? By hand; ROAD's imputation against pytorch-grad-cam's; strong proofs of wrong labels."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest
import scipy
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills.road import Road, impute
from proofmap.methods import make_method
from proofmap.methods.controls import Random
from proofmap.metrics import Insertion, Judged, deletion, make_metric
from proofmap.metrics.adversarial import AdversarialSoundness
from proofmap.metrics.localisation import side_by_side
from proofmap.metrics.proof_scores import Soundness
from proofmap.session import Session
from tests.sessions import bound
from tests.toys import (
    SERIES,
    Linear,
    classifier_of,
    conv_classifier,
    counted_classifier,
    normal,
    pixels,
    values,
)

SIZE, N = 10, 3
LABELS = torch.tensor([[0, 2], [1, 3], [2, 0]])
TRUTH = torch.tensor([0, 3, 1])
BOXES = [[(2.0, 1.0, 6.0, 4.0)], [(0.0, 0.0, 3.0, 3.0), (5.0, 5.0, 10.0, 9.0)], [(0.0, 0.0, 5.0, 5.0)]]


def judged(maps: Tensor | None = None, **known: object) -> Judged:
    f = conv_classifier(SIZE, 4)
    maps = normal(N, 2, SIZE, SIZE, seed=3) if maps is None else maps
    given = {"truth": TRUTH, "boxes": BOXES, **known}
    return Judged(Session(f), pixels(N, SIZE), LABELS, maps, **given)  # type: ignore[arg-type]


def peak(*places: tuple[int, int]) -> Tensor:
    """Maps that are 1 at these rows and columns and 0 elsewhere."""
    maps = torch.zeros(N, 2, SIZE, SIZE)
    for row, column in places:
        maps[:, :, row, column] = 1
    return maps


def value(spec: str, j: Judged) -> list[float]:
    return make_metric(spec)(j).tolist()


def test_only_the_map_of_the_true_label_counts_and_only_where_it_was_made() -> None:
    for name in ("pointing-game", "energy-inside", "box-iou"):
        pairs = make_metric(name).pairs(judged())
        assert pairs.isnan().tolist() == [[False, True], [True, False], [True, True]]
        assert make_metric(name)(judged()).isnan().tolist() == [False, False, True]
        assert make_metric(name)(judged(truth=None)).isnan().all()
        assert make_metric(name)(judged(boxes=())).isnan().all()


@pytest.mark.parametrize(
    "place, tolerance, hits",
    [
        ((1, 2), 0, 1),  # the first position inside
        ((3, 5), 0, 1),  # the last one
        ((4, 5), 0, 0),  # the first below
        ((1, 6), 0, 0),
        ((1, 6), 0.5, 1),  # its middle is half a position to the right
        ((5, 8), 2.9155, 1),  # hypot(2.5, 1.5) = 2.91548 away
        ((5, 8), 2.9154, 0),
    ],
)
def test_the_maximum_hits_or_misses(place: tuple[int, int], tolerance: float, hits: int) -> None:
    assert value(f"pointing-game:tolerance={tolerance}", judged(peak(place)))[0] == hits


def test_tied_maxima_hit_in_part_and_a_constant_map_has_the_area() -> None:
    assert value("pointing-game:tolerance=0", judged(peak((1, 2), (9, 9))))[0] == 0.5
    flat = judged(torch.ones(N, 2, SIZE, SIZE))
    assert value("pointing-game:tolerance=0", flat)[:2] == pytest.approx([12 / 100, 29 / 100])
    assert value("energy-inside", flat)[:2] == pytest.approx([12 / 100, 29 / 100])


def test_energy_is_the_positive_part_inside() -> None:
    j = judged()
    m = j.maps[0, 0].clamp_min(0)
    assert value("energy-inside", j)[0] == pytest.approx(float(m[1:4, 2:6].sum() / m.sum()), rel=1e-5)
    assert value("energy-inside", judged(-torch.ones(N, 2, SIZE, SIZE)))[0] == 0.0
    endless = peak((1, 2))
    endless[:, :, 9, 9], endless[:, :, 1, 2] = 5, torch.inf
    assert value("energy-inside", judged(endless))[0] == 1.0


def test_the_box_of_a_map_against_one_drawn_by_hand() -> None:
    maps = torch.zeros(N, 2, SIZE, SIZE)
    maps[:, :, 2:6, 3:6] = 1.0  # 12 positions; 2 x 3 of them in the box of 12
    maps[:, :, 9, 9] = 0.9  # a speck
    j = judged(maps)
    assert value("box-iou", j)[0] == pytest.approx(6 / 18)
    assert value("box-iou:piece=all", j)[0] == pytest.approx(6 / (56 + 12 - 6))
    assert value("box-iou:hit=0.3", j)[0] == 1.0 and value("box-iou:hit=0.35", j)[0] == 0.0
    assert value("box-iou", j)[1] == pytest.approx(
        1 / 31
    )  # of two boxes the better: 4 x 5, sharing one corner
    assert value("box-iou:delta=1.5", j)[0] == 0.0  # nothing is kept


# ---- two things ------------------------------------------------------------------------------------------------------

OBJECTS = [
    {0: [(0, 0, 5, 10)], 2: [(5, 0, 10, 10)]},
    {1: [(0, 0, 6, 6)], 3: [(4, 4, 10, 10)]},  # they share 2 x 2 positions
    {2: [(0, 0, 5, 5)]},
]


def test_two_things_by_ranks_and_by_energy_are_the_definitions() -> None:
    j = judged(objects=OBJECTS, truth=None)
    regions = [(slice(None), slice(0, 5)), (slice(None), slice(5, 10))]
    by_ranks, by_energy = (make_metric(f"two-objects:by={by}").pairs(j) for by in ("ranks", "energy"))
    for k in range(2):
        own, other = (j.maps[0, k][regions[side]].flatten() for side in (k, 1 - k))
        wins = (own[:, None] > other).double().mean() + (own[:, None] == other).double().mean() / 2
        assert by_ranks[0, k].item() == pytest.approx(float(wins), abs=1e-6)
        a, b = own.clamp_min(0).mean(), other.clamp_min(0).mean()
        assert by_energy[0, k].item() == pytest.approx(float(a / (a + b)), abs=1e-6)
    assert by_ranks[2].isnan().all()  # one thing alone
    m = j.maps[1, 0].clone()
    shared = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    shared[4:6, 4:6] = True
    own = m[:6, :6][~shared[:6, :6]]
    other = m[4:, 4:][~shared[4:, 4:]]
    assert by_ranks[1, 0].item() == pytest.approx(float((own[:, None] > other).double().mean()), abs=1e-6)


def test_montages_tell_a_method_from_cheating() -> None:
    """A net that adds up pixels: its gradient times its input knows which side is whose, the top label's map does not."""
    weight = torch.zeros(3, 8, 8)
    weight[0, :4], weight[1, 4:], weight[2] = 0.2, 0.2, 0.01
    f = pm.Classifier(Linear(weight.flatten(1)), size=8, mean=[0.0], std=[1.0])
    upper, lower = torch.zeros(2, 1, 8, 8)
    upper[:, :4], lower[:, 4:] = 1.0, 1.0
    images, labels, objects = side_by_side(f.inputs, torch.stack([upper, lower]), [0, 1])  # type: ignore[arg-type]
    assert labels.tolist() == [[0, 1], [1, 0]]
    assert images[0, 0, :4, :4].eq(1).all() and images[0, 0, 4:, 4:].eq(1).all() and images[0].sum() == 32
    assert objects[1] == {1: ((0, 0, 4, 8),), 0: ((4, 0, 8, 8),)}
    result = pm.evaluate(
        f,
        images,
        methods=["gradient-x-input", "top-label:gradient-x-input"],
        labels=labels,
        objects=objects,
        metrics=["two-objects:by=energy"],
    )
    honest, cheating = (r.scores[0].value for r in result.results)
    assert honest == 1.0 and cheating == pytest.approx(0.5)


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda f, x: side_by_side(f.inputs, x, [1, 1]), "at least two labels"),
        (lambda f, x: side_by_side(f.inputs, x, [1]), "1 labels were given for 2"),
        (
            lambda f, x: pm.evaluate(f, x, methods="gradient", objects=[{0: [(0, 0, 1, 1)]}]),
            "objects of 1 images were given for 2",
        ),
        (
            lambda f, x: pm.evaluate(f, x[:1], methods="gradient", objects=[{"dog": [(0, 0, 1, 1)]}]),
            "no label is named 'dog'",
        ),
    ],
)
def test_montages_and_objects_refuse_what_does_not_fit(call: Callable[..., object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        call(conv_classifier(8), pixels(2, 8))


# ---- ROAD ----------------------------------------------------------------------------------------------------


def masks(size: tuple[int, int]) -> Tensor:
    """Scattered pixels, a large hole in the middle, and one known corner."""
    scattered = pixels(1, size, channels=1, seed=2)[0, 0] > 0.8
    hole = torch.ones(size, dtype=torch.bool)
    hole[2:-2, 3:-1] = False
    corner = torch.zeros(size, dtype=torch.bool)
    corner[0, 0] = True
    return torch.stack([scattered, hole, corner])


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["scattered", "a hole", "one corner"])
@pytest.mark.parametrize("size", [(16, 16), (20, 31)])
def test_it_solves_the_system_of_pytorch_grad_cam(
    size: tuple[int, int], kind: int, pytorch_grad_cam: ModuleType
) -> None:
    road = importlib.import_module("pytorch_grad_cam.metrics.road")
    x, known = pixels(1, size), masks(size)[kind]
    matrix, right = road.NoisyLinearImputer.setup_sparse_system(
        known.float().numpy(), x[0].numpy(), road.neighbors_weights
    )
    theirs = torch.from_numpy(scipy.sparse.linalg.spsolve(matrix.tocsc(), right)).float().t()
    torch.testing.assert_close(impute(x, known[None])[0][:, ~known], theirs, atol=1e-3, rtol=0)


def test_what_is_known_stays_and_nothing_known_is_gray_with_noise() -> None:
    f, x = conv_classifier(12), pixels(2, 12)
    fill, keys = bound(Road(), f), streams.image_keys(x, "test")
    known = masks((12, 12))[:2]
    assert torch.equal(impute(x, known).masked_select(known[:, None]), x.masked_select(known[:, None]))
    away = fill(x, keys) - f.gray.view(3, 1, 1)
    assert 0.008 < float(away.std()) < 0.012
    shown = fill.behind(x, keys, known) - impute(x, known)
    assert float(shown.abs().max()) < 0.06


def test_a_series_with_one_gap_is_a_straight_line() -> None:
    f = classifier_of(SERIES)
    x = values(SERIES, 1)
    known = torch.ones(1, 12, dtype=torch.bool)
    known[:, 3:8] = False
    found = bound(Road(noise=1e-9), f).behind(x, streams.image_keys(x, "test"), known)
    line = x[:, :, 2:3] + (x[:, :, 8:9] - x[:, :, 2:3]) * torch.arange(1, 6) / 6
    torch.testing.assert_close(found[:, :, 3:8], line, atol=1e-3, rtol=1e-3)


def test_the_deletion_game_is_played_on_imputed_pictures() -> None:
    f, x, labels = conv_classifier(12), pixels(2, 12), torch.tensor([[0], [1]])
    heat = pixels(2, 12, channels=1, seed=4)
    found = deletion(f, x, heat, labels, curve="road")
    ready, keys = bound(Road(), f), streams.image_keys(x, 0, "curve fill", 0)
    ranks = (-heat.flatten(2)).argsort(dim=2).argsort(dim=2)[:, 0]
    for step in (3, 7):
        keep = (ranks >= found.counts[step]).view(2, 12, 12)
        composite = torch.where(keep[:, None], x, ready.behind(x, keys, keep))
        expected = f.probabilities(composite).gather(1, labels)
        torch.testing.assert_close(found.probabilities[:, :, step], expected, atol=1e-5, rtol=1e-4)


# ---- adversarial soundness -----------------------------------------------------------------------------------


SMALL = {"points": 8, "passes": 60}


def judged_by(f: Classifier, labels: torch.Tensor, *, method: str = "random") -> Judged:
    x = pixels(len(labels), f.inputs.positions)
    ready = bound(make_method(method), f)
    return Judged(Session(f), x, labels, ready(x, labels), method=ready)


def two_patches() -> Classifier:
    """Label 0 is proved by the left half's brightness, label 1 by the right half's, and label 0 more."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2))
    weight = torch.zeros(2, 3, 8, 8)
    weight[0, :, :, :4], weight[1, :, :, 4:] = 0.12, 0.1
    with torch.no_grad():
        net[1].weight.copy_(weight.flatten(1))
        net[1].bias.zero_()
    return Classifier(net, size=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


@pytest.mark.parametrize("search", ["greedy", "mask"])
def test_a_strong_proof_of_the_wrong_label_is_found(search: str) -> None:
    """On black, the right half alone proves label 1: its best order is known, and its area is nearly reached."""
    f = two_patches()
    x = torch.full((1, 3, 8, 8), 0.9)
    labels = torch.tensor([[0, 1]])
    flat = torch.zeros(1, 2, 8, 8)
    j = Judged(Session(f), x, labels, flat, method=bound(Random(), f))
    best = torch.zeros(1, 2, 8, 8)
    best[:, 0, :, :4] = best[:, 1, :, 4:] = 1.0
    ideal = Insertion(points=8).pairs(Judged(Session(f), x, labels, best))[0, 1]
    metric = AdversarialSoundness(points=8, passes=120, search=search)
    assert metric.strongest(j)[0, 1] > 0.9 * ideal
    value, plain = metric(j)[0], Soundness(points=8).pairs(j)[0, 1]
    assert value < 0.6 and value < plain - 0.1


def test_it_is_never_above_soundness_over_the_wrong_labels_and_leaves_the_top_label_out() -> None:
    f = conv_classifier()
    labels = torch.tensor([[0, 1, 2, 3]] * 3)
    j = judged_by(f, labels)
    metric = AdversarialSoundness(**SMALL, search="greedy")
    own, pairs = Soundness(points=8).pairs(j), metric.pairs(j)
    top = labels == j.top2[0][:, :1]
    assert torch.equal(pairs.isnan(), top)
    assert bool((pairs <= own + 1e-6)[~top].all())
    assert torch.equal(metric(j), pairs.nan_to_num(nan=2.0).amin(dim=1))


def test_searches_keep_to_the_passes_and_are_made_once_for_all_methods() -> None:
    f, tally = counted_classifier()
    labels = torch.tensor([[0, 1, 2]])
    metric = AdversarialSoundness(**SMALL)
    first, second = judged_by(f, labels), judged_by(f, labels, method="gradient-x-input")
    second.session = first.session  # as those that are judged_by together have it
    tally.reset()
    metric(first)
    searched = tally.images
    assert searched <= metric.cost(3, None).passes + 3 * 8 + 3
    tally.reset()
    metric(second)
    assert tally.images < searched / 4, "only the curves of the other method's own maps are new"


def test_a_search_that_cannot_be_paid_says_what_to_do() -> None:
    from proofmap.core.inputs import Rows

    rows = Rows(columns=100, mean=(0.0,) * 100, std=(1.0,) * 100)
    with pytest.raises(InputError, match="raise passes or use search=mask"):
        AdversarialSoundness(passes=20).searches(rows)
