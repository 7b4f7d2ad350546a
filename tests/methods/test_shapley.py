"""Shapley values: exact on linear nets, near to enumeration elsewhere; and the superpixels that they are of."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import skimage
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.inputs import Pictures
from proofmap.methods import make_method
from proofmap.methods.perturbation.regions import Regions, cells_of, colours, cut, region_means, slic
from tests.toys import PICTURES, ROWS, SERIES, conv_classifier, linear_classifier, pixels, values

SIZE = 6
BOTH = ["shapley:orders={n}", "kernel-shap:samples={n}"]
LABELS = torch.tensor([[0, 2, 1], [1, 3, 0]])


def values_of(maps: Tensor, regions: Regions) -> Tensor:
    """One value per region ``(N, L, K)``, and a check that a map is constant on each."""
    index = regions.index.flatten(1)[:, None].expand(-1, maps.shape[1], -1)
    found = torch.zeros(*maps.shape[:2], regions.count).scatter(2, index, maps.flatten(2))
    assert torch.equal(found.gather(2, index), maps.flatten(2))
    return found


def said(f: Classifier, image: Tensor, regions: Regions, i: int, shown: set[int], hidden: Tensor) -> Tensor:
    keep = torch.tensor([k in shown for k in range(regions.count)])[regions.index[i]]
    return f.probabilities(torch.where(keep, image, hidden)[None])[0]


def enumerated(f: Classifier, images: Tensor, regions: Regions) -> Tensor:
    """phi by its definition, over all sets: ``(N, K, A)``."""
    n, hidden = regions.count, f.gray.view(3, 1, 1)
    rows = []
    for i, image in enumerate(images):
        v = {
            frozenset(s): said(f, image, regions, i, set(s), hidden)
            for k in range(n + 1)
            for s in itertools.combinations(range(n), k)
        }
        row = []
        for r in range(n):
            weight = {k: math.factorial(k) * math.factorial(n - k - 1) / math.factorial(n) for k in range(n)}
            row.append(sum(weight[len(s)] * (v[s | {r}] - v[s]) for s in v if r not in s))
        rows.append(torch.stack(row))  # type: ignore[arg-type]
    return torch.stack(rows)


@pytest.mark.parametrize("spec", [BOTH[0].format(n=600), BOTH[1].format(n=2000)])
def test_they_are_near_to_the_sum_over_all_sets(spec: str) -> None:
    f, images = conv_classifier(SIZE, batch_size=500), pixels(1, SIZE)
    maps = make_method(f"{spec},regions=4,superpixels=grid")(f, images, LABELS[:1])
    regions = cut(images, f.inputs, 4, "grid", 10.0)
    expected = enumerated(f, images, regions)[0, :, LABELS[0]].T
    found = values_of(maps, regions)[0]
    assert (found - expected).abs().max() < 0.03 * expected.abs().max()


@pytest.mark.parametrize("spec", [BOTH[0].format(n=1), BOTH[0].format(n=3), BOTH[1].format(n=40)])
@pytest.mark.parametrize("fill", ["gray", "noise", "none"])
def test_they_add_up_to_what_the_input_says_beyond_the_fill(spec: str, fill: str) -> None:
    """With a random fill, to what it says beyond the backgrounds that were drawn."""
    f, images = conv_classifier(SIZE), pixels(2, SIZE)
    method = make_method(f"{spec},regions=9,fill={fill},superpixels=grid")
    regions = cut(images, f.inputs, 9, "grid", 10.0)
    total = values_of(method(f, images, LABELS), regions).sum(dim=2)
    whole = f.probabilities(images).gather(1, LABELS)
    hidden = {
        "gray": f.gray.view(1, 3, 1, 1).expand_as(images),
        "none": images.view(2, 3, 3, 2, 3, 2)
        .mean(dim=(3, 5), keepdim=True)
        .expand(-1, -1, -1, 2, -1, 2)
        .reshape(images.shape),
    }
    if fill in hidden:
        torch.testing.assert_close(
            total, whole - f.probabilities(hidden[fill]).gather(1, LABELS), rtol=1e-4, atol=1e-6
        )
    else:  # the values of all four labels add up to nothing, whatever was drawn
        everything = method(f, images, torch.tensor([[0, 1, 2, 3]]).expand(2, -1))
        torch.testing.assert_close(everything.sum(dim=1), torch.zeros(2, SIZE, SIZE), rtol=0, atol=1e-5)
        assert not torch.allclose(total, torch.zeros_like(total), atol=1e-3)


@pytest.mark.parametrize("spec", [BOTH[0].format(n=1), BOTH[0].format(n=4), BOTH[1].format(n=60)])
def test_they_are_exact_on_a_linear_net(spec: str) -> None:
    f, images = linear_classifier(SIZE), pixels(2, SIZE)
    maps = make_method(f"{spec},regions=9,quantity=logit")(f, images, LABELS)
    regions = cut(images, f.inputs, 9, "slic", 10.0)
    x = (images - f.gray.view(3, 1, 1)) / torch.tensor(f.std).view(3, 1, 1)
    weight = f.net.weight.detach().view(4, 3, SIZE, SIZE)  # type: ignore[union-attr,operator]
    pixel = (weight * x[:, None]).sum(dim=2).flatten(2)  # (N, A, n)
    index = regions.index.flatten(1)[:, None].expand_as(pixel)
    expected = torch.zeros(2, 4, regions.count).scatter_add(2, index, pixel)
    expected = expected.gather(1, LABELS[:, :, None].expand(-1, -1, regions.count))
    expected = expected.masked_fill((regions.sizes() == 0)[:, None], 0.0)
    torch.testing.assert_close(values_of(maps, regions), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("spec", ["shapley", "kernel-shap:samples=4"])
def test_a_single_region_has_it_all(spec: str) -> None:
    f, images = conv_classifier(SIZE), pixels(2, SIZE)
    maps = make_method(f"{spec}{',' if ':' in spec else ':'}regions=1")(f, images, LABELS)
    gray = f.gray.view(1, 3, 1, 1).expand_as(images)
    expected = (f.probabilities(images) - f.probabilities(gray)).gather(1, LABELS)
    torch.testing.assert_close(maps[:, :, 0, 0], expected, rtol=1e-4, atol=1e-5)


# ---- superpixels ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    small = skimage.transform.resize(skimage.data.astronaut(), (96, 96), anti_aliasing=True)
    return torch.from_numpy(np.ascontiguousarray(small.transpose(2, 0, 1))).float()[None]


def explained(regions: np.ndarray, picture: np.ndarray) -> float:
    """The share of the variance of colour that the regions' means have (Moore et al. 2008)."""
    means = np.zeros_like(picture)
    for region in np.unique(regions):
        means[regions == region] = picture[regions == region].mean(axis=0)
    return float(
        ((means - picture.mean(axis=(0, 1))) ** 2).sum() / ((picture - picture.mean((0, 1))) ** 2).sum()
    )


def test_colours_are_cielab() -> None:
    images = pixels(1, 6)
    expected = skimage.color.rgb2lab(images[0].permute(1, 2, 0).numpy())
    np.testing.assert_allclose(colours(images)[0].permute(1, 2, 0).numpy(), expected, atol=0.05)


def test_superpixels_explain_as_much_of_a_photo_as_those_of_scikit_image(photo: torch.Tensor) -> None:
    picture = skimage.color.rgb2lab(photo[0].permute(1, 2, 0).numpy())
    theirs = skimage.segmentation.slic(
        photo[0].permute(1, 2, 0).numpy(), n_segments=64, compactness=10, start_label=0
    )
    ours = cut(photo, Pictures(size=96), 64, "slic", 10.0)
    grid = cut(photo, Pictures(size=96), 64, "grid", 10.0)
    assert ours.count == 64 and int(ours.index.max()) < 64
    own, their, even = (
        explained(np.asarray(regions), picture) for regions in (ours.index[0], theirs, grid.index[0])
    )
    assert own > their - 0.02 and own > even + 0.1


def test_a_superpixel_does_not_cross_a_strong_edge() -> None:
    image = torch.zeros(1, 3, 20, 30)
    image[:, :, :, 17:] = 1.0  # not at the border of a cell
    index = slic(image, (4, 6), 10.0)
    left, right = index[0, :, :17].unique(), index[0, :, 17:].unique()
    assert not set(left.tolist()) & set(right.tolist())


def test_a_picture_of_one_colour_is_cut_evenly_and_batches_change_nothing(photo: torch.Tensor) -> None:
    flat = torch.full_like(photo, 0.5)
    both = slic(torch.cat([photo, flat]), (8, 8), 10.0)
    assert torch.equal(both[1], cut(flat, Pictures(size=96), 64, "grid", 10.0).index[0])
    assert torch.equal(both[:1], slic(photo, (8, 8), 10.0))


def test_series_have_segments_and_rows_have_columns() -> None:
    series = cut(values(SERIES, 1), SERIES, 4, "slic", 10.0)
    assert series.index.tolist() == [[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]]
    rows = cut(values(ROWS, 1), ROWS, 4, "slic", 10.0)
    assert rows.index.tolist() == [[0, 1, 2, 3, 4, 5, 6]] and rows.count == 7


@pytest.mark.parametrize("count, expected", [(1, (1, 1)), (20, (4, 5)), (500, (8, 10))])
def test_there_are_about_as_many_regions_as_asked_for(count: int, expected: tuple[int, int]) -> None:
    assert cells_of(PICTURES, count) == expected


def test_the_means_of_regions_are_means() -> None:
    images = pixels(2, (4, 6))
    inputs = Pictures(size=(4, 6))
    regions = cut(images, inputs, 6, "grid", 10.0)
    found = region_means(images, regions.index, inputs)
    expected = images.view(2, 3, 2, 2, 3, 2).mean(dim=(3, 5), keepdim=True).expand(-1, -1, -1, 2, -1, 2)
    torch.testing.assert_close(found, expected.reshape(2, 3, 4, 6))
