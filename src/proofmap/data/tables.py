"""Tables of files and labels, and of the things that files show."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends
from proofmap.core.inputs import Box
from proofmap.core.near import alike

FILE_COLUMNS = ("file", "path", "filename", "image")
INDEX_COLUMNS = ("class_index",)
LABEL_COLUMNS = ("label", "class")
BOX_COLUMNS = ("boxes_xyxy", "boxes")
CORNER_COLUMNS = (("x0", "y0", "x1", "y1"), ("xmin", "ymin", "xmax", "ymax"))

Things = dict[str, list[Box]]
"""The boxes of each label, as it is written, in one picture."""


def read_table(path: Path) -> tuple[list[str], list[str], list[str] | None]:
    """Files, labels (as written; empty where there is none) and boxes of a CSV file."""
    header, columns, rows = _opened(path)

    file_at, label_at = _file_column(columns, header, path), _column(columns, *INDEX_COLUMNS, *LABEL_COLUMNS)
    box_at = _column(columns, *BOX_COLUMNS)
    lines_of: dict[str, int] = {}
    labels, boxes = [], []
    for line, row in rows:
        file = row[file_at].strip()
        if not file:
            raise InputError(f"line {line} of {path} names no file")
        if file in lines_of:
            raise InputError(f"{path} names {file} twice, in lines {lines_of[file]} and {line}")
        lines_of[file] = line
        labels.append("" if label_at is None else row[label_at].strip())
        if box_at is not None:
            boxes.append(row[box_at])
    if not lines_of:
        raise InputError(f"{path} names no image: it has a first row and nothing below")
    return list(lines_of), labels, boxes if box_at is not None else None


# ---- things -----------------------------------------------------------------------------------------------------


def has_things(path: Path) -> bool:
    """Whether the lines of a table are things, each with the corners of its box in four columns."""
    return _corners(_opened(path)[1]) is not None


def read_things(path: Path) -> dict[str, Things]:
    """The things of each file of a table that :func:`has_things`; a line with four empty corners shows none."""
    header, columns, rows = _opened(path)
    file_at, label_at = _file_column(columns, header, path), _column(columns, *INDEX_COLUMNS, *LABEL_COLUMNS)
    corners_at = _corners(columns)
    if label_at is None or corners_at is None:
        raise InputError(
            f"{path} has boxes but no labels: each line needs the label of its thing, in a column {', '.join(LABEL_COLUMNS)} or "
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
        try:
            x0, y0, x1, y1 = map(float, corners)
        except ValueError:
            raise InputError(
                f"line {line} of {path} has the corners {corners}, expected four numbers"
            ) from None
        if not label:
            raise InputError(f"line {line} of {path} has a box but no label")
        things.setdefault(label, []).append((x0, y0, x1, y1))
    if not found:
        raise InputError(f"{path} names no image: it has a first row and nothing below")
    return found


def labelled_objects(
    found: Sequence[Mapping[str, Sequence[Box]]], path: Path
) -> tuple[list[int | None], list[str], list[dict[int, Sequence[Box]]]]:
    """Labels of pictures, names, and boxes by label, from the things of each picture.

    A picture's label is that of all its things; it is not known where they have several, or where there is none.
    """
    written = [label for things in found for label in things]
    numbers, names = numbered(written, path)
    index = {label: k for label, k in zip(written, numbers or [], strict=True) if k is not None}
    objects = [{index[label]: boxes for label, boxes in things.items()} for things in found]
    return [next(iter(things)) if len(things) == 1 else None for things in objects], names, objects


# ---- reading ----------------------------------------------------------------------------------------------------


def _opened(path: Path) -> tuple[str, list[str], Iterator[tuple[int, list[str]]]]:
    """A table's first line, the columns that it names, and the rows below, with the lines they are in."""
    text = text_of(path)
    header = text.partition("\n")[0].rstrip("\r")
    rows = _rows(text, max(",;\t", key=header.count), path)
    columns = [name.strip().lower() for name in next(rows, (0, []))[1]]

    def whole() -> Iterator[tuple[int, list[str]]]:
        for line, row in rows:
            if len(row) != len(columns):
                raise InputError(
                    f"line {line} of {path} has {len(row)} fields, but {len(columns)} columns are named"
                )
            yield line, row

    return header, columns, whole()


def _column(columns: Sequence[str], *accepted: str) -> int | None:
    return next((columns.index(name) for name in accepted if name in columns), None)


def _file_column(columns: Sequence[str], header: str, path: Path) -> int:
    found = _column(columns, *FILE_COLUMNS)
    if found is None:
        raise InputError(
            f"{path} has no column of files: its first row must name one {', '.join(FILE_COLUMNS)}, "
            f"and is {header[:80]!r}"
        )
    return found


def _corners(columns: Sequence[str]) -> list[int] | None:
    for names in CORNER_COLUMNS:
        if set(names) <= set(columns):
            return [columns.index(name) for name in names]
    return None


def _rows(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not empty, and the lines they are in."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        yield from ((rows.line_num, row) for row in rows if row)
    except csv.Error as error:
        raise InputError(f"line {rows.line_num} of {path} cannot be read: {error}") from None


def numbered(labels: Sequence[str], path: Path) -> tuple[list[int | None] | None, list[str]]:
    """Labels as numbers, and the names those stand for (none where they were numbers already)."""
    known = {label for label in labels if label}
    if not known:
        return None, []
    numbers = {label for label in known if label.isdecimal()}
    if numbers and numbers != known:
        raise InputError(
            f"{path} mixes numbers ({min(numbers)!r}) and names ({min(known - numbers)!r}) as labels; use one"
        )
    if numbers:
        return [int(label) if label else None for label in labels], []
    names = sorted(known)
    index = {name: k for k, name in enumerate(names)}
    return [index[label] if label else None for label in labels], names


def text_of(path: Path) -> str:
    """A text file in UTF-8, with or without a byte-order mark."""
    check_ends(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.{alike(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text in UTF-8: {error}") from None
