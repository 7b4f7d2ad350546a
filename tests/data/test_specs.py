"""Datasets as strings: what is written is what is opened, and what cannot be opened says how to write it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proofmap.core.errors import InputError
from proofmap.data import ArrayImages, list_datasets, load_dataset, rebuild_dataset
from proofmap.data.dataset import DatasetInfo
from proofmap.data.folders import ImageFiles
from proofmap.data.imagenet_folders import Corners
from tests.data.made_up import cifar_batch, imagenet_at, imagenette_at, noise, saved


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with something of every kind, and the current one."""
    saved(tmp_path / "photos", "cat/a.png", "dog/b.png")
    (tmp_path / "photos" / "list.csv").write_text("file,label\ncat/a.png,cat\n")
    (tmp_path / "list.TSV").write_text("file\tlabel\nphotos/cat/a.png\tcat\n")
    np.savez(tmp_path / "a.npz", images=noise(0, 3, 9)[None], labels=[7])
    np.save(tmp_path / "a.npy", noise(0)[None])
    imagenette_at(tmp_path / "nette")
    imagenet_at(tmp_path / "imagenet")
    cifar_batch(tmp_path / "c10" / "test_batch", 2)
    cifar_batch(tmp_path / "c10" / "data_batch_1", 3)
    cifar_batch(tmp_path / "c100" / "test", 2, key="fine_labels")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "spec, title, count, kind",
    [
        ("photos", "photos", 2, ImageFiles),
        ("photos/", "photos", 2, ImageFiles),
        ("./photos/cat", "cat", 1, ImageFiles),
        (" photos ", "photos", 2, ImageFiles),
        ("folder:photos", "photos", 2, ImageFiles),
        ("photos/list.csv", "list.csv", 1, ImageFiles),
        ("csv:photos/list.csv", "list.csv", 1, ImageFiles),
        ("list.TSV", "list.TSV", 1, ImageFiles),
        ("a.npz?layout=nhwc", "a.npz", 1, ArrayImages),
        ("npz:a.npz?layout=nchw", "a.npz", 1, ArrayImages),
        ("a.npy", "a.npy", 1, ArrayImages),
        ("npz:a.npy", "a.npy", 1, ArrayImages),
        ("imagenette:nette", "imagenette[val]", 6, ImageFiles),
        ("imagenette:nette/[train]", "imagenette[train]", 6, ImageFiles),
        ("imagenette:nette?labels=imagenette", "imagenette[val]", 6, ImageFiles),
        ("imagenette:nette?split=train&labels=imagenette", "imagenette[train]", 6, ImageFiles),
        ("imagenette-corner:nette[train]?seed=3", "imagenette-corner[train]", 6, Corners),
        ("imagenet:imagenet", "imagenet[val]", 4, ImageFiles),
        ("cifar10:c10", "cifar10[test]", 2, ArrayImages),
        ("cifar10:c10[train]", "cifar10[train]", 3, ArrayImages),
        ("cifar100:c100[test]", "cifar100[test]", 2, ArrayImages),
    ],
)
def test_what_is_written_is_what_is_opened(
    place: Path, spec: str, title: str, count: int, kind: type
) -> None:
    dataset = load_dataset(spec)
    assert (dataset.title, len(dataset), type(dataset)) == (title, count, kind)
    assert list(rebuild_dataset(dataset.settings()).names) == list(dataset.names)


def test_settings_reach_the_dataset(place: Path) -> None:
    corners = load_dataset("imagenette-corner:nette?seed=3")
    assert isinstance(corners, Corners) and corners.seed == 3
    assert load_dataset("imagenette-corner:nette", seed=3).settings() == corners.settings()
    assert load_dataset("imagenette:nette", split="train").title == "imagenette[train]"
    assert load_dataset("imagenette:nette[train]", split="train").title == "imagenette[train]"
    assert load_dataset(Path("photos")).title == "photos"
    assert load_dataset("npz:a.npz?layout=nchw").read(0).size == (3, 9)


@pytest.mark.parametrize("name", ["a[val]", "what?", "folder:odd", "x[1]?y=2", "imagenette:here"])
def test_a_place_that_exists_as_written_is_taken_as_written(place: Path, name: str) -> None:
    saved(place / name, "a.png", "b.png")
    assert load_dataset(name).title == name
    assert load_dataset(f"folder:{name}").title == name
    assert load_dataset(str(place / name)).title == name


def test_a_drive_letter_is_no_kind(place: Path) -> None:
    with pytest.raises(InputError, match=r"no file or folder C:\\photos"):
        load_dataset("C:\\photos")


@pytest.mark.parametrize(
    "spec, told",
    [
        ("", "no dataset was named"),
        ("photoz", "no file or folder photoz.*Other datasets are written KIND:PLACE.*cifar100"),
        ("cifar:c10", "no kind of dataset 'cifar'. Did you mean 'cifar10' or 'cifar100'"),
        ("imagenete:nette", "Did you mean 'imagenette'"),
        ("photos/cat/a.png", "is not a dataset: expected a folder, or a .csv"),
        ("cifar10:nowhere", "there is no folder nowhere"),
        ("csv:nowhere.csv", "there is no file .*nowhere.csv"),
        ("npz:nowhere.npz", "there is no file .*nowhere.npz"),
        ("imagenette:photos", "is not Imagenette"),
        ("imagenette:nette[test]", "no split 'test'; choose val or train"),
        ("cifar10:c10[val]", "no split 'val'; choose test or train"),
        ("cifar10:c10?seed=1", "cifar10 has no setting 'seed'; it has split. Write it as cifar10:FOLDER"),
        ("photos[train]", "folder has no setting 'split'; it has none"),
        ("imagenette-corner:nette?seed=x", "needs a whole number as seed, not 'x'"),
        ("imagenette:nette?labels", "setting 'labels' .* must be written KEY=VALUE"),
        ("imagenette:[val]", "cannot be read; write KIND:PLACE"),
        ("samples:x", "write only samples"),
        ("c10", "holds no images .*cifar10:FOLDER"),
    ],
)
def test_what_cannot_be_opened_says_how_to_write_it(place: Path, spec: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_dataset(spec)


def test_settings_of_nothing_we_know_are_refused() -> None:
    with pytest.raises(InputError, match="no kind of dataset 'mnist'"):
        rebuild_dataset({"dataset": "mnist", "path": "x"})
    with pytest.raises(InputError, match="no kind of dataset 'None'"):
        rebuild_dataset({})


def test_every_kind_is_listed_once_with_how_to_write_it() -> None:
    listed = list_datasets()
    assert all(isinstance(info, DatasetInfo) and info.description for info in listed)
    names = [info.name for info in listed]
    assert len(set(names)) == len(names)
    assert {"folder", "csv", "npz", "imagenette", "imagenette-corner", "imagenet"} < set(names)
    assert {"cifar10", "cifar100", "hf", "samples"} < set(names)
    for info in listed:
        assert info.form in ("FOLDER", "PHOTO PHOTO ...", "samples") or info.form.startswith(f"{info.name}:")
