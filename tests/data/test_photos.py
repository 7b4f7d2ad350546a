"""The photographs inside scikit-image: all there, all readable, and missed with a helpful word."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proofmap.core.errors import InputError, MissingExtra
from proofmap.data import open_data, rebuild_dataset
from proofmap.data.photos import SAMPLES, find_photos, load_sample, photographs, sample_path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_a_photograph(name: str) -> None:
    pytest.importorskip("skimage")
    photo = load_sample(name)
    assert photo.mode == "RGB"
    assert min(photo.size) >= 150
    assert len(np.unique(np.asarray(photo.resize((32, 32))))) > 10  # not one colour


def test_an_unknown_sample_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="no sample is named 'zebra'\\. Known are: astronaut, brick"):
        sample_path("zebra")


@pytest.mark.parametrize(
    "given, told",
    [
        ("photos/holidy.jpg", "no file or folder photos/holidy.jpg. Did you mean 'photos/Holiday.JPG'?"),
        ("photoz/holiday.jpg", "Did you mean 'photos'?"),
        ("photoz/Holiday.JPG", "Did you mean 'photos/Holiday.JPG'?"),
        ("photos/xyz.png", "Near it: photos/Holiday.JPG, photos/b.png, photos/c.png and 1 more."),
        ("photos/b.jpg", "Did you mean 'photos/b.png'"),
        ("rocket.jpg", "Did you mean 'sample:rocket'?"),
        ("rocket", "Did you mean 'sample:rocket'?"),
        ("motorcycl.png", "Did you mean 'sample:motorcycle'?"),
        ("xyz.png", "Sample photographs are named as in sample:rocket"),
        ("other/folder/xyz.png", "Sample photographs are named as in sample:rocket"),
        ("https://example.org/cat.jpg", "is an address; photos are read from files, so download it first"),
        ("sample:rockt", "no sample is named 'rockt'. Did you mean 'rocket'? Known are: astronaut"),
    ],
)
def test_a_photo_that_is_not_there_is_answered_with_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("Holiday.JPG", "b.png", "c.png", "d.webp", "notes.txt", ".hidden.png"):
        (tmp_path / "photos" / name).touch()
    monkeypatch.chdir(tmp_path)
    for ask in (photographs, open_data, find_photos):
        with pytest.raises(InputError, match=re.escape(told)):
            ask([given])  # type: ignore[operator]


def test_without_scikit_image_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'proofmap\[demo\]'"):
        load_sample("cat")


# ---- photos named one by one ----


def photo(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, dtype=np.uint8)).save(path)
    return path


def test_photos_folders_and_samples_come_in_the_order_named(tmp_path: Path) -> None:
    one, two = photo(tmp_path / "b.png", 1), photo(tmp_path / "more" / "b.png", 2)
    found = photographs([str(one), "sample:cat", str(tmp_path / "more")])
    assert list(found.names) == ["b.png", "cat", "b.png-2"]
    assert found.path(2) == two
    again = rebuild_dataset(found.settings())
    assert list(again.names) == list(found.names) and again.digest(2) == found.digest(2)


def test_one_string_is_a_dataset_unless_it_is_a_photo(tmp_path: Path) -> None:
    one = photo(tmp_path / "photos" / "a.png")
    assert open_data([str(one)]).title == "photos"
    assert open_data(str(tmp_path / "photos")).title == "photos"  # the folder's own name
    assert open_data(["samples"]).title == "samples"
    table = tmp_path / "photos" / "labels.csv"
    table.write_text("file,class_index\na.png,3\n")
    assert open_data([str(table)]).truth(0) == 3
    with pytest.raises(InputError, match="no data was named"):
        open_data([])
    with pytest.raises(InputError, match="no file or folder"):
        open_data([str(one), str(tmp_path / "gone.png")])
