"""Pictures in arrays: their layouts and ranges, files that run nothing, and CIFAR as it is published."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.data import ArrayImages, TensorData, load_blocks, true_outputs
from proofmap.data.arrays import array_file, cifar10, cifar100, load_cifar, read_cifar
from proofmap.models.names import label_names
from tests.data.made_up import Trap, cifar_batch
from tests.toys import conv_classifier, normal


def pictures(n: int = 4, height: int = 6, width: int = 9, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, channels), dtype=np.uint8)


# ---- layouts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("kind", ["uint8", "float32", "float64", "float16"])
def test_pixels_arrive_as_they_were_given(channels: int, layout: str, kind: str) -> None:
    whole = pictures(channels=channels)
    given = whole if kind == "uint8" else (whole / 255).astype(kind)
    dataset = ArrayImages(given if layout == "nhwc" else given.transpose(0, 3, 1, 2))
    for i in range(4):
        expected = np.broadcast_to(whole[i], (6, 9, max(3, channels)))
        np.testing.assert_array_equal(np.asarray(dataset.read(i)), expected)


def test_a_shape_that_can_be_read_two_ways_must_be_explained() -> None:
    both = pictures(height=3, width=9)
    with pytest.raises(InputError, match=r"\(4, 3, 9, 3\) may be nhwc or nchw; say which with layout"):
        ArrayImages(both)
    assert ArrayImages(both, layout="nhwc").read(0).size == (9, 3)
    assert ArrayImages(both, layout="nchw").read(0).size == (3, 9)


@pytest.mark.parametrize(
    "images, options, told",
    [
        (np.zeros((4, 6, 9, 2), np.uint8), {}, r"1, 3 or 4 channels.*got \(4, 6, 9, 2\)"),
        (np.zeros((4, 3), np.uint8), {}, r"got \(4, 3\)"),
        (np.zeros((4, 0, 9, 3), np.uint8), {}, r"got \(4, 0, 9, 3\)"),
        (np.zeros((4, 6, 9, 3), np.int64), {}, r"bytes \(uint8\) or floats in \[0, 1\], not int64"),
        (np.zeros((4, 6, 9, 3), np.uint8), {"layout": "nchw"}, "with layout nchw"),
        (np.zeros((4, 6, 9, 3), np.uint8), {"layout": "hwc"}, "auto, nhwc, nchw, not 'hwc'"),
        (np.zeros((4, 6, 9, 3), np.uint8), {"labels": [1, 2, 3]}, "labels must be 4 integers"),
        (np.zeros((4, 6, 9, 3), np.uint8), {"labels": np.eye(4)}, "labels must be 4 integers"),
        (
            np.zeros((2, 6, 9, 3), np.uint8),
            {"labels": [0, 2], "label_names": ["a", "b"]},
            "labels go up to 2, but there are 2",
        ),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(
    images: np.ndarray, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        ArrayImages(images, **options)


@pytest.mark.parametrize("value", [255.0, -0.1, 1.01, np.nan, np.inf])
def test_a_value_outside_the_range_fails_its_picture_alone(value: float) -> None:
    images = np.full((3, 8, 8, 3), 0.5)
    images[1, 4, 4, 0] = value
    (block,) = load_blocks(ArrayImages(images), conv_classifier())
    assert block.indices == (0, 2)
    assert list(block.failures) == ["image-00001"]
    assert "divide 8-bit pixels by 255" in block.failures["image-00001"]


def test_labels_are_integers_in_either_usual_shape() -> None:
    for labels in ([3, -1, 0], np.array([[3], [-1], [0]])):
        dataset = ArrayImages(np.zeros((3, 4, 4, 3), np.uint8), labels)
        assert [dataset.truth(i) for i in range(3)] == [3, None, 0]
    assert ArrayImages(np.zeros((3, 4, 4, 3), np.uint8)).truth(0) is None


def test_arrays_in_memory_say_how_to_reach_another_process() -> None:
    with pytest.raises(InputError, match=r"numpy\.savez"):
        ArrayImages(pictures()).settings()


# ---- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("images, labels", [("images", "labels"), ("x", "y"), ("data", "label")])
def test_an_archive_holds_pictures_labels_and_their_names(tmp_path: Path, images: str, labels: str) -> None:
    np.savez_compressed(
        tmp_path / "a.npz",
        **{images: pictures(), labels: [1, 0, 1, 1]},
        label_names=["cat", "dog"],
        other=[1],
    )
    dataset = array_file(tmp_path / "a.npz")
    np.testing.assert_array_equal(np.asarray(dataset.read(3)), pictures()[3])
    assert [dataset.truth(i) for i in range(4)] == [1, 0, 1, 1]
    assert list(dataset.label_names) == ["cat", "dog"]


def test_a_plain_file_is_mapped_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", pictures())
    dataset = array_file(tmp_path / "a.npy")
    assert isinstance(dataset._images, np.memmap)
    np.testing.assert_array_equal(np.asarray(dataset.read(3)), pictures()[3])


@pytest.mark.parametrize("name", ["object.npy", "object.npz", "label.npz", "pickle.npy"])
def test_a_hostile_file_executes_nothing(tmp_path: Path, name: str) -> None:
    mark, file = tmp_path / "executed", tmp_path / name
    trap = np.array([Trap(mark)], dtype=object)
    if name == "pickle.npy":
        file.write_bytes(pickle.dumps(Trap(mark)))
    elif name == "object.npy":
        np.save(file, trap, allow_pickle=True)
    elif name == "object.npz":
        np.savez(file, images=trap)
    else:
        np.savez(file, images=pictures(1), labels=trap)
    with pytest.raises(InputError, match=rf"{name} cannot be read .*Python objects, which are never loaded"):
        array_file(file)
    assert not mark.exists()
    if name.endswith(".npz"):
        with np.load(file, allow_pickle=True) as opened:
            _ = [opened[key] for key in opened.files]
    else:
        np.load(file, allow_pickle=True)
    assert mark.exists(), "the trap was never set, so the test above shows nothing"


@pytest.mark.parametrize("share", [0, 0.2, 0.6, 0.99])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_truncated_file_is_named(tmp_path: Path, suffix: str, share: float) -> None:
    file = tmp_path / f"a{suffix}"
    np.save(file, pictures()) if suffix == ".npy" else np.savez(file, images=pictures())
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=rf"a\{suffix} cannot be read as NumPy arrays"):
        array_file(file)


def test_a_file_without_pictures_says_what_it_has(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weights=np.zeros(3), bias=np.zeros(1))
    with pytest.raises(InputError, match="no array named images or x or data, only weights, bias"):
        array_file(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"b\.npy: images must be"):
        array_file(tmp_path / "b.npy")
    with pytest.raises(InputError, match="there is no file"):
        array_file(tmp_path / "c.npy")


# ---- CIFAR ----------------------------------------------------------------------------------------------------


def test_a_file_of_python_2_is_read_by_colour_and_then_by_row(tmp_path: Path) -> None:
    # the published files: protocol 2, Python 2 strings, and numpy's arrays under their old name
    pixels = np.zeros((2, 3072), dtype=np.uint8)
    pixels[1, 1024 + 2 * 32 + 5] = 255  # green, third row, sixth column
    content = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02"
        + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + b"\x89T"
        + pixels.size.to_bytes(4, "little")
        + pixels.tobytes()
        + b"tbU\x06labels](K\x03K\x08eu."
    )
    (tmp_path / "data_batch_1").write_bytes(content)
    images, labels = load_cifar(tmp_path / "data_batch_1")
    assert images.nonzero().tolist() == [[1, 1, 2, 5]] and float(images.max()) == 1
    assert labels.tolist() == [3, 8]


@pytest.mark.parametrize("nested", [False, True])
def test_cifar10_is_found_as_it_is_unpacked(tmp_path: Path, nested: bool) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    tests = cifar_batch(folder / "test_batch", 3, seed=9)
    parts = [cifar_batch(folder / f"data_batch_{k}", 4, seed=k) for k in (2, 1, 3)]
    (folder / "batches.meta").write_bytes(b"not needed")
    path = tmp_path if nested else folder
    test, train = cifar10(path), cifar10(path, split="train")
    assert (test.title, train.title, len(test), len(train)) == ("cifar10[test]", "cifar10[train]", 3, 12)
    assert (test.names[2], train.names[11]) == ("test-00002", "train-00011")
    np.testing.assert_array_equal(np.asarray(test.read(1)), tests[1])
    for i, (batch, row) in {0: (1, 0), 5: (0, 1), 11: (2, 3)}.items():
        np.testing.assert_array_equal(np.asarray(train.read(i)), parts[batch][row])
    assert test.label_names == label_names("cifar10")


def test_cifar100_has_its_fine_labels(tmp_path: Path) -> None:
    whole = cifar_batch(tmp_path / "cifar-100-python" / "test", 12, key="fine_labels")
    dataset = cifar100(tmp_path)
    assert tuple(dataset.label_names) == label_names("cifar100")
    assert [dataset.truth(i) for i in range(3)] == [0, 1, 2]
    np.testing.assert_array_equal(np.asarray(dataset.read(7)), whole[7])
    with pytest.raises(InputError, match="holds no file train; cifar100 is the folder cifar-100-python"):
        cifar100(tmp_path, split="train")
    with pytest.raises(InputError, match="no split 'val'; choose test or train"):
        cifar100(tmp_path, split="val")


@pytest.mark.parametrize("place", ["whole", "data", "labels", "other"])
def test_a_hostile_batch_runs_nothing(tmp_path: Path, place: str) -> None:
    mark, file = tmp_path / "executed", tmp_path / "evil"
    trap = Trap(mark)
    batch = {"data": np.zeros((1, 3072), np.uint8), "labels": [1]}
    file.write_bytes(pickle.dumps(trap if place == "whole" else {**batch, place: trap}))
    with pytest.raises(
        InputError, match=r"evil is not a CIFAR batch: it asks to load .*nothing was executed"
    ):
        read_cifar(file)
    assert not mark.exists()
    pickle.loads(file.read_bytes())
    assert mark.exists(), "the trap was never set, so the test above shows nothing"


@pytest.mark.parametrize(
    "asked", ["builtins\neval", "builtins\ngetattr", "_codecs\nencode", "numpy\nload", "torch\nload"]
)
def test_a_batch_makes_nothing_but_arrays(tmp_path: Path, asked: str) -> None:
    (tmp_path / "evil").write_bytes(b"\x80\x02c" + asked.encode() + b"\nX\1\0\0\0x\x85R.")
    with pytest.raises(InputError, match="it asks to load"):
        read_cifar(tmp_path / "evil")


BATCH = pickle.dumps({"data": np.zeros((5, 3072), np.uint8), "labels": [1] * 5})


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "Ran out of input"),
        *((BATCH[: int(share * len(BATCH))], "test_batch is not a CIFAR batch") for share in (0.01, 0.99)),
        (b"hello", "not a CIFAR batch"),
        (pickle.dumps([1, 2]), "holds a list, expected a dictionary"),
        (pickle.dumps({b"labels": [1]}), r"has no 'data', only \['labels'\]"),
        (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8)}), "has no 'fine_labels'"),
        (pickle.dumps({"data": np.zeros((1, 99), np.uint8), "labels": [1]}), r"found data \(1, 99\)"),
        (pickle.dumps({"data": np.zeros((1, 3072)), "labels": [1]}), r"of uint8.*found data .* of float64"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}), "with N integer labels"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}), r"labels \(1,\) of <U3"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": None}), "not a CIFAR batch"),
        (pickle.dumps({"data": [1, 2, 3], "labels": [1]}), r"found data \(3,\) of int64"),
    ],
)
def test_a_file_that_is_no_batch_says_why(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(InputError, match=told):
        cifar10(tmp_path)


# ---- series and rows in memory ----

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
    assert [block.failures for block in blocks] == [{}, {}]
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
    assert list(block.failures.values()) == [
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
