"""Pictures in files: folders, with or without a sub-folder per label, and tables of files and labels."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends
from proofmap.core.inputs import Box
from proofmap.core.pictures import SUFFIXES, decode_image, files_below
from proofmap.data.dataset import Dataset, digest_of

FILE_COLUMNS = ("file", "path", "filename", "image")
INDEX_COLUMNS = ("class_index",)
LABEL_COLUMNS = ("label", "class")
BOX_COLUMNS = ("boxes_xyxy", "boxes")


class ImageFiles(Dataset):
    """Image files below one folder.

    Args:
        root: the folder that ``files`` are relative to.
        files: as they are found below it.
        labels: one per file, indices into ``label_names``; None for files without one.
        names: what the pictures are called; the files themselves when left out.
        settings: what :meth:`settings` returns.
        boxes: one JSON list of ``[x0, y0, x1, y1]`` per file, in pixels of the stored picture.
    """

    def __init__(
        self,
        root: str | Path,
        files: Sequence[str],
        *,
        title: str,
        settings: Mapping[str, object],
        names: Sequence[str] | None = None,
        labels: Sequence[int | None] | None = None,
        label_names: Sequence[str] = (),
        boxes: Sequence[str] | None = None,
    ) -> None:
        self.title, self.root, self.label_names = title, str(root), tuple(label_names)
        self.names = [printable(file) for file in files] if names is None else names
        self._files, self._labels, self._boxes = files, labels, boxes
        self._settings = dict(settings)

    def path(self, i: int) -> Path:
        """The file of picture ``i``."""
        return Path(self.root, self._files[i])

    def read(self, i: int) -> Image.Image:
        path = self.path(i)
        return decode_image(path, printable(str(path)))

    def truth(self, i: int) -> int | None:
        return None if self._labels is None else self._labels[i]

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
        """Where the label's objects are, ``(x0, y0, x1, y1)`` in pixels of the stored picture; none where unknown."""
        text = "" if self._boxes is None else self._boxes[i]
        try:
            rows = [tuple(map(float, row)) for row in json.loads(text or "[]")]
        except (TypeError, ValueError):
            rows = [()]
        if any(len(row) != 4 for row in rows):
            raise InputError(f"the boxes of {self.names[i]} must be [[x0, y0, x1, y1], ...], not {text!r}")
        return tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in rows)

    def settings(self) -> dict[str, object]:
        return dict(self._settings)


def image_folder(path: str | Path) -> ImageFiles:
    """All images below a folder, in a fixed order.

    Where every image lies in a sub-folder, the first sub-folders' names are the labels, in alphabetical order;
    otherwise nothing is known of labels. Files and folders whose name starts with a dot are no part of it.
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
    """The images that a table names, in its order, with their labels.

    The first row names the columns; commas, semicolons or tabs part them. Images are in ``file`` (or ``path``,
    ``filename``, ``image``), relative to the table's folder. Labels are numbers in ``class_index``, or names or
    numbers in ``label`` (or ``class``); an empty one is not known. ``boxes_xyxy`` (or ``boxes``) may hold
    ``[[x0, y0, x1, y1], ...]``. Names become indices into their alphabetical list; numbers stay as they are.
    """
    table = Path(os.path.abspath(path))
    files, labels, boxes = read_table(table)
    numbers, label_names = _numbered(labels, table)
    return ImageFiles(
        table.parent,
        files,
        title=table.name,
        settings={"dataset": "csv", "path": str(table)},
        labels=numbers,
        label_names=label_names,
        boxes=boxes,
    )


def read_table(path: Path) -> tuple[list[str], list[str], list[str] | None]:
    """Files, labels (as written; empty where there is none) and boxes of a CSV file."""
    text = text_of(path)
    header = text.partition("\n")[0].rstrip("\r")
    rows = _rows(text, max(",;\t", key=header.count), path)
    columns = [name.strip().lower() for name in next(rows, (0, []))[1]]

    def column(*accepted: str) -> int | None:
        return next((columns.index(name) for name in accepted if name in columns), None)

    file_at, box_at = column(*FILE_COLUMNS), column(*BOX_COLUMNS)
    label_at = column(*INDEX_COLUMNS, *LABEL_COLUMNS)
    if file_at is None:
        raise InputError(
            f"{path} has no column of files: its first row must name one {', '.join(FILE_COLUMNS)}, "
            f"and is {header[:80]!r}"
        )
    lines_of: dict[str, int] = {}
    labels, boxes = [], []
    for line, row in rows:
        if len(row) != len(columns):
            raise InputError(
                f"line {line} of {path} has {len(row)} fields, but {len(columns)} columns are named"
            )
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


def _rows(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not empty, and the lines they are in."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        yield from ((rows.line_num, row) for row in rows if row)
    except csv.Error as error:
        raise InputError(f"line {rows.line_num} of {path} cannot be read: {error}") from None


def _numbered(labels: Sequence[str], path: Path) -> tuple[list[int | None] | None, list[str]]:
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


# ---- files ----------------------------------------------------------------------------------------------------


def existing_folder(path: str | Path) -> Path:
    """The folder as an absolute path, so that another process finds it too."""
    folder = Path(os.path.abspath(path))
    if not folder.is_dir():
        raise InputError(f"there is no folder {path}" + (" (it is a file)" if folder.exists() else ""))
    return folder


def text_of(path: Path) -> str:
    """A text file in UTF-8, with or without a byte-order mark."""
    check_ends(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text in UTF-8: {error}") from None


def printable(name: str) -> str:
    """A file's name as text that can be stored and shown, also where its bytes are no UTF-8."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")
