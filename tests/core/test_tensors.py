"""Images keep the names of their files where they stay the same images, and have none where they do not."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.tensors import NamedImages
from tests.toys import conv_classifier, pixels

NAMES = ("ant", "bee", "cat", "dog")
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "slice": lambda x: x[1:3],
    "step": lambda x: x[::2],
    "negative": lambda x: x[-1:],
    "list": lambda x: x[[3, 0]],
    "mask": lambda x: x[[True, False, False, True]],
    "tensor": lambda x: x[torch.tensor([2, 2])],
    "boolean tensor": lambda x: x[torch.tensor([False, True, False, True])],
    "array": lambda x: x[np.array([1, 3])],
    "channels": lambda x: x[1:, :1],
    "nothing": lambda x: x[:0],
    "type": lambda x: x.double().to(torch.float32),
    "device": lambda x: x.to("cpu").cpu(),
    "copy": lambda x: copy.deepcopy(x.clone().detach()),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "one image": lambda x: x[0],
    "one channel": lambda x: x[:, 0],
    "joined": lambda x: torch.cat([x[2:], x[:1]]),
    "another order": lambda x: x.flip(0),
    "other pixels": lambda x: x * 0.5,
    "reshaped": lambda x: x.flatten(0, 1),
}


@pytest.fixture
def images() -> NamedImages:
    return NamedImages.of(pixels(4, 8), NAMES)


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_names_follow_their_images(move: Callable[[Tensor], Tensor], images: NamedImages) -> None:
    moved = move(images)
    whole = images[:, : moved.shape[1]]
    expected = [NAMES[next(i for i in range(4) if torch.equal(whole[i], one))] for one in moved]
    assert NamedImages.names_of(moved) == tuple(expected)
    assert torch.equal(moved, move(torch.Tensor(images)))


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_other_images_are_plain_tensors(change: Callable[[Tensor], Tensor], images: NamedImages) -> None:
    assert type(change(images)) is Tensor
    assert NamedImages.names_of(change(images)) is None


def test_a_net_sees_plain_tensors(images: NamedImages) -> None:
    f = conv_classifier(8, 5)
    assert type(f.check_images(images)) is Tensor
    assert torch.equal(f.probabilities(images), f.probabilities(pixels(4, 8)))
    seen: list[type] = []
    f.net.register_forward_pre_hook(lambda _, given: seen.append(type(given[0])))
    f.logits(images)
    assert seen and set(seen) == {Tensor}


def test_they_are_saved_as_any_tensor(images: NamedImages) -> None:
    file = io.BytesIO()
    torch.save(images, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), pixels(4, 8))


def test_there_is_a_name_for_each_image() -> None:
    with pytest.raises(InputError, match="1 names were given for 2 images"):
        NamedImages.of(pixels(2, 8), ["cat"])
