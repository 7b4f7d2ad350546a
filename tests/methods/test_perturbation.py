"""Methods that hide or show parts: occlusion against Captum, RISE and greedy insertion against plain loops, and what all of them bear."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.methods import METHODS, make_method
from proofmap.methods.perturbation.additive import GreedyInsertion, Shapley
from proofmap.methods.perturbation.regions import PerturbationMethod, cut
from proofmap.methods.perturbation.rise import RISE, Occlusion, disagreement
from tests.sessions import bound
from tests.toys import (
    PICTURES,
    ROWS,
    SERIES,
    Counted,
    classifier_of,
    conv_classifier,
    conv_net,
    linear_classifier,
    pixels,
    values,
)

LABELS = torch.tensor([[0, 2, 1], [1, 3, 0]])


@pytest.mark.parametrize(
    "size, window, stride", [((8, 8), 3, 2), ((7, 9), 4, 3), ((6, 6), 2, 2), ((5, 8), 5, 1)]
)
@pytest.mark.parametrize("quantity", ["probability", "logit"])
def test_it_is_captums(
    captum: ModuleType, size: tuple[int, int], window: int, stride: int, quantity: str
) -> None:
    f, images = conv_classifier(size), pixels(2, size)
    method = Occlusion(window=window, stride=stride, quantity=quantity)  # type: ignore[arg-type]
    maps = method(f, images, LABELS)
    oracle = captum.Occlusion(lambda x: f(x).softmax(dim=1) if quantity == "probability" else f(x))
    for j in range(LABELS.shape[1]):
        expected = oracle.attribute(
            images,
            sliding_window_shapes=(3, window, window),
            strides=(3, stride, stride),
            target=LABELS[:, j],
            baselines=f.gray.view(1, 3, 1, 1).expand_as(images),
        )[:, 0]
        torch.testing.assert_close(maps[:, j], expected, rtol=1e-3, atol=1e-5)


def test_windows_are_an_eighth_of_the_longest_side_and_overlap_by_half() -> None:
    assert Occlusion().sides(PICTURES) == (2, 1)
    assert Occlusion().sides(SERIES) == (2, 1)
    assert Occlusion().cost(5).forward == 1 + 15 * 15  # 224 x 224: windows of 28, every 14


def test_columns_of_a_table_are_hidden_one_by_one() -> None:
    f, x = classifier_of(ROWS), values(ROWS, 2)
    maps = Occlusion(quantity="logit")(f, x, LABELS)
    for column in range(7):
        hidden = x.clone()
        hidden[:, column] = ROWS.mean[column]
        lost = (f.logits(x) - f.logits(hidden)).gather(1, LABELS)
        torch.testing.assert_close(maps[..., column], lost, rtol=1e-3, atol=1e-5)
    with pytest.raises(InputError, match="leave window out"):
        Occlusion(window=2)(f, x, LABELS)


def test_the_mean_of_the_picture_can_be_what_is_hidden_behind() -> None:
    f, images = linear_classifier(4), pixels(2, 4)
    maps = make_method("occlusion:window=4,fill=none,quantity=logit")(f, images, LABELS)
    flat = images.mean(dim=(2, 3), keepdim=True).expand_as(images)
    lost = (f.logits(images) - f.logits(flat)).gather(1, LABELS)
    torch.testing.assert_close(maps[:, :, 0, 0], lost, rtol=1e-3, atol=1e-5)


def test_a_stride_that_leaves_gaps_is_refused() -> None:
    with pytest.raises(InputError, match="stride must be at most the window, 2"):
        Occlusion(window=2, stride=3)
    with pytest.raises(InputError, match="stride must be at most the window, 2"):  # an eighth of 10
        bound(Occlusion(stride=3), classifier_of(PICTURES))


# ---- all of them ---------------------------------------------------------------------------------------------


SMALL = {
    "occlusion": "occlusion:window=3",
    "rise": "rise:masks=20,grid=3",
    "shapley": "shapley:orders=2,regions=6",
    "kernel-shap": "kernel-shap:samples=20,regions=6",
    "greedy-insertion": "greedy-insertion:regions=4",
    "belief-order": "belief-order:regions=4",
}
SPECS = pytest.mark.parametrize("spec", SMALL.values(), ids=SMALL)
OF_VALUES = pytest.mark.parametrize("spec", [spec for name, spec in SMALL.items() if name != "belief-order"])
"""Without belief orders, which compare probabilities with f alone: there is no other quantity, and those below 1e-7 are equal."""
BOTH_LABELS = torch.tensor([[0, 2], [1, 0]])


def test_these_are_all() -> None:
    ours = {name for name in METHODS if issubclass(METHODS[name], PerturbationMethod)}
    assert set(SMALL) == ours - {"shap"}  # which has a file of its own


@SPECS
def test_labels_may_be_independent_and_few(spec: str) -> None:
    f = Classifier(conv_net(), size=6, outputs="sigmoid", batch_size=64)
    maps = make_method(spec)(f, pixels(1, 6), BOTH_LABELS[:1])
    few = Classifier(conv_net(), size=6, batch_size=64).restricted([0, 2])
    assert maps.shape == make_method(spec)(few, pixels(1, 6), BOTH_LABELS[:1]).shape


@OF_VALUES
@pytest.mark.parametrize("quantity", ["probability", "log-probability", "logit"])
def test_a_place_without_a_label_is_zero_where_the_first_label_does_not_count(
    spec: str, quantity: str
) -> None:
    f = Classifier(conv_net(), size=6, batch_size=64, label_set=[1, 2, 3])
    method = make_method(f"{spec},quantity={quantity}")
    maps = method(f, pixels(2, 6), torch.tensor([[2, 3], [1, -1]]))
    assert bool((maps[1, 1] == 0).all()) and bool((maps[1, 0] != 0).any())


@OF_VALUES
def test_maps_of_a_label_that_the_net_finds_nearly_impossible_keep_their_order(spec: str) -> None:
    def unlikely(x: torch.Tensor) -> torch.Tensor:
        """f of the first label is 10^-16 times that of the third; both depend on the input alike."""
        seen = (x[:, :, :3, :3].mean(dim=(1, 2, 3)) + 0.3 * x[:, :, 3:, 3:].mean(dim=(1, 2, 3)))[:, None]
        return seen + torch.tensor([-36.84, 0.0, 0.0]) - torch.tensor([0.0, 2.0, 0.0]) * seen

    f, images = Classifier(unlikely, size=6, batch_size=64), 0.5 + pixels(1, 6) / 2
    rare, likely = make_method(f"{spec},quantity=probability")(f, images, BOTH_LABELS[:1])[0].flatten(1)
    both = torch.stack([rare / rare.abs().max(), likely / likely.abs().max()])
    assert torch.corrcoef(both)[0, 1] > 0.9


class Small(Counted):
    """A net that runs out of memory with more than eight images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().forward(x)


@pytest.mark.parametrize("spec", [SMALL["rise"], SMALL["greedy-insertion"]])
def test_running_out_of_memory_halves_the_batch_and_changes_nothing(spec: str) -> None:
    small, large = (Classifier(kind(conv_net()), size=6, batch_size=16) for kind in (Small, Counted))
    with pytest.warns(UserWarning, match="out of memory"):
        maps = make_method(spec)(small, pixels(2, 6), BOTH_LABELS)
    torch.testing.assert_close(maps, make_method(spec)(large, pixels(2, 6), BOTH_LABELS))


# ---- RISE ----------------------------------------------------------------------------------------------------


def mask_of(key: Tensor, size: tuple[int, int], grid: int, shown: float) -> Tensor:
    """One mask as the paper makes it: a grid enlarged to one cell more than the input, cut out at a random shift."""
    bits = (streams.uniform(key, grid * grid) < shown).float().view(1, 1, grid, grid)
    cells = [-(-side // grid) for side in size]
    large = F.interpolate(bits, size=[(grid + 1) * cell for cell in cells], mode="bilinear")[0, 0]
    y, x = (int(streams.integers(key, 1, cell, start=grid * grid + k)) for k, cell in enumerate(cells))
    return large[y : y + size[0], x : x + size[1]]


@pytest.mark.parametrize("coverage", [True, False])
def test_it_is_a_ten_line_loop(coverage: bool) -> None:
    f, images, n = classifier_of(PICTURES), values(PICTURES, 2), 30
    maps = RISE(masks=n, grid=3, shown=0.4, coverage=coverage)(f, images, LABELS, seed=5)
    gray = f.gray.view(3, 1, 1)
    for i in range(2):
        key = streams.image_keys(images[i : i + 1], 5, "rise")
        total, masks = torch.zeros(4, 8, 10), torch.zeros(8, 10)
        for k in range(n):
            mask = mask_of(streams.step_keys(key, torch.tensor([k]), 1)[0, 0], (8, 10), 3, 0.4)
            total += f.probabilities((gray + mask * (images[i] - gray))[None])[0].view(-1, 1, 1) * mask
            masks += mask
        expected = total / (masks.clamp_min(1e-6) if coverage else n * 0.4)
        torch.testing.assert_close(maps[i], expected[LABELS[i]], rtol=1e-3, atol=1e-5)


def test_masks_show_the_share_they_are_asked_for_and_are_never_kept() -> None:
    keys = streams.step_keys(torch.tensor([1]).expand(4000), torch.arange(4000), 1)[:, 0]
    masks = RISE(shown=0.3).random_masks(keys, PICTURES)
    assert masks.shape == (4000, 8, 10) and masks.min() >= 0 and masks.max() <= 1
    assert masks.mean().item() == pytest.approx(0.3, abs=0.01)


class Spot(nn.Module):
    """One label looks at the upper left corner, one at nothing, one against the corner."""

    def forward(self, x: Tensor) -> Tensor:
        corner = x[:, :, :4, :4].mean(dim=(1, 2, 3))
        return torch.stack([6 * corner, torch.zeros_like(corner), -6 * corner], dim=1)


def spot_classifier(batch_size: int = 128) -> Classifier:
    return Classifier(Spot(), size=8, batch_size=batch_size)


def test_it_stops_when_two_halves_of_the_masks_agree_and_the_map_is_then_near_the_true_one() -> None:
    f, images = spot_classifier(), 0.5 + pixels(2, 8) / 2
    labels = torch.tensor([[0], [0]])
    long = RISE(masks=3000, tolerance=0, grid=3)(f, images, labels, seed=1)
    for tolerance in (0.2, 0.02):
        short = RISE(masks=3000, tolerance=tolerance, grid=3)(f, images, labels)
        for i in range(2):
            r = np.corrcoef(short[i].flatten(), long[i].flatten())[0, 1]
            assert r > 1 - tolerance
    assert not torch.equal(short, long)


def test_less_tolerance_takes_more_masks_up_to_all_of_them() -> None:
    class Counting(nn.Module):
        seen = 0

        def forward(self, x: Tensor) -> Tensor:
            Counting.seen += len(x)
            return Spot()(x)

    f, images = Classifier(Counting(), size=8, batch_size=250), 0.5 + pixels(1, 8) / 2
    f.frozen()  # which looks at the net
    taken = []
    for tolerance in (0.5, 0.001, 0.0):
        Counting.seen = 0
        RISE(masks=2000, tolerance=tolerance, grid=3)(f, images, torch.tensor([[0]]))
        taken.append(Counting.seen)
    assert taken[0] == 500 < taken[1] <= taken[2] == 2000


def test_disagreement_is_what_spearman_and_brown_say() -> None:
    halves = torch.stack([pixels(1, 9).flatten(), pixels(1, 9, seed=1).flatten() + pixels(1, 9).flatten()])
    r = np.corrcoef(halves.numpy())[0, 1]
    assert disagreement(halves).item() == pytest.approx(1 - 2 * r / (1 + r), abs=1e-5)


# ---- greedy insertion ----------------------------------------------------------------------------------------


SIZE = 6
TWO_BY_THREE = torch.tensor([[0, 2, 1], [1, 3, 0]])


def greedy_order(f: Classifier, image: Tensor, index: Tensor, count: int, label: int) -> list[int]:
    shown: list[int] = []
    while len(shown) < count:
        best, value = -1, -1.0
        for region in sorted(set(range(count)) - set(shown)):
            keep = torch.isin(index, torch.tensor([*shown, region]))
            x = torch.where(keep, image, f.gray.view(3, 1, 1))
            found = float(f.probabilities(x[None])[0, label])
            best, value = (region, found) if found > value else (best, value)
        shown.append(best)
    return shown


def test_it_is_the_order_of_a_plain_search() -> None:
    f, images = conv_classifier(SIZE), pixels(2, SIZE)
    maps = GreedyInsertion(regions=6)(f, images, TWO_BY_THREE)
    regions = cut(images, f.inputs, 6, "slic", 10.0)
    for i in range(2):
        for j in range(3):
            order = greedy_order(f, images[i], regions.index[i], regions.count, int(TWO_BY_THREE[i, j]))
            for place, region in enumerate(order):
                values = maps[i, j][regions.index[i] == region]
                assert (values == 1 - place / regions.count).all()


def test_on_a_linear_net_it_is_the_order_of_what_regions_add() -> None:
    """Of the two labels' difference of logits, since the others gain what one loses."""
    f, images = linear_classifier(SIZE, 2), pixels(1, SIZE)
    labels = torch.tensor([[0, 1]])
    maps = GreedyInsertion(regions=9, superpixels="grid")(f, images, labels)[0]
    added = Shapley(orders=1, regions=9, superpixels="grid", quantity="logit")(f, images, labels)[0]
    ranks = (added[0] - added[1]).flatten().argsort(stable=True)
    assert (maps[0].flatten()[ranks].diff() >= 0).all() and (maps[1].flatten()[ranks].diff() <= 0).all()


def test_one_candidate_at_a_time_still_orders_all_regions() -> None:
    f, labels = conv_classifier(SIZE), torch.tensor([[0, 1, 2, 3]])
    maps = GreedyInsertion(regions=4, superpixels="grid", candidates=1)(f, pixels(1, SIZE), labels)[0]
    assert all(map_.unique().tolist() == [0.25, 0.5, 0.75, 1.0] for map_ in maps)


def test_a_label_that_is_impossible_until_late_still_gets_an_order_of_all_regions() -> None:
    def corner(x: Tensor) -> Tensor:
        seen = (x[:, 0, -1, -1] > 0.5).float()
        return torch.stack([seen, 1 - seen], dim=1)

    f, images = Classifier(corner, size=SIZE, outputs="probabilities"), torch.ones(1, 3, SIZE, SIZE)
    maps = GreedyInsertion(regions=4, superpixels="grid")(f, images, torch.tensor([[0, 1]]))[0]
    assert maps[0, -1, -1] == 1 and maps[1, -1, -1] == 0.25
    assert all(map_.unique().tolist() == [0.25, 0.5, 0.75, 1.0] for map_ in maps)
