"""Every kind of dataset, good and with items that cannot be read, keeps the contract of datasets."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proofmap.data import ArrayImages, Dataset, TensorData, load_dataset, open_data
from proofmap.data.dataset import list_datasets
from proofmap.data.huggingface import HuggingFaceImages
from proofmap.testing import check_dataset
from tests.data.made_up import cifar_batch, imagenet_at, imagenette_at, noise, save, saved
from tests.toys import normal


def folder(at: Path) -> Dataset:
    return load_dataset(saved(at, "b.png", "a.jpg", "deep/c.png"))


def labelled_folder(at: Path) -> Dataset:
    saved(at, "dog/1.png", "cat/1.png", "cat/2.png")
    (at / "cat" / "broken.jpg").write_bytes(b"not a picture")
    return load_dataset(at)


def csv(at: Path) -> Dataset:
    saved(at, "b.png", "a.png")
    (at / "list.csv").write_text(
        "file;label;boxes_xyxy\nb.png;dog;[[0, 1, 8, 7.5]]\na.png;cat;[]\ngone.png;;\n"
    )
    return load_dataset(at / "list.csv")


def things(at: Path) -> Dataset:
    saved(at, "a.png", "b.png")
    (at / "things.csv").write_text(
        "file,label,x0,y0,x1,y1\na.png,cat,0,1,8,7.5\na.png,dog,1,1,2,2\nb.png,,,,,\n"
    )
    return load_dataset(at / "things.csv")


def table(at: Path) -> Dataset:
    (at / "rows.csv").write_text("id,age,city,left\na,20,Ulm,yes\nb,,Bonn,no\nc,41,Ulm,\n")
    return load_dataset(f"{at / 'rows.csv'}?target=left&name=id")


def ts(at: Path) -> Dataset:
    (at / "beats.ts").write_text("@classLabel true a b\n@data\n1,2,3:4,5,6:b\n2,2,2:1,1,1:a\n")
    return load_dataset(f"series:{at / 'beats.ts'}")


def voc(at: Path) -> Dataset:
    saved(at, "a.png", "b.png")
    corners = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>8</xmax><ymax>8</ymax></bndbox>"
    (at / "a.xml").write_text(f"<annotation><object><name>cat</name>{corners}</object></annotation>")
    return load_dataset(f"voc:{at}")


def npz(at: Path) -> Dataset:
    np.savez(at / "a.npz", images=np.stack([noise(i) for i in range(3)]), labels=[2, -1, 1])
    return load_dataset(at / "a.npz")


def npy(at: Path) -> Dataset:
    np.save(at / "a.npy", np.stack([noise(i) for i in range(20)]))
    return load_dataset(f"npz:{at / 'a.npy'}?layout=nhwc")


def cifar10(at: Path) -> Dataset:
    cifar_batch(at / "test_batch", 3)
    return load_dataset(f"cifar10:{at}")


def cifar100(at: Path) -> Dataset:
    cifar_batch(at / "test", 3, key="fine_labels")
    return load_dataset(f"cifar100:{at}[test]")


def imagenette(at: Path) -> Dataset:
    return load_dataset(f"imagenette:{imagenette_at(at)}[train]?labels=imagenette")


def imagenette_corner(at: Path) -> Dataset:
    return load_dataset(f"imagenette-corner:{imagenette_at(at)}?seed=5")


def imagenet(at: Path) -> Dataset:
    return load_dataset(f"imagenet:{imagenet_at(at)}")


def imagenet_real(at: Path) -> Dataset:
    saved(at, *(f"val/ILSVRC2012_val_0000000{k}.png" for k in (1, 2, 3)))
    (at / "real.json").write_text("[[1, 5], [], [2]]")
    return load_dataset(f"imagenet-real:{at / 'val'}")


def photos(at: Path) -> Dataset:
    saved(at, "one/a.png", "two/a.png", "b.png")
    return open_data([at / "one", at / "two", at / "b.png"])


def samples(at: Path) -> Dataset:
    pytest.importorskip("skimage")
    return load_dataset("samples")


def huggingface(at: Path) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what their library warns of is not ours to fix
        library = pytest.importorskip("datasets")
    features = library.Features(
        {"picture": library.Image(), "kind": library.ClassLabel(names=["cat", "dog"])}
    )
    buffer = io.BytesIO()
    Image.fromarray(noise(0)).save(buffer, "PNG")
    cells = [buffer.getvalue(), str(save(at, "c.png", 2)), b"not a picture"]
    rows = library.Dataset.from_dict({"picture": cells, "kind": [1, 0, -1]}, features=features)
    return HuggingFaceImages(rows)


def floats_in_memory(at: Path) -> Dataset:
    images = np.stack([noise(i) for i in range(3)]) / 255
    images[1, 2, 3] = np.nan
    return ArrayImages(images, [1, 0, 1], label_names=["cat", "dog"])


def series(at: Path) -> Dataset:
    values = normal(5, 2, 30)
    values[3, 1, 7] = np.inf
    return TensorData(values, [0, 1, -1, 1, 0], kind="series", label_names=["rest", "beat"], title="beats")


def texts(at: Path) -> Dataset:
    (at / "reviews.csv").write_text("review,mark\nA good film,good\nBad.,bad\nWell,\n", encoding="utf-8")
    return load_dataset(f"{at / 'reviews.csv'}?column=review&target=mark")


def table_rows(at: Path) -> Dataset:
    return TensorData(normal(4, 6).numpy(), kind="rows", names=["a", "b", "c", "d"])


KINDS: dict[str, list[Callable[[Path], Dataset]]] = {
    "folder": [folder, labelled_folder],
    "csv": [csv, things],
    "table": [table],
    "text": [texts],
    "series": [ts],
    "voc": [voc],
    "npz": [npz, npy],
    "imagenette": [imagenette],
    "imagenette-corner": [imagenette_corner],
    "imagenet": [imagenet],
    "imagenet-real": [imagenet_real],
    "cifar10": [cifar10],
    "cifar100": [cifar100],
    "hf": [huggingface],
    "photos": [photos],
    "samples": [samples],
    "in memory": [floats_in_memory, series, table_rows],
}


@pytest.mark.filterwarnings("ignore:.* beside its sub-folders")
@pytest.mark.parametrize(
    "make", [make for kind in KINDS.values() for make in kind], ids=lambda make: make.__name__
)
def test_dataset(make: Callable[[Path], Dataset], tmp_path: Path) -> None:
    dataset = make(tmp_path)
    check_dataset(dataset)
    assert str(tmp_path) not in dataset.title and dataset.title in repr(dataset)


def test_every_kind_is_among_them() -> None:
    assert set(KINDS) == {info.name for info in list_datasets()} | {"in memory"}
