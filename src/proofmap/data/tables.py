"""Pictures with labels and boxes in tables, and in the layout of Pascal VOC; the rows of CSV files."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, suggest_path
from proofmap.core.inputs import Box
from proofmap.core.inputs.base import read_box
from proofmap.data.dataset import reader
from proofmap.data.folders import ImageFiles, existing_folder, files_below

_FILE_COLUMNS = ("file", "path", "filename", "image")
_LABEL_COLUMNS = ("class_index", "label", "class")
_BOX_COLUMNS = ("boxes_xyxy", "boxes")
_CORNER_COLUMNS = (("x0", "y0", "x1", "y1"), ("xmin", "ymin", "xmax", "ymax"))
_SEPARATORS = re.compile(r"[;|]")
"""Separators of labels in a cell. A comma is not a separator, because names such as "tench, Tinca tinca" have commas."""


@reader(
    "csv",
    "csv:FILE",
    "columns file and label (a name) or class_index; may have boxes_xyxy, or x0, y0, x1, y1 in a line for each object",
)
def image_csv(path: str | Path) -> ImageFiles:
    """The images that a table lists, in the order of the table, with their labels.

    The first row names the columns, separated by commas, semicolons or tabs. The column ``file`` (or ``path``, ``filename``, ``image``) has
    the paths of images, relative to the table's folder. Labels are numbers in the column ``class_index``, or names or numbers in ``label``
    (or ``class``); an empty cell is an unknown label. The column ``boxes_xyxy`` (or ``boxes``) may have boxes
    ``[[x0, y0, x1, y1], ...]``. Label names are replaced by their indices in alphabetical order; numbers are kept.

    A file may have several labels: one in each of several lines, several in one cell, separated by ``;`` or ``|``, or in one column for
    each label, with 1 if the file has the label and 0 if not. The last form is used if no column is named ``class_index``, ``label`` or
    ``class``, and more than half of the other cells are 0 or 1.

    With the columns ``x0``, ``y0``, ``x1``, ``y1`` (or ``xmin``, ``ymin``, ``xmax``, ``ymax``) each line is one object with its label
    and box. The labels of a file are then the labels of its objects.
    """
    table = Path(os.path.abspath(path))
    text = text_of(table)
    header = text.partition("\n")[0]
    columns, found = table_rows(text, max(",;\t", key=header.count), table)
    file_at, label_at = _file_column(columns, table), _column(columns, *_LABEL_COLUMNS)
    rows = [(line, row[file_at].strip(), row) for line, row in found]
    nameless = next((line for line, file, _ in rows if not file), None)
    if nameless is not None or not rows:
        raise InputError(
            f"{table} names no image" if not rows else f"line {nameless} of {table} names no file"
        )
    corners = ([_column(columns, name) for name in names] for names in _CORNER_COLUMNS)
    corners_at = next((found for found in corners if None not in found), None)
    boxes, objects = None, None
    if corners_at is not None:
        things = _objects(rows, label_at, [at for at in corners_at if at is not None], table)
        files = list(things)
        numbers, label_names, objects = _by_index(list(things.values()), table)
    else:
        box_at = _column(columns, *_BOX_COLUMNS)
        marked = {at: name for at, name in enumerate(columns) if name and at not in (file_at, box_at)}
        labels = _labels(rows, label_at, marked, box_at, table)
        files, index, label_names = list(labels), *_label_indices(labels.values(), table)
        numbers = [tuple(index[label] for label in own) for own in labels.values()]
        boxes = None if box_at is None else [row[box_at] for _, _, row in rows]
    return ImageFiles(
        table.parent,
        files,
        title=table.name,
        settings={"dataset": "csv", "path": str(table)},
        labels=numbers,
        label_names=label_names,
        boxes=boxes,
        objects=objects,
    )


_Rows = Sequence[tuple[int, str, Sequence[str]]]  # line number, file, cells


def _labels(
    rows: _Rows, label_at: int | None, marked: Mapping[int, str], box_at: int | None, table: Path
) -> dict[str, list[str]]:
    """The labels of each file of a table, as they are written. ``marked`` are the columns that may be for one label each."""
    cells = [row[at].strip() for _, _, row in rows for at in marked]
    if label_at is not None or 2 * sum(cell in ("0", "1") for cell in cells) <= len(cells):
        marked = {}
    labels: dict[str, list[str]] = {}
    for line, file, row in rows:
        if label_at is None:
            own = [name for at, name in marked.items() if _is_one(row[at].strip(), name, line, table)]
        else:
            own = [label.strip() for label in _SEPARATORS.split(row[label_at])]
            own = own if any(own) or len(own) > 1 else []
        if not all(own):
            raise InputError(f"line {line} of {table}: a label is missing before or after a separator")
        if file in labels and not (labels[file] and own and box_at is None and not marked):
            raise InputError(
                f"{table} names {file} twice, again in line {line}; a file has several lines only in a table without boxes_xyxy, "
                "and then each line has a label"
            )
        if len(own) > 1 and box_at is not None and row[box_at].strip() not in ("", "[]"):
            raise InputError(
                f"line {line} of {table} has boxes_xyxy and {len(own)} labels: it does not say which label a box belongs to; "
                "write a line for each object, with the columns x0, y0, x1, y1"
            )
        labels[file] = list(dict.fromkeys([*labels.get(file, []), *own]))
    return labels


def _is_one(cell: str, name: str, line: int, table: Path) -> bool:
    if cell not in ("0", "1"):
        raise InputError(
            f"line {line} of {table} has {cell!r} in the column {name!r}, expected 0 or 1: a table without a column label has a "
            "column for each label; remove columns that are not labels"
        )
    return cell == "1"


def _objects(
    rows: _Rows, label_at: int | None, corners_at: Sequence[int], table: Path
) -> dict[str, dict[str, list[Box]]]:
    """The boxes of each file by label, in a table with a line for each object. A line without corners has no object."""
    if label_at is None:
        raise InputError(
            f"{table} has boxes but no labels: each line needs the label of its object, in a column {', '.join(_LABEL_COLUMNS)}"
        )
    found: dict[str, dict[str, list[Box]]] = {}
    for line, file, row in rows:
        things, label = found.setdefault(file, {}), row[label_at].strip()
        corners = [row[at].strip() for at in corners_at]
        if any(corners):
            box = read_box(corners, f"line {line} of {table}")
            if not label:
                raise InputError(f"line {line} of {table} has a box but no label")
            things.setdefault(label, []).append(box)
    return found


def _by_index(
    found: Sequence[Mapping[str, Sequence[Box]]], path: Path
) -> tuple[list[tuple[int, ...]], list[str], list[dict[int, Sequence[Box]]]]:
    """From the boxes of each picture by label name: the label indices of each picture, the names of all labels, and the boxes of each
    picture by label index."""
    index, names = _label_indices(found, path)
    objects = [{index[label]: boxes for label, boxes in things.items()} for things in found]
    return [tuple(things) for things in objects], names, objects


def _label_indices(labels: Iterable[Iterable[str]], path: Path) -> tuple[dict[str, int], list[str]]:
    """The index of each label, and the names of labels by index (empty if labels are numbers already)."""
    known = {label for own in labels for label in own}
    numbers = {label for label in known if label.isdecimal()}
    if numbers and numbers != known:
        raise InputError(
            f"{path} mixes numbers ({min(numbers)!r}) and names ({min(known - numbers)!r}) as labels; use one"
        )
    if numbers:
        return {label: int(label) for label in known}, []
    names = sorted(known)
    return {name: k for k, name in enumerate(names)}, names


# ---- Pascal VOC -------------------------------------------------------------------------------------------------


_PHOTOS, _ANNOTATIONS, _SPLITS = "JPEGImages", "Annotations", "ImageSets/Main"


@reader("voc", "voc:FOLDER[SPLIT]", "photos with Pascal VOC's XML files: boxes of several labels")
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
    photos = root / _PHOTOS if (root / _PHOTOS).is_dir() else root
    is_flat = photos == root
    files = files_below(photos)
    if split:
        listed = root / _SPLITS / f"{split}.txt"
        stems = {line.split()[0] for line in text_of(listed).splitlines() if line.strip()}
        files = [file for file in files if Path(file).stem in stems]
        if missing := stems - {Path(file).stem for file in files}:
            raise InputError(f"{listed} names {min(missing)}, but there is no such photo in {photos}")
    if not files:
        raise InputError(f"the folder {photos} holds no images")
    xml = [
        (photos / file).with_suffix(".xml") if is_flat else root / _ANNOTATIONS / f"{Path(file).stem}.xml"
        for file in files
    ]
    found = [_annotation(file) if file.is_file() else {} for file in xml]
    if not any(found):
        where = "next to the photos" if is_flat else f"in {_ANNOTATIONS}"
        raise InputError(
            f"no object is labelled in {root}: there must be XML files {where}, one for each photo"
        )
    labels, label_names, objects = _by_index(found, root)
    return ImageFiles(
        photos,
        files,
        title=f"{root.name}[{split}]" if split else root.name,
        settings={"dataset": "voc", "path": str(root), "split": split},
        labels=labels,
        label_names=label_names,
        objects=objects,
    )


def _annotation(path: Path) -> Mapping[str, list[Box]]:
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


# ---- rows of CSV files ------------------------------------------------------------------------------------------


def table_rows(text: str, delimiter: str, path: str | Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of a table's columns, from its first row, and the rows below with their line numbers. Each row must have one field for each
    column."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        found = [(rows.line_num, row) for row in rows if row]
    except csv.Error as error:
        raise InputError(f"line {rows.line_num} of {path} cannot be read: {error}") from None
    columns = [name.strip() for name in found[0][1]] if found else []
    odd = next(((line, row) for line, row in found if len(row) != len(columns)), None)
    if odd is not None:
        raise InputError(
            f"line {odd[0]} of {path} has {len(odd[1])} fields, but {len(columns)} columns are named"
        )
    return columns, found[1:]


def _column(columns: Sequence[str], *accepted: str) -> int | None:
    lower = [name.lower() for name in columns]
    return next((lower.index(name) for name in accepted if name in lower), None)


def _file_column(columns: Sequence[str], path: Path) -> int:
    found = _column(columns, *_FILE_COLUMNS)
    if found is None:
        raise InputError(
            f"{path} has no column of files: its first row must name one {', '.join(_FILE_COLUMNS)}, "
            f"and is {', '.join(columns)[:80]!r}. Rows, series and texts need a model that takes them; their kind can be written before the file, as in "
            "table:FILE?target=COLUMN (or --target COLUMN), series:FILE?target=COLUMN and text:FILE?column=COLUMN"
        )
    return found


def text_of(path: Path) -> str:
    """A text file in UTF-8, with or without a byte-order mark."""
    check_ends(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.{suggest_path(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text in UTF-8: {error}") from None
