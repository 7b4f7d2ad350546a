"""Pools of distractors: pictures from anywhere, cropped as the paper's code cropped them, the same for a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.data import TensorData
from proofmap.data.distractors import build_pool
from tests.data.made_up import cifar_batch


def pool(source: Any, shape: tuple[int, int, int] = (3, 8, 8), **options: Any) -> np.ndarray:
    inputs = Pictures(size=shape[1:], mean=(0.0,) * shape[0], std=(1.0,) * shape[0])
    if isinstance(source, list):
        source = np.stack([np.asarray(picture) for picture in source])
    made = build_pool(source, inputs, **{"size": 4, "crop": "none", "seed": 0, **options}).pictures
    assert made.dtype == torch.uint8
    assert made.is_contiguous()
    assert tuple(made.shape[1:]) == shape
    return made.numpy()


def flat(*levels: int, size: tuple[int, int] = (8, 8)) -> list[Image.Image]:
    return [Image.new("RGB", (size[1], size[0]), (level,) * 3) for level in levels]


def place_coded(height: int = 200, width: int = 200) -> Image.Image:
    """Red tells how far right a pixel is, green how far down."""
    y, x = np.mgrid[0.5:height, 0.5:width]
    pixels = np.stack([x / width, y / height, 0 * x], axis=2) * 255
    return Image.fromarray(pixels.round().astype(np.uint8))


def test_without_cropping_each_picture_is_used_once_in_an_order_of_the_seed() -> None:
    levels = list(range(0, 200, 10))
    orders = [pool(flat(*levels), size=99, seed=seed)[:, 0, 0, 0].tolist() for seed in (0, 0, 1)]
    assert sorted(orders[0]) == levels
    assert orders[0] == orders[1] != orders[2]


def test_with_cropping_pictures_are_used_again_and_all_equally_often() -> None:
    made = pool(flat(10, 20, 30), size=12, crop="random")
    levels, counts = np.unique(made[:, 0, 0, 0], return_counts=True)
    assert (levels.tolist(), counts.tolist()) == ([10, 20, 30], [4, 4, 4])
    assert (made == made[:, :1, :1, :1]).all()  # a crop of one colour is that colour


def test_without_cropping_pictures_are_fitted_by_their_middle() -> None:
    (made,) = pool([place_coded(100, 300)], (3, 10, 10))
    assert made[0].mean() / 255 == pytest.approx(0.5, abs=0.02)
    assert made[0, 0, -1] / 255 - made[0, 0, 0] / 255 == pytest.approx(0.9 / 3, abs=0.03)  # the middle third
    assert made[1, -1, 0] / 255 - made[1, 0, 0] / 255 == pytest.approx(0.9, abs=0.03)  # the whole height


def test_crops_have_the_areas_shapes_places_and_flips_of_random_resized_crops() -> None:
    n, side = 400, 20
    made = pool([place_coded()], (3, side, side), size=n, crop="random").astype(float) / 255
    right, down = made[:, 0, side // 2], made[:, 1, :, side // 2]
    spread = side / (side - 1)  # from centres of the outermost pixels to the crop's edges
    width = np.abs(right[:, -1] - right[:, 0]) * spread
    height = (down[:, -1] - down[:, 0]) * spread
    area, aspect = width * height, width / height
    assert height.min() > 0
    assert 0.08 - 0.02 < area.min() < 0.08 + 0.04
    assert area.max() < 1 + 0.02
    assert np.quantile(area, [0.25, 0.5, 0.75]) == pytest.approx([0.31, 0.54, 0.77], abs=0.08)
    assert aspect.min() > 3 / 4 * 0.93
    assert aspect.max() < 4 / 3 * 1.07
    flipped = right[:, -1] < right[:, 0]
    assert flipped.mean() == pytest.approx(0.5, abs=0.1)
    left = np.minimum(right[:, 0], right[:, -1]) - width / side / 2
    free = (1 - width) > 0.2
    assert (left[free] / (1 - width[free])).mean() == pytest.approx(0.5, abs=0.06)
    assert left.min() > -0.02
    assert (left + width).max() < 1.02


@pytest.mark.parametrize(
    "pixels",
    [
        np.full((2, 8, 8), 100, dtype=np.uint8),
        np.full((2, 8, 8, 1), 100, dtype=np.uint8),
        np.full((2, 1, 8, 8), 100, dtype=np.uint8),
        np.full((2, 8, 8), 100 / 255),
    ],
)
def test_gray_pictures_have_three_equal_channels(pixels: np.ndarray) -> None:
    assert (pool(pixels) == 100).all()


def test_pictures_with_transparency_are_taken_without_it() -> None:
    made = pool(np.full((1, 8, 8, 4), (10, 20, 30, 0), dtype=np.uint8))
    assert made[0, :, 4, 4].tolist() == [10, 20, 30]


def test_one_channel_is_the_brightness() -> None:
    made = pool([Image.new("RGB", (8, 8), (255, 0, 0))], (1, 8, 8))
    assert (made == round(0.299 * 255)).all()


@pytest.mark.parametrize(
    "source, message",
    [
        (np.zeros((1, 8, 8, 3)) - 1, r"expected floats in \[0, 1\] or bytes"),
        (np.zeros((1, 8, 8, 7), dtype=np.uint8), r"got \(1, 8, 8, 7\)"),
        ((picture for picture in flat(1)), "images must be bytes"),
        (3, "images must be bytes"),
        ([], "no image was given"),
        (TensorData([[0.5]], kind="rows"), "distractors are pictures; tensors has 1 rows"),
    ],
)
def test_what_are_no_pictures_is_refused(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_pool(source, Pictures(size=(8, 8)), size=4, crop="none", seed=0)


def test_an_unreadable_distractor_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"bad\.png cannot be read"):
        pool(tmp_path)


def test_classifiers_of_other_channels_have_no_pictures() -> None:
    with pytest.raises(InputError, match="1 or 3 channels, the classifier takes 4; use fill='gray'"):
        pool(flat(1), (4, 8, 8))


def test_a_dataset_that_is_written_is_a_source(tmp_path: Path) -> None:
    pixels = cifar_batch(tmp_path / "data_batch_1", 5)
    made = pool(f"cifar10:{tmp_path}[train]", (3, 32, 32), size=9)
    found = {picture.transpose(1, 2, 0).tobytes() for picture in made}
    assert found == {picture.tobytes() for picture in pixels}
