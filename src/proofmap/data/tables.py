"""Pictures with labels and boxes in tables, and in the layout of Pascal VOC; the rows of CSV files."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, parse_json, suggest_path
from proofmap.core.inputs import Box
from proofmap.core.inputs.base import read_box
from proofmap.core.text import counted, did_you_mean
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
    columns, rows = table_rows(text, max(",;\t", key=header.count), table)
    file_at, label_at = _file_column(columns, table), _column(columns, *_LABEL_COLUMNS)
    box_at = _column(columns, *_BOX_COLUMNS)
    corners = ([_column(columns, name) for name in names] for names in _CORNER_COLUMNS)
    corners_at = next(([at for at in found if at is not None] for found in corners if None not in found), [])
    others = [
        k for k, name in enumerate(columns) if name and k not in (file_at, label_at, box_at, *corners_at)
    ]
    marks = [row[k].strip() in ("0", "1") for _, row in rows for k in others]
    marked = others if label_at is None and not corners_at and 2 * sum(marks) > len(marks) else []
    files: dict[str, dict[str, list[Box]]] = {}
    for line, row in rows:
        where, file = f"line {line} of {table}", row[file_at].strip()
        if not file:
            raise InputError(f"{where} names no file")
        written = "" if label_at is None else row[label_at]
        labels = [label for each in _SEPARATORS.split(written) if (label := each.strip())]
        labels += [columns[k] for k in marked if _is_one(row[k].strip(), columns[k], where)]
        boxes = [] if box_at is None else _boxes(row[box_at].strip(), where)
        if corners_at:
            cells = [row[k].strip() for k in corners_at]
            boxes, labels = ([read_box(cells, where)], labels) if any(cells) else ([], [])
        if boxes and len(labels) != 1:
            raise InputError(
                f"{where} has boxes and {counted(len(labels), 'label')}, and a box belongs to one label; write a line for each object, with its "
                "label and the columns x0, y0, x1, y1"
            )
        things = files.setdefault(file, {})
        for label in labels:
            things.setdefault(label, []).extend(boxes)
    if not files:
        raise InputError(f"{table} names no image")
    labels_of, label_names, objects = _by_index(list(files.values()), table)
    return ImageFiles(
        table.parent,
        list(files),
        title=table.name,
        settings={"dataset": "csv", "path": str(table)},
        labels=labels_of,
        label_names=label_names,
        objects=objects,
    )


def _is_one(cell: str, name: str, where: str) -> bool:
    if cell not in ("0", "1"):
        raise InputError(
            f"{where} has {cell!r} in the column {name!r}, expected 0 or 1: a table without a column label has a "
            "column for each label; remove columns that are not labels"
        )
    return cell == "1"


def _boxes(text: str, where: str) -> list[Box]:
    """The boxes in a JSON list."""
    try:
        rows = list(parse_json(text or "[]"))
    except (TypeError, ValueError):
        rows = [text]
    return [read_box(row, where) for row in rows]


def _by_index(
    found: Sequence[Mapping[str, Sequence[Box]]], path: Path
) -> tuple[list[tuple[int, ...]], list[str], list[dict[int, Sequence[Box]]]]:
    """From the boxes of each picture by label name: the label indices of each picture, the names of all labels (none if labels are numbers
    already), and the boxes of each picture by label index."""
    known = {label for things in found for label in things}
    numbers = {label for label in known if label.isdecimal()}
    if numbers and numbers != known:
        raise InputError(
            f"{path} mixes numbers ({min(numbers)!r}) and names ({min(known - numbers)!r}) as labels; use one"
        )
    names = [] if numbers else sorted(known)
    index = {label: int(label) for label in numbers} or {name: k for k, name in enumerate(names)}
    labels = [tuple(index[label] for label in things) for things in found]
    objects = [{index[label]: boxes for label, boxes in things.items() if boxes} for things in found]
    return labels, names, objects


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


def check_columns(title: str | Path, wanted: Sequence[str], have: Sequence[str]) -> None:
    """Raise an InputError if a table does not have the columns ``wanted``. Empty names are skipped."""
    for name in wanted:
        if name and name not in have:
            raise InputError(
                f"{title} has no column {name!r}.{did_you_mean(name, have)} It has {', '.join(have[:12])}"
            )


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
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path} cannot be read as text in UTF-8, because of line {line}; save it as UTF-8, as with: iconv -t utf-8"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
