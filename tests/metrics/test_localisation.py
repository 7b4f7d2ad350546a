"""Is a map where the thing is? Pointing, energy and boxes by hand, and two things in one photo."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.metrics import Judged, make_metric
from proofmap.metrics.localisation import side_by_side
from proofmap.session import Session
from tests.toys import Linear, conv_classifier, normal, pixels

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
        assert pairs is not None
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
    assert by_ranks is not None and by_energy is not None
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


@pytest.mark.parametrize("by", ["ranks", "energy"])
def test_one_map_for_both_labels_has_one_half(by: str) -> None:
    shared = normal(N, 1, SIZE, SIZE, seed=8).expand(N, 2, SIZE, SIZE)
    found = make_metric(f"two-objects:by={by}")(judged(shared, objects=OBJECTS))
    assert found[:2].tolist() == pytest.approx([0.5, 0.5], abs=1e-6)


def test_montages_tell_a_method_from_cheating() -> None:
    """A net that adds up pixels: its gradient times its input knows which side is whose, the top label's map does not."""
    weight = torch.zeros(3, 8, 8)
    weight[0, :4], weight[1, 4:], weight[2] = 0.2, 0.2, 0.01
    f = pm.Classifier(Linear(weight.flatten(1)), size=8, mean=[0.0], std=[1.0])
    upper, lower = torch.zeros(2, 1, 8, 8)
    upper[:, :4], lower[:, 4:] = 1.0, 1.0
    m = side_by_side(f.inputs, torch.stack([upper, lower]), [0, 1])  # type: ignore[arg-type]
    assert m.labels.tolist() == [[0, 1], [1, 0]]
    assert (
        m.images[0, 0, :4, :4].eq(1).all() and m.images[0, 0, 4:, 4:].eq(1).all() and m.images[0].sum() == 32
    )
    assert m.objects[1] == {1: ((0, 0, 4, 8),), 0: ((4, 0, 8, 8),)}
    result = pm.evaluate(
        f,
        m.images,
        methods=["gradient-x-input", "top-label:gradient-x-input"],
        labels=m.labels,
        objects=m.objects,
        metrics=["two-objects:by=energy"],
    )
    honest, cheating = (r.scores[0].value for r in result.results)
    assert honest == 1.0 and cheating == pytest.approx(0.5)


def test_montages_and_objects_refuse_what_does_not_fit() -> None:
    f = conv_classifier(8)
    with pytest.raises(InputError, match="at least two labels"):
        side_by_side(f.inputs, pixels(2, 8), [1, 1])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="1 labels were given for 2"):
        side_by_side(f.inputs, pixels(2, 8), [1])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="objects of 1 images were given for 2"):
        pm.evaluate(f, pixels(2, 8), methods=["gradient"], objects=[{0: [(0, 0, 1, 1)]}])
    with pytest.raises(InputError, match="no label is named 'dog'"):
        pm.evaluate(f, pixels(1, 8), methods=["gradient"], objects=[{"dog": [(0, 0, 1, 1)]}])
