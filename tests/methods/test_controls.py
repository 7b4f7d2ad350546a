"""Maps that know nothing of the net, and wrappers: the top label's map for every label, blurred and turned-round maps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.methods.controls import Blurred, CenteredGaussian, Edges, Inverse, Random, TopLabel
from proofmap.methods.gradients.plain import GradientInput
from tests.toys import ROWS, SERIES, classifier_of, conv_classifier, linear_classifier, pixels, values

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


# ---- edges -------------------------------------------------------------------------------------------------


def test_edges_are_scipys_sobel_over_all_channels() -> None:
    f, images = conv_classifier((9, 12)), pixels(2, (9, 12))
    maps = Edges()(f, images, LABELS[:2])
    for i in range(2):
        total = np.zeros((9, 12))
        for c in range(3):
            x = images[i, c].double().numpy() / f.std[c]
            total += sum((scipy.ndimage.sobel(x, axis, mode="nearest") / 8) ** 2 for axis in (0, 1))
        np.testing.assert_allclose(maps[i, 0].numpy(), np.sqrt(total), rtol=1e-3, atol=1e-4)


def test_edges_of_a_series_are_its_steps_and_rows_have_none() -> None:
    f, x = classifier_of(SERIES), values(SERIES, 1)
    maps = Edges()(f, x, torch.tensor([[0]]))[0, 0]
    scaled = x[0] / torch.tensor(SERIES.std)[:, None]
    step = (scaled[:, 2:] - scaled[:, :-2]).square().sum(dim=0).sqrt() / 2
    torch.testing.assert_close(maps[1:-1], step)
    with pytest.raises(InputError, match="edges has no meaning for rows: their columns have no neighbours"):
        Edges()(classifier_of(ROWS), values(ROWS, 1), torch.tensor([[0]]))


# ---- blurred and inverse -----------------------------------------------------------------------------------


def test_blurred_is_scipys_gaussian_filter_with_a_border_that_weighs_nothing(images: Tensor) -> None:
    f = conv_classifier(SIZE)
    maps = Blurred(of="gradient-x-input", sigma=0.2)(f, images, LABELS)
    plain = GradientInput()(f, images, LABELS).double().numpy()
    ones = scipy.ndimage.gaussian_filter(np.ones((SIZE, SIZE)), 0.2 * SIZE, mode="constant")
    for i in range(3):
        for j in range(3):
            expected = scipy.ndimage.gaussian_filter(plain[i, j], 0.2 * SIZE, mode="constant") / ones
            np.testing.assert_allclose(maps[i, j].numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spec", ["gradient", "gradient-x-input", "grad-cam"])
def test_inverse_turns_the_order_round(spec: str, images: Tensor) -> None:
    f = conv_classifier(SIZE)
    plain, turned = (make_method(s)(f, images, LABELS) for s in (spec, f"inverse:{spec}"))
    total = plain + turned  # zero, or the largest value of each map
    torch.testing.assert_close(total, total[..., :1, :1].expand_as(total))
    assert plain.flatten(2).argmax(dim=2).equal(turned.flatten(2).argmin(dim=2))
    if not make_method(spec).signed:
        assert turned.min() >= 0


def test_wrappers_are_what_they_wrap() -> None:
    for kind in (Blurred, Inverse):
        for spec in ("gradient", "gradient-x-input", "random", "random:per_label=true"):
            inner, outer = make_method(spec), kind(of=spec)
            for fact in ("label_free", "stochastic", "signed"):
                assert getattr(outer, fact) == getattr(inner, fact), (spec, fact)
            assert outer.cost(5) == inner.cost(5)
    assert make_method("blurred:of=grad-cam,sigma=0.1") == Blurred(of="grad-cam", sigma=0.1)
    assert make_method("inverse:top-label:gradient").title() == "inverse:top-label:gradient"


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
