"""Datasets of picture files: in folders, with or without a sub-folder per label, in tables of files and labels, and in the layout of Pascal
VOC."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, digest_of, parse_json, suggest_path
from proofmap.core.inputs.base import Box, read_box
from proofmap.core.pictures import SUFFIXES, decode_image, files_below
from proofmap.data.dataset import Dataset
from proofmap.data.tables import has_things, label_indices, labelled_objects, read_table, read_things, text_of


class ImageFiles(Dataset):
    """Image files below one folder.

    Args:
        root: the folder that contains ``files``.
        files: paths of the files, relative to ``root``.
        labels: one or several indices into ``label_names`` per file, or None.
        names: one per file; the files' paths by default.
        settings: what :meth:`settings` returns.
        boxes: for each file, a JSON list of boxes ``[x0, y0, x1, y1]`` of its label, in pixels of the upright picture.
        objects: for each file, boxes by label, if files have objects of several labels.
        lines: for each label of each file, its line number in the table ``title``, for messages.
    """

    def __init__(
        self,
        root: str | Path,
        files: Sequence[str],
        *,
        title: str,
        settings: Mapping[str, object],
        names: Sequence[str] | None = None,
        labels: Sequence[int | Sequence[int] | None] | None = None,
        label_names: Sequence[str] = (),
        boxes: Sequence[str] | None = None,
        objects: Sequence[Mapping[int, Sequence[Box]]] | None = None,
        lines: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.title, self.root, self.label_names = title, str(root), tuple(label_names)
        self.names = [printable(file) for file in files] if names is None else names
        self._files, self.labels, self._boxes = files, labels, boxes
        self._objects, self._lines = objects, lines
        self._settings = settings

    def path(self, i: int) -> Path:
        """The file of picture ``i``."""
        return Path(self.root, self._files[i])

    def read(self, i: int) -> Image.Image:
        path = self.path(i)
        return decode_image(path, printable(str(path)))

    def source_of(self, i: int, k: int) -> str:
        return super().source_of(i, k) if self._lines is None else f"line {self._lines[i][k]} of {self.title}"

    def digest(self, i: int) -> str:
        path = self.path(i)
        check_ends(path, printable(str(path)))
        try:
            return digest_of(path.read_bytes())
        except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{printable(str(path))} cannot be read: {reason}") from None

    def stamp(self, i: int) -> str:
        try:
            about = os.stat(os.path.join(self.root, self._files[i]))
        except (OSError, ValueError):
            return ""
        return f"{about.st_size} {about.st_mtime_ns}"

    def boxes(self, i: int) -> tuple[Box, ...]:
        if self._objects is not None:
            label = self.truth(i)
            return () if label is None else tuple(self._objects[i].get(label, ()))
        text = "" if self._boxes is None else self._boxes[i]
        try:
            rows = list(parse_json(text or "[]"))
        except (TypeError, ValueError):
            rows = [[text]]
        return tuple(read_box(row, f"the list of boxes of {self.names[i]}") for row in rows)

    def objects(self, i: int) -> Mapping[int, Sequence[Box]]:
        return super().objects(i) if self._objects is None else self._objects[i]


def image_folder(path: str | Path) -> ImageFiles:
    """All images below a folder, in a fixed order.

    If every image is in a sub-folder, the names of the first sub-folders are the labels, in alphabetical order; otherwise labels are
    unknown, with a warning if only some images are in sub-folders. Hidden files and folders are left out.
    """
    root = existing_folder(path)
    files = files_below(root)
    if not files:
        raise InputError(
            f"the folder {path} holds no images ({', '.join(sorted(SUFFIXES))}); for data of another kind write "
            "KIND:PLACE, such as cifar10:FOLDER or npz:FILE"
        )
    folders = [file.partition("/")[0] for file in files if "/" in file]
    label_names = sorted(set(folders)) if len(folders) == len(files) else []
    if folders and not label_names:
        beside = next(file for file in files if "/" not in file)
        warnings.warn(
            f"{root.name} holds {printable(beside)} beside its sub-folders, so the sub-folders are not read as labels and no true label "
            "is known; if they are labels, move such images away",
            stacklevel=2,
        )
    index = {name: k for k, name in enumerate(label_names)}
    return ImageFiles(
        root,
        files,
        title=root.name,
        settings={"dataset": "folder", "path": str(root)},
        labels=[index[name] for name in folders] if label_names else None,
        label_names=[printable(name) for name in label_names],
    )


def image_csv(path: str | Path) -> ImageFiles:
    """The images that a table lists, in the order of the table, with their labels.

    The first row names the columns, separated by commas, semicolons or tabs. The column ``file`` (or ``path``, ``filename``, ``image``) has
    the paths of images, relative to the table's folder. Labels are numbers in the column ``class_index``, or names or numbers in ``label``
    (or ``class``); an empty cell is an unknown label. The column ``boxes_xyxy`` (or ``boxes``) may have boxes
    ``[[x0, y0, x1, y1], ...]``. Label names are replaced by their indices in alphabetical order; numbers are kept. For files with several
    labels see :func:`proofmap.data.tables.read_table`.

    With the columns ``x0``, ``y0``, ``x1``, ``y1`` (or ``xmin``, ``ymin``, ``xmax``, ``ymax``) each line is one object with its label
    and box. The labels of a file are then the labels of its objects.
    """
    table = Path(os.path.abspath(path))
    boxes, objects, lines = None, None, None
    if has_things(table):
        things = read_things(table)
        files = list(things)
        numbers, label_names, objects = labelled_objects(list(things.values()), table)
    else:
        found = read_table(table)
        files, boxes = found.files, found.boxes
        index, label_names = label_indices((label for own in found.labels for label in own), table)
        numbers = [tuple(index[label] for label in own) for own in found.labels]
        lines = [list(own.values()) for own in found.labels]
    return ImageFiles(
        table.parent,
        files,
        title=table.name,
        settings={"dataset": "csv", "path": str(table)},
        labels=numbers,
        label_names=label_names,
        boxes=boxes,
        objects=objects,
        lines=lines,
    )


# ---- files ----------------------------------------------------------------------------------------------------


def existing_folder(path: str | Path) -> Path:
    """The absolute path of a folder; raises an InputError if it does not exist."""
    folder = Path(os.path.abspath(path))
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {path}"
            + (" (it is a file)" if folder.exists() else f".{suggest_path(path)}")
        )
    return folder


def printable(name: str) -> str:
    """A file's name as text that can be stored and shown, even if it is not valid UTF-8."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


# ---- Pascal VOC ---------------------------------------------------------------------------------------------


PHOTOS, ANNOTATIONS, SPLITS = "JPEGImages", "Annotations", "ImageSets/Main"


def pascal_voc(path: str | Path, *, split: str = "") -> ImageFiles:
    """Photos with boxes by label, in one of two layouts.

    Pascal VOC's
        ``JPEGImages/NAME.jpg`` with ``Annotations/NAME.xml``. ``split`` names a list of photos in
        ``ImageSets/Main/SPLIT.txt``, such as ``trainval``; all photos by default.
    A folder
        with an XML file next to each photo, as labelling tools write them.

    The corners of a box are pixels inside it, counted from 1: ``xmin, ymin, xmax, ymax`` becomes (xmin - 1, ymin - 1, xmax, ymax).
    The true labels of a photo are the labels of its objects.
    """
    root = existing_folder(path)
    photos = root / PHOTOS if (root / PHOTOS).is_dir() else root
    is_flat = photos == root
    files = files_below(photos)
    if split:
        listed = root / SPLITS / f"{split}.txt"
        stems = {line.split()[0] for line in text_of(listed).splitlines() if line.strip()}
        files = [file for file in files if Path(file).stem in stems]
        if missing := stems - {Path(file).stem for file in files}:
            raise InputError(f"{listed} names {min(missing)}, but there is no such photo in {photos}")
    if not files:
        raise InputError(f"the folder {photos} holds no images")
    xml = [
        (photos / file).with_suffix(".xml") if is_flat else root / ANNOTATIONS / f"{Path(file).stem}.xml"
        for file in files
    ]
    found = [read_annotation(file) if file.is_file() else {} for file in xml]
    if not any(found):
        where = "next to the photos" if is_flat else f"in {ANNOTATIONS}"
        raise InputError(
            f"no object is labelled in {root}: there must be XML files {where}, one for each photo"
        )
    labels, label_names, objects = labelled_objects(found, root)
    return ImageFiles(
        photos,
        files,
        title=f"{root.name}[{split}]" if split else root.name,
        settings={"dataset": "voc", "path": str(root), "split": split},
        labels=labels,
        label_names=label_names,
        objects=objects,
    )


def read_annotation(path: Path) -> Mapping[str, list[Box]]:
    """The boxes in one annotation file, by label name."""
    try:
        root = ElementTree.fromstring(text_of(path))
    except ElementTree.ParseError as error:
        raise InputError(f"{path} cannot be read as XML: {error}") from None
    boxes: dict[str, list[Box]] = {}
    for thing in root.iter("object"):
        name = (thing.findtext("name") or "").strip()
        corners = [thing.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
        x0, y0, x1, y1 = read_box(corners, f"an object of {path}")
        if not name:
            raise InputError(f"an object of {path} has no name")
        boxes.setdefault(name, []).append((x0 - 1, y0 - 1, x1, y1))
    return boxes
