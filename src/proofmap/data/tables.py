"""Read tables that list files with their labels, or the objects in files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, suggest_path
from proofmap.core.inputs.base import Box, read_box

FILE_COLUMNS = ("file", "path", "filename", "image")
INDEX_COLUMNS = ("class_index",)
LABEL_COLUMNS = ("label", "class")
BOX_COLUMNS = ("boxes_xyxy", "boxes")
SEPARATORS = re.compile(r"[;|]")
"""Separators of labels in a cell. A comma is not a separator, because names such as "tench, Tinca tinca" have commas."""
CORNER_COLUMNS = (("x0", "y0", "x1", "y1"), ("xmin", "ymin", "xmax", "ymax"))

Things = dict[str, list[Box]]
"""The boxes of objects in one picture, by label as it is written in the table."""


@dataclass(frozen=True)
class LabelTable:
    """The content of a table.

    Attributes:
        files: the paths of the files, in the order of their first lines.
        labels: for each file, its labels as written, each with its line number.
        boxes: for each file, the cell with its boxes; None if there is no column of boxes.
    """

    files: list[str]
    labels: list[dict[str, int]]
    boxes: list[str] | None


def read_table(path: Path) -> LabelTable:
    """Read files, labels and boxes from a CSV file.

    A file may have several labels: one in each of several lines, several in one cell, separated by ``;`` or ``|``, or in one column for each
    label, with 1 if the file has the label and 0 if not. The last form is used if no column is named ``class_index``, ``label`` or
    ``class``, and more than half of the other cells are 0 or 1.
    """
    header, columns, opened = _opened(path)
    rows = list(opened)
    file_at, label_at = _file_column(columns, header, path), _column(columns, *INDEX_COLUMNS, *LABEL_COLUMNS)
    box_at = _column(columns, *BOX_COLUMNS)
    marked = {at: name for at, name in enumerate(columns) if name and at not in (file_at, box_at)}
    if label_at is not None or not _is_marked([row[at].strip() for _, row in rows for at in marked]):
        marked = {}
    lines_of: dict[str, int] = {}
    labels: dict[str, dict[str, int]] = {}
    boxes = []
    for line, row in rows:
        file = row[file_at].strip()
        if not file:
            raise InputError(f"line {line} of {path} names no file")
        if label_at is None:
            own = [name for at, name in marked.items() if _is_one(row[at].strip(), name, line, path)]
        else:
            own = _labels_of(row[label_at].strip(), line, path)
        known = labels.setdefault(file, {})
        if file in lines_of and not (known and own and box_at is None and not marked):
            raise InputError(
                f"{path} names {file} twice, in lines {lines_of[file]} and {line}; a file has several lines only in a table "
                "without boxes_xyxy, and then each line has a label"
            )
        lines_of.setdefault(file, line)
        for label in own:
            if label in known:
                raise InputError(
                    f"{path} gives {file} the label {label!r} twice, in lines {known[label]} and {line}"
                )
            known[label] = line
        if box_at is not None:
            if row[box_at].strip() not in ("", "[]") and len(own) > 1:
                raise InputError(
                    f"line {line} of {path} has boxes_xyxy and {len(own)} labels: it does not say which label a box belongs to; "
                    "write a line for each object, with the columns x0, y0, x1, y1"
                )
            boxes.append(row[box_at])
    if not lines_of:
        raise InputError(f"{path} names no image: it has a first row and nothing below")
    return LabelTable(list(labels), list(labels.values()), boxes if box_at is not None else None)


def _labels_of(cell: str, line: int, path: Path) -> list[str]:
    """The labels of a cell; empty if the cell is empty."""
    if not cell:
        return []
    labels = [label.strip() for label in SEPARATORS.split(cell)]
    if not all(labels):
        raise InputError(
            f"line {line} of {path} has the labels {cell!r}: a label is missing before or after a separator"
        )
    return labels


def _is_marked(cells: Sequence[str]) -> bool:
    return 2 * sum(cell in ("0", "1") for cell in cells) > len(cells)


def _is_one(cell: str, name: str, line: int, path: Path) -> bool:
    if cell not in ("0", "1"):
        raise InputError(
            f"line {line} of {path} has {cell!r} in the column {name!r}, expected 0 or 1: a table without a column label has a "
            "column for each label; remove columns that are not labels"
        )
    return cell == "1"


# ---- things -----------------------------------------------------------------------------------------------------


def has_things(path: Path) -> bool:
    """Whether each line of a table describes one object, with the corners of its box in four columns."""
    return _corners(_opened(path)[1]) is not None


def read_things(path: Path) -> dict[str, Things]:
    """The objects of each file in a table for which :func:`has_things` is true. A line without corners has no object."""
    header, columns, rows = _opened(path)
    file_at, label_at = _file_column(columns, header, path), _column(columns, *INDEX_COLUMNS, *LABEL_COLUMNS)
    corners_at = _corners(columns)
    if label_at is None or corners_at is None:
        raise InputError(
            f"{path} has boxes but no labels: each line needs the label of its object, in a column {', '.join(LABEL_COLUMNS)} or "
            f"{', '.join(INDEX_COLUMNS)}"
        )
    found: dict[str, Things] = {}
    for line, row in rows:
        file, label = row[file_at].strip(), row[label_at].strip()
        corners = [row[at].strip() for at in corners_at]
        if not file:
            raise InputError(f"line {line} of {path} names no file")
        things = found.setdefault(file, {})
        if not any(corners):
            continue
        box = read_box(corners, f"line {line} of {path}")
        if not label:
            raise InputError(f"line {line} of {path} has a box but no label")
        things.setdefault(label, []).append(box)
    if not found:
        raise InputError(f"{path} names no image: it has a first row and nothing below")
    return found


def labelled_objects(
    found: Sequence[Mapping[str, Sequence[Box]]], path: Path
) -> tuple[list[tuple[int, ...]], list[str], list[dict[int, Sequence[Box]]]]:
    """From the boxes of each picture by label name: the label indices of each picture, the names of all labels, and the boxes of each picture
    by label index."""
    index, names = label_indices((label for things in found for label in things), path)
    objects = [{index[label]: boxes for label, boxes in things.items()} for things in found]
    return [tuple(things) for things in objects], names, objects


# ---- reading ----------------------------------------------------------------------------------------------------


def _opened(path: Path) -> tuple[str, list[str], Iterator[tuple[int, list[str]]]]:
    """The first line of a table, the names of its columns, and the rows below with their line numbers."""
    text = text_of(path)
    header = text.partition("\n")[0].rstrip("\r")
    return header, *table_rows(text, max(",;\t", key=header.count), path)


def table_rows(
    text: str, delimiter: str, path: str | Path
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of a table's columns, from its first row, and the rows below with their line numbers. Each row must have one field for each
    column."""
    rows = _rows(text, delimiter, path)
    columns = [name.strip() for name in next(rows, (0, []))[1]]

    def whole() -> Iterator[tuple[int, list[str]]]:
        for line, row in rows:
            if len(row) != len(columns):
                raise InputError(
                    f"line {line} of {path} has {len(row)} fields, but {len(columns)} columns are named"
                )
            yield line, row

    return columns, whole()


def _column(columns: Sequence[str], *accepted: str) -> int | None:
    lower = [name.lower() for name in columns]
    return next((lower.index(name) for name in accepted if name in lower), None)


def _file_column(columns: Sequence[str], header: str, path: Path) -> int:
    found = _column(columns, *FILE_COLUMNS)
    if not header.strip():
        raise InputError(f"{path} has an empty first row: write the names of its columns there")
    if found is None:
        raise InputError(
            f"{path} has no column of files: its first row must name one {', '.join(FILE_COLUMNS)}, "
            f"and is {header[:80]!r}. Rows, series and texts need a model that takes them; their kind can be written before the file, as in "
            "table:FILE?target=COLUMN (or --target COLUMN), series:FILE?target=COLUMN and text:FILE?column=COLUMN"
        )
    return found


def _corners(columns: Sequence[str]) -> list[int] | None:
    for names in CORNER_COLUMNS:
        found = [at for name in names if (at := _column(columns, name)) is not None]
        if len(found) == len(names):
            return found
    return None


def _rows(text: str, delimiter: str, path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not empty, with their line numbers."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        yield from ((rows.line_num, row) for row in rows if row)
    except csv.Error as error:
        raise InputError(f"line {rows.line_num} of {path} cannot be read: {error}") from None


def label_indices(labels: Iterable[str], path: Path) -> tuple[dict[str, int], list[str]]:
    """The index of each label, and the names of labels by index (empty if labels are numbers already)."""
    known = set(labels)
    numbers = {label for label in known if label.isdecimal()}
    if numbers and numbers != known:
        raise InputError(
            f"{path} mixes numbers ({min(numbers)!r}) and names ({min(known - numbers)!r}) as labels; use one"
        )
    if numbers:
        return {label: int(label) for label in known}, []
    names = sorted(known)
    return {name: k for k, name in enumerate(names)}, names


def text_of(path: Path) -> str:
    """A text file in UTF-8, with or without a byte-order mark."""
    check_ends(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.{suggest_path(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text in UTF-8: {error}") from None
