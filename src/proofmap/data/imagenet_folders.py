"""ImageNet's validation photos (also with the ReaL labels), Imagenette, and the paper's Imagenette-Corner."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch
from PIL import Image

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.files import digest_of, parse_json
from proofmap.data.dataset import Dataset, reader
from proofmap.data.folders import ImageFiles, existing_folder, files_below
from proofmap.data.tables import image_csv, text_of
from proofmap.models.names import label_names

IMAGENETTE = {
    "n01440764": 0,  # tench
    "n02102040": 217,  # English springer
    "n02979186": 482,  # cassette player
    "n03000684": 491,  # chain saw
    "n03028079": 497,  # church
    "n03394916": 566,  # French horn
    "n03417042": 569,  # garbage truck
    "n03425413": 571,  # gas pump
    "n03445777": 574,  # golf ball
    "n03888257": 701,  # parachute
}
"""Imagenette's ten folders, in the order of the outputs of a ten-way net, with their labels in ImageNet."""

TABLE = "labels.csv"


# ---- Imagenette -----------------------------------------------------------------------------------------------


@reader(
    "imagenette",
    "imagenette:FOLDER[val|train]?labels=imagenet|imagenette",
    "ten ImageNet classes; labels among 1000 outputs or ten",
)
def imagenette(path: str | Path, *, split: str = "val", labels: str = "imagenet") -> ImageFiles:
    """Imagenette's photos, from the unpacked folder that contains ``train`` and ``val``, or from one of these two folders.

    ``split`` is ``val`` or ``train``. ``labels`` says which label indices are used: ``imagenet`` (1000 outputs) or ``imagenette`` (10
    outputs).
    """
    if labels not in ("imagenet", "imagenette"):
        raise InputError(f"labels must be 'imagenet' (1000) or 'imagenette' (10), not {labels!r}")
    root, photos = _split_folder(path, split)
    files = files_below(photos)
    folders = [file.partition("/")[0] for file in files]
    unexpected = sorted(set(folders) - IMAGENETTE.keys())
    if unexpected or not files:
        found = f"has {unexpected[0]!r}" if unexpected else "holds no images"
        raise InputError(f"{photos} is not Imagenette: it {found}; expected folders such as n01440764/")
    ten_way = {wnid: k for k, wnid in enumerate(IMAGENETTE)}
    names = label_names("imagenet")
    return ImageFiles(
        photos,
        files,
        title=f"imagenette[{split}]",
        settings={"dataset": "imagenette", "path": str(root), "split": split, "labels": labels},
        labels=[(IMAGENETTE if labels == "imagenet" else ten_way)[wnid] for wnid in folders],
        label_names=names if labels == "imagenet" else [names[index] for index in IMAGENETTE.values()],
    )


class Corners(Dataset):
    """One corner of each picture of another dataset, instead of its centre.

    The shorter side is resized to 256 pixels (the paper says "256 x 256"; the released code keeps the proportions). One of the four
    corners, 180 x 180 pixels, is cut out and resized to 224 x 224. Both steps use bilinear interpolation. The choice of the corner depends
    on the seed and the picture's content, not on other pictures.
    """

    cropped = True
    RESIZED, CORNER, FINAL = 256, 180, 224

    def __init__(self, pictures: Dataset, *, seed: int, title: str, settings: dict[str, object]) -> None:
        self.pictures, self.seed, self.title = pictures, seed, title
        self.names, self.labels, self.label_names = pictures.names, pictures.labels, pictures.label_names
        self._settings = settings

    def corner(self, i: int) -> int:
        """The corner of picture ``i``: 0 is top left, 1 top right, 2 bottom left, 3 bottom right."""
        return self._corner_of(self.pictures.digest(i))

    def _corner_of(self, content: str) -> int:
        key = streams.key_of(self.seed, content, "corner")
        return int(streams.integers(torch.tensor(key), 1, 4))

    def read(self, i: int) -> Image.Image:
        corner = self.corner(i)
        whole: Image.Image = self.pictures.read(i)
        shorter = min(whole.size)
        width, height = (
            self.RESIZED if side == shorter else int(self.RESIZED * side / shorter) for side in whole.size
        )
        image = whole.resize((width, height), Image.Resampling.BILINEAR)
        x = (image.width - self.CORNER) * (corner % 2)
        y = (image.height - self.CORNER) * (corner // 2)
        cut = image.crop((x, y, x + self.CORNER, y + self.CORNER))
        return cut.resize((self.FINAL, self.FINAL), Image.Resampling.BILINEAR)

    def digest(self, i: int) -> str:
        content = self.pictures.digest(i)
        return digest_of(
            content, f"corner {self._corner_of(content)} {self.RESIZED} {self.CORNER} {self.FINAL}"
        )

    def stamp(self, i: int) -> str:
        return self.pictures.stamp(i)


@reader(
    "imagenette-corner",
    "imagenette-corner:FOLDER[val|train]?seed=N",
    "a random corner of each Imagenette photo, as in the paper",
)
def imagenette_corner(
    path: str | Path, *, split: str = "val", labels: str = "imagenet", seed: int = 0
) -> Corners:
    """The paper's Imagenette-Corner: a random corner (:class:`Corners`) of each photo of :func:`imagenette`."""
    photos = imagenette(path, split=split, labels=labels)
    return Corners(
        photos,
        seed=seed,
        title=f"imagenette-corner[{split}]",
        settings={**photos.settings(), "dataset": "imagenette-corner", "seed": seed},
    )


# ---- ImageNet -------------------------------------------------------------------------------------------------


@reader(
    "imagenet",
    "imagenet:FOLDER[val|train]",
    "ImageNet with labels.csv, or a folder per class",
)
def imagenet(path: str | Path, *, split: str = "val") -> ImageFiles:
    """ImageNet photos in one of two layouts; labels are the usual 1000 outputs.

    A table
        ``labels.csv`` in the folder (or the path of such a table), with the columns ``file``, ``class_index``
        (0 to 999) and, if there are any, ``boxes_xyxy``: see :func:`proofmap.data.tables.image_csv`.
    A folder per class
        named by WordNet id, ``n01440764/...``: all 1000, which are in the order of the outputs, or Imagenette's.
    """
    if Path(path).is_file():
        return _imagenet_table(Path(os.path.abspath(path)), split)
    root, photos = _split_folder(path, split)
    for folder in (photos, root):
        if (folder / TABLE).is_file():
            return _imagenet_table(folder / TABLE, split)
    files = files_below(photos)
    folders = [file.partition("/")[0] for file in files]
    wnids = sorted(set(folders))
    index = {wnid: k for k, wnid in enumerate(wnids)} if len(wnids) == 1000 else IMAGENETTE
    if not files or not set(wnids) <= index.keys():
        raise InputError(
            f"the labels of {photos} are not known: add a table {TABLE} with the columns file,class_index, or put the photos in a "
            "folder per class, named by its WordNet id, such as n01440764: all 1000 of ImageNet, or some of Imagenette's ten"
        )
    return ImageFiles(
        photos,
        files,
        title=f"imagenet[{split}]",
        settings={"dataset": "imagenet", "path": str(root), "split": split},
        labels=[index[folder] for folder in folders],
        label_names=label_names("imagenet"),
    )


def _imagenet_table(table: Path, split: str) -> ImageFiles:
    found = image_csv(table)
    numbers = [label for i in range(len(found)) for label in found.true_labels(i)]
    if found.label_names or not numbers or max(numbers) >= 1000:
        wrong = repr(found.label_names[0]) if found.label_names else max(numbers, default="none")
        raise InputError(
            f"{table} must give ImageNet labels as numbers 0 to 999 in a column class_index, not {wrong}; "
            f"for other labels write csv:{table}"
        )
    found.title, found.label_names = f"imagenet[{split}]", label_names("imagenet")
    found._settings = {"dataset": "imagenet", "path": str(table), "split": split}
    return found


def _split_folder(path: str | Path, split: str) -> tuple[Path, Path]:
    """The given folder, and the folder of the split inside it (or the given folder itself, if it is the split)."""
    if split not in ("train", "val"):
        raise InputError(f"there is no split {split!r}; choose val or train")
    root = existing_folder(path)
    if (root / split).is_dir():
        return root, root / split
    other = "train" if split == "val" else "val"
    if (root / other).is_dir() or root.name == other:
        raise InputError(f"{path} has no folder {split}, only {other}: write [{other}]")
    return root, root


# ---- labels of Beyer et al. ---------------------------------------------------------------------------------


REAL_TABLE = "real.json"
_PHOTO = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+$")


@reader(
    "imagenet-real",
    "imagenet-real:FOLDER?table=real.json&count=N",
    "ImageNet validation photos with the labels of Beyer et al. 2020, several or none for each; count=2: with two",
)
def imagenet_real(path: str | Path, *, table: str = "", count: int = 0) -> ImageFiles:
    """ImageNet's validation photos, in one folder or in sub-folders, with the ReaL labels of ``real.json``.

    Args:
        table: the file with a list of labels for each photo, from ILSVRC2012_val_00000001 on; by default ``real.json`` in the folder or
            in the folder above.
        count: keep only photos with this number of labels; 0 keeps all.
    """
    root = existing_folder(path)
    beside, above = root / REAL_TABLE, root.parent / REAL_TABLE
    usual = above if above.is_file() and not beside.is_file() else beside
    labels = _read_real(Path(os.path.abspath(table)) if table else usual)
    files, kept = [], []
    for file in files_below(root):
        match = _PHOTO.search(file)
        if match is None or not 1 <= int(match[1]) <= len(labels):
            raise InputError(
                f"{root / file} has no labels in {REAL_TABLE}: expected names such as ILSVRC2012_val_00000001.JPEG, numbered 1 to {len(labels)}"
            )
        own = labels[int(match[1]) - 1]
        if count in (0, len(own)):
            files.append(file)
            kept.append(own)
    if not files:
        raise InputError(f"no photo of {root} has {count} labels; choose another count")
    return ImageFiles(
        root,
        files,
        title=f"imagenet-real[{count} labels]" if count else "imagenet-real",
        settings={"dataset": "imagenet-real", "path": str(root), "table": table, "count": count},
        labels=kept,
        label_names=label_names("imagenet"),
    )


def _read_real(path: Path) -> list[tuple[int, ...]]:
    """The labels of each photo, in the order of the photos' numbers."""
    text = text_of(path)
    try:
        labels = [tuple(own) for own in parse_json(text)]
    except (ValueError, TypeError):
        labels = []
    if not labels or not all(type(a) is int and 0 <= a < 1000 for own in labels for a in own):
        raise InputError(
            f"{path} must be a JSON list with, for each photo, a list of its ImageNet labels as numbers 0 to 999"
        )
    return labels
