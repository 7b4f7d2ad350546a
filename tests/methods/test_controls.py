"""Maps that know nothing of the net, and the top label's map for every label."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from proofmap.methods import CenteredGaussian, GradientInput, Random, TopLabel, make_method
from tests.toys import conv_classifier, linear_classifier, pixels

SIZE = 8
LABELS = torch.tensor([[0, 2, 1], [1, 3, 0], [3, 2, 1]])


@pytest.fixture(scope="module")
def images() -> Tensor:
    return pixels(3, SIZE)


# ---- random ------------------------------------------------------------------------------------------------


def test_random_maps_are_standard_normal() -> None:
    maps = Random()(linear_classifier(64, 2), pixels(2, 64), torch.tensor([[0], [0]]))
    for map_ in maps[:, 0]:
        assert scipy.stats.kstest(map_.flatten().numpy(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(maps.flatten(1).numpy())[0, 1]) < 0.05


def test_random_is_one_map_for_all_labels_or_one_for_each(images: Tensor) -> None:
    f = linear_classifier(SIZE)
    shared, own = Random()(f, images, LABELS), Random(per_label=True)(f, images, LABELS)
    assert torch.equal(shared[:, 0], shared[:, 1]) and torch.equal(shared[:, 0], shared[:, 2])
    flat = own.flatten(0, 1).flatten(1)
    assert len(torch.unique(flat, dim=0)) == 9
    assert (Random().label_free, Random(per_label=True).label_free) == (True, False)


def test_a_random_map_belongs_to_its_image_label_and_seed_bit_for_bit(images: Tensor) -> None:
    f = linear_classifier(SIZE)
    maps = Random(per_label=True)(f, images, LABELS, seed=7)
    for i in range(3):
        for j in range(3):
            alone = Random(per_label=True)(f, images[i : i + 1], LABELS[i : i + 1, j : j + 1], seed=7)
            assert torch.equal(alone[0, 0], maps[i, j])
    order = torch.tensor([2, 0, 1])
    assert torch.equal(Random()(f, images[order], LABELS[order]), Random()(f, images, LABELS)[order])


def test_random_maps_do_not_depend_on_the_net(images: Tensor) -> None:
    one = Random()(linear_classifier(SIZE, 4), images, LABELS)
    assert torch.equal(Random()(conv_classifier(SIZE, 6), images, LABELS), one)


def test_seed_and_offset_give_other_maps(images: Tensor) -> None:
    f = linear_classifier(SIZE)
    maps = [
        Random()(f, images, LABELS),
        Random()(f, images, LABELS, seed=1),
        Random(seed_offset=1)(f, images, LABELS),
    ]
    assert len({m.sum().item() for m in maps}) == 3


# ---- centred Gaussian --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (32, 32), (12, 5), (224, 224)])
@pytest.mark.parametrize("sigma", [0.1, 0.25, 2.0])
def test_the_order_of_the_bump_is_the_distance_to_the_centre(size: tuple[int, int], sigma: float) -> None:
    f = linear_classifier(size, 2)
    map_ = CenteredGaussian(sigma=sigma)(f, pixels(1, size), torch.tensor([[0]]))[0, 0].double().numpy()
    rows, columns = np.indices(size)
    distance = (rows - (size[0] - 1) / 2) ** 2 + (columns - (size[1] - 1) / 2) ** 2
    _, ranks_of_distance = np.unique(distance, return_inverse=True)
    _, ranks_of_map = np.unique(-map_, return_inverse=True)
    assert np.array_equal(ranks_of_distance.ravel(), ranks_of_map.ravel())


def test_sigma_is_a_share_of_the_shorter_side() -> None:
    map_ = CenteredGaussian(sigma=0.5)(linear_classifier((5, 9), 2), pixels(1, (5, 9)), torch.tensor([[0]]))[
        0, 0
    ]
    assert map_[2, 4] == 1  # the centre
    assert map_[2, 6].item() == pytest.approx(np.exp(-0.5 * (2 / 2.5) ** 2))


# ---- the top label's map -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    ["gradient", "gradient-x-input", "grad-cam", "random:per_label=true", "learned-mask:steps=3,fill=gray"],
)
def test_cheating_shows_the_top_labels_map_for_every_label(spec: str, images: Tensor) -> None:
    f = conv_classifier(SIZE, 4, batch_size=16)
    top = f.probabilities(images).argmax(dim=1, keepdim=True)
    expected = make_method(spec)(f, images, top)
    maps = make_method(f"top-label:{spec}")(f, images, LABELS)
    torch.testing.assert_close(maps, expected.expand(-1, 3, -1, -1))


def test_the_top_label_is_that_of_the_label_set(images: Tensor) -> None:
    f = conv_classifier(SIZE, 4)
    top = int(f.probabilities(images[:1]).argmax())
    rest = [a for a in range(4) if a != top]
    second = f.probabilities(images[:1])[0, rest].argmax()
    maps = TopLabel(of=GradientInput())(f.restricted(rest), images[:1], torch.tensor([[rest[0]]]))
    torch.testing.assert_close(maps, GradientInput()(f, images[:1], torch.tensor([[rest[int(second)]]])))


def test_cheating_is_label_free_and_as_random_as_what_it_wraps() -> None:
    assert TopLabel.wrap("gradient").label_free and not TopLabel.wrap("gradient").stochastic
    assert TopLabel.wrap("random").stochastic
