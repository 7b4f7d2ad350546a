"""Occlusion against Captum's, and against the formula on linear nets."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.methods.perturbation.rise import Occlusion
from tests.sessions import bound
from tests.toys import (
    PICTURES,
    ROWS,
    SERIES,
    classifier_of,
    conv_classifier,
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


def test_on_a_linear_net_a_window_of_one_gives_what_each_pixel_adds() -> None:
    f, images = linear_classifier(3), pixels(1, 3)
    maps = Occlusion(window=1, quantity="logit")(f, images, torch.tensor([[2]]))
    net, mean, std = f.net, np.array(f.mean), np.array(f.std)
    x = (images[0].numpy() - mean[:, None, None]) / std[:, None, None]
    expected = (net.weight[2].detach().numpy().reshape(3, 3, 3) * x).sum(axis=0)  # type: ignore[union-attr,operator,index]
    np.testing.assert_allclose(maps[0, 0].numpy(), expected, rtol=1e-4, atol=1e-5)


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
