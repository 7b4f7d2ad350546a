"""Hugging Face's datasets: columns found by type, bytes decoded here, and a clear word where the library is missing."""

from __future__ import annotations

import importlib
import importlib.util
import io
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import proofmap as pm
from proofmap.core.errors import InputError, MissingExtra
from proofmap.core.files import digest_of
from proofmap.core.inputs import Text
from proofmap.data import load_blocks, load_dataset, rebuild_dataset, true_outputs
from proofmap.data.given import as_dataset
from proofmap.data.huggingface import HuggingFaceImages, hugging_face
from proofmap.data.texts import TextData
from tests.data.made_up import bomb, jpeg, noise, save
from tests.toys import conv_classifier

pytestmark = pytest.mark.filterwarnings("ignore")  # what their library warns of is not ours to fix


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The package datasets, without network."""
    if importlib.util.find_spec("datasets") is None:
        pytest.skip("datasets is not installed")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        module = importlib.import_module("datasets")
        module.disable_progress_bars()
        return module


def png(seed: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(noise(seed)).save(buffer, "PNG")
    return buffer.getvalue()


def rows(library: ModuleType, cells: list[Any], labels: list[int] | None = None) -> Any:
    """A dataset whose column ``picture`` holds encoded images (bytes, or the path of a file)."""
    features: dict[str, Any] = {"note": library.Value("string"), "picture": library.Image()}
    columns: dict[str, Any] = {
        "note": ["x"] * len(cells),
        "picture": [str(cell) if isinstance(cell, Path) else cell for cell in cells],
    }
    if labels is not None:
        features["kind"] = library.ClassLabel(names=["cat", "dog"])
        columns["kind"] = labels
    return library.Dataset.from_dict(columns, features=library.Features(features))


def test_pictures_and_labels_are_found_by_their_types(library: ModuleType, tmp_path: Path) -> None:
    file = save(tmp_path, "c.png", 2)
    dataset = HuggingFaceImages(rows(library, [png(0), png(1), file], [1, 0, -1]))
    assert list(dataset.names) == ["image-00000", "image-00001", "image-00002"]
    for i in range(3):
        np.testing.assert_array_equal(np.asarray(dataset.read(i)), noise(i))
    assert [dataset.truth(i) for i in range(3)] == [1, 0, None]
    assert true_outputs(dataset, ["dog", "cup", "cat"]) == [(0,), (2,), ()]
    assert dataset.digest(1) == digest_of(png(1))
    assert dataset.digest(2) == digest_of(file.read_bytes())


def test_a_bad_picture_is_named_and_the_rest_arrives(library: ModuleType, tmp_path: Path) -> None:
    cells = [png(0), jpeg()[:300], bomb(20_000), None, tmp_path / "gone.png", png(5)]
    (block,) = load_blocks(HuggingFaceImages(rows(library, cells), title="hf:mine"), conv_classifier())
    assert block.indices == (0, 5)
    assert list(block.failures) == [f"image-0000{i}" for i in (1, 2, 3, 4)]
    for (name, reason), told in zip(
        block.failures.items(),
        ("cannot be read as an image", "is too large", "is empty", "gone.png"),
        strict=True,
    ):
        assert f"{name} of hf:mine" in reason and told in reason


def test_a_folder_of_theirs_can_be_named(library: ModuleType, tmp_path: Path) -> None:
    whole = library.DatasetDict(
        test=rows(library, [png(0), png(1)], [0, 1]), train=rows(library, [png(2)], [1])
    )
    whole.save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}[test]")
    assert dataset.title == "hf:saved[test]" and len(dataset) == 2
    np.testing.assert_array_equal(np.asarray(dataset.read(1)), noise(1))
    other = rebuild_dataset(dataset.settings())
    assert [other.digest(i) for i in range(2)] == [dataset.digest(i) for i in range(2)]
    with pytest.raises(InputError, match=r"has the splits test, train; choose one: .*\[test\]"):
        load_dataset(f"hf:{tmp_path / 'saved'}")
    with pytest.raises(InputError, match=r"hf:saved\[val\] cannot be loaded"):
        load_dataset(f"hf:{tmp_path / 'saved'}[val]")


def test_a_folder_of_parquet_files_can_be_named(library: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    rows(library, [png(i) for i in range(5)], [0, 1, 0, 1, 0]).to_parquet(tmp_path / "p" / "train-0.parquet")
    dataset = load_dataset(f"hf:{tmp_path / 'p'}[train[:3]]?label=kind")
    assert len(dataset) == 3 and dataset.names[2] == "train-00002"
    assert [dataset.truth(i) for i in range(3)] == [0, 1, 0]
    np.testing.assert_array_equal(np.asarray(dataset.read(2)), noise(2))


def test_what_is_no_dataset_of_pictures_is_refused(library: ModuleType) -> None:
    text = library.Dataset.from_dict({"note": ["a"]})
    with pytest.raises(InputError, match="no column of images; its columns are note"):
        HuggingFaceImages(text)
    with pytest.raises(InputError, match="with a length, not IterableDataset"):
        HuggingFaceImages(text.to_iterable_dataset())
    with pytest.raises(InputError, match=r"no column 'note' of Images, only \['picture'\]"):
        HuggingFaceImages(rows(library, [png(0)]), image="note")
    two = rows(library, [png(0)]).add_column("second", [png(1)]).cast_column("second", library.Image())
    with pytest.raises(
        InputError, match=r"several columns of Images \(picture, second\): name one, image=picture"
    ):
        HuggingFaceImages(two)
    np.testing.assert_array_equal(np.asarray(HuggingFaceImages(two, image="second").read(0)), noise(1))


def reviews(library: ModuleType) -> Any:
    """Texts with class labels, one of them unknown, and a column of numbers."""
    features = library.Features(
        {
            "review": library.Value("string"),
            "stars": library.ClassLabel(names=["bad", "good"]),
            "length": library.Value("int64"),
        }
    )
    columns = {"review": ["Good film.", "Bad plot.", "Good."], "stars": [1, 0, -1], "length": [2, 2, 1]}
    return library.Dataset.from_dict(columns, features=features)


def test_pictures_in_memory_are_judged_with_their_labels(library: ModuleType) -> None:
    net = conv_classifier(8, names=["dog", "cat", "cup", "car"])
    given = rows(library, [{"bytes": png(k), "path": None} for k in range(3)], [0, 1, 0])
    found = pm.evaluate(net, given, methods="gradient", labels="true", metrics="soundness")
    assert found.labels.tolist() == [[1], [0], [1]] and len(found.images) == 3


def test_texts_in_memory(library: ModuleType) -> None:
    rows = reviews(library)
    for given in (
        rows,
        rows.with_format("torch"),
        rows.with_format("arrow"),
        library.DatasetDict(test=rows),
    ):
        data = as_dataset(given, Text(length=4))
        assert isinstance(data, TextData) and data.texts == ["Good film.", "Bad plot.", "Good."]
        assert [data.truth(i) for i in range(3)] == [1, 0, None] and data.label_names == ("bad", "good")
    column = rows.select([1, 2])["review"]
    assert Text(length=4).takes(column)
    with pytest.raises(InputError, match=r'has the splits test, train; choose one: dataset\["test"\]'):
        as_dataset(library.DatasetDict(test=rows, train=rows), Text())


def test_texts_of_a_saved_dataset(library: ModuleType, tmp_path: Path) -> None:
    rows, alone, both = reviews(library), tmp_path / "alone", tmp_path / "both"
    rows.save_to_disk(alone)
    library.DatasetDict(test=rows, train=rows.select([0])).save_to_disk(both)
    for spec, count in (
        (f"{alone}", 3),
        (f"{alone}[train[:2]]", 2),
        (f"{both}[test]", 3),
        (f"{both}[test[1:]]", 2),
        (f"{both}[test[:50%]]", 2),
    ):
        data = load_dataset(f"hf:{spec}?text=review&label=stars")
        other = rebuild_dataset(data.settings())
        assert isinstance(data, TextData) and isinstance(other, TextData)
        assert len(data) == count and other.texts == data.texts
    assert data.texts == ["Good film.", "Bad plot."]
    for spec, reason in (
        (f"{alone}", r"no column of images.* hf:alone\?text=COLUMN"),
        (f"{alone}?text=reviews", "has no column 'reviews'. Did you mean 'review'"),
        (f"{alone}?text=length", "'length' of hf:alone has no strings; those that have are: review"),
        (f"{both}?text=review", r"has the splits test, train; choose one: hf:both\[test\]"),
        (f"{both}[val]?text=review", r"hf:both\[val\] cannot be loaded: it has the splits test, train"),
    ):
        with pytest.raises(InputError, match=reason):
            load_dataset(f"hf:{spec}")


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"'org/name' needs the package 'datasets'.*proofmap\[hf\]"):
        hugging_face("org/name", split="test")
