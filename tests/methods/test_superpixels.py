"""Superpixels follow colour, as scikit-image's do; segments and columns are what they are called."""

from __future__ import annotations

import numpy as np
import pytest
import skimage
import torch

from proofmap.core.inputs import Pictures
from proofmap.methods.perturbation.regions import cells_of, colours, cut, region_means, slic
from tests.toys import PICTURES, ROWS, SERIES, pixels, values


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
