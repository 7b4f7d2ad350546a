"""Series and rows in memory: the numbers arrive as they are, and what does not fit is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.data import TensorData, load_blocks, true_outputs
from tests.toys import conv_classifier, normal

CHANNELS, STEPS = 2, 7
SERIES = Series(length=STEPS, mean=(1.0, -2.0), std=(3.0, 0.5))
ROWS = Rows(columns=5, mean=(0.0,) * 5, std=(1.0,) * 5)


def classifier(inputs: Inputs = SERIES) -> Classifier:
    return Classifier(nn.Flatten(), inputs=inputs)


@pytest.mark.parametrize(
    "inputs, values", [(SERIES, normal(9, CHANNELS, STEPS)), (ROWS, normal(9, 5))], ids=["series", "rows"]
)
@pytest.mark.parametrize("given_as", [torch.clone, torch.Tensor.numpy, torch.Tensor.tolist])
def test_the_loader_gives_the_values_as_they_are(inputs: Inputs, values: torch.Tensor, given_as: Any) -> None:
    dataset = TensorData(given_as(values), kind=inputs.kind)
    blocks = list(load_blocks(dataset, classifier(inputs), [3, 0, 8, 8], block_size=3))
    assert [block.failures for block in blocks] == [(), ()]
    assert torch.equal(torch.cat([block.images for block in blocks]), values[[3, 0, 8, 8]])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool])
def test_numbers_of_any_type_are_read_as_float32(dtype: torch.dtype) -> None:
    values = (10 * normal(3, CHANNELS, STEPS)).to(dtype)
    dataset = TensorData(values, kind="series")
    for i in range(3):
        assert torch.equal(torch.from_numpy(dataset.read(i)), values[i].float())


def test_labels_find_the_outputs_of_the_net() -> None:
    dataset = TensorData(normal(3, 5), torch.tensor([1, -1, 0]), kind="rows", label_names=["cat", "dog"])
    assert true_outputs(dataset, ["dog", "cup", "cat"]) == [(0,), (), (2,)]
    assert [TensorData(normal(3, 5), [4, 0, 2], kind="rows").truth(i) for i in range(3)] == [4, 0, 2]


def test_a_net_of_another_kind_is_refused_before_anything_is_read() -> None:
    beats = TensorData(normal(3, CHANNELS, STEPS), kind="series", title="beats")
    with pytest.raises(
        InputError,
        match=r"^beats holds series, but the classifier takes rows; name a model that takes series",
    ):
        load_blocks(beats, classifier(ROWS))
    with pytest.raises(
        InputError, match=r"^beats holds series, but the classifier takes pictures; name a model"
    ):
        load_blocks(beats, conv_classifier())


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e300])
def test_a_value_that_is_not_finite_fails_its_item_alone(value: float) -> None:
    values = np.zeros((3, 5))
    values[1, 4] = value
    (block,) = load_blocks(TensorData(values, kind="rows", title="scores"), classifier(ROWS))
    assert block.indices == (0, 2)
    assert [failure.reason for failure in block.failures] == [
        "row-00001 of scores has NaN or infinity; remove this item, or replace the values"
    ]


def test_the_digest_tells_items_apart_that_have_the_same_numbers() -> None:
    numbers = normal(12)
    forms = [
        TensorData(numbers.view(1, 12), kind="rows"),
        TensorData(numbers.view(1, 2, 6), kind="series"),
        TensorData(numbers.view(1, 6, 2), kind="series"),
        TensorData(numbers.view(1, 1, 12), kind="series"),
    ]
    assert len({dataset.digest(0) for dataset in forms}) == 4


@pytest.mark.parametrize(
    "values, options, told",
    [
        (normal(3, 5), {"kind": "series"}, r"series must be \(N, channels, time steps\), got \(3, 5\)"),
        (normal(3, 2, 5), {"kind": "rows"}, r"rows must be \(N, columns\), got \(3, 2, 5\)"),
        (normal(3, 0), {"kind": "rows"}, r"rows must be \(N, columns\), got \(3, 0\)"),
        (normal(3, 5), {"kind": "scents"}, "kind must be one of pictures, series, rows, .*, not 'scents'$"),
        (normal(3, 4, 4), {"kind": "pictures"}, r"pictures must be \(N, channels, height, width\), got"),
        ([["a", "b"]], {"kind": "rows"}, "the values of rows must be numbers, not <U1"),
        ([[1, 2], [3]], {"kind": "rows"}, "the values of rows must be one array of numbers"),
        (
            normal(2, 5),
            {"kind": "rows", "names": ["a"]},
            "names must be 2 distinct names, one per item, got 1",
        ),
        (normal(2, 5), {"kind": "rows", "names": ["a", "a"]}, "names must be 2 distinct names"),
        (normal(2, 5), {"kind": "rows", "labels": [1]}, "labels must be 2 integers, one per item"),
        (
            normal(2, 5),
            {"kind": "rows", "labels": [0, 2], "label_names": ["a", "b"]},
            "labels go up to 2, but there are 2 label names",
        ),
    ],
)
def test_what_is_no_data_of_the_kind_is_refused(values: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        TensorData(values, **options)
