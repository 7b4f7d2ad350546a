"""Texts: a list of strings, the lines of a file, or a column of a CSV, JSONL or Parquet file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError, require
from proofmap.core.files import digest_of, distinct_names, parse_json, suggest_path
from proofmap.core.inputs import Text
from proofmap.core.inputs.frames import PARQUET
from proofmap.data.dataset import Dataset, numbered, reader
from proofmap.data.tables import check_columns, table_rows, text_of

LINES = (".jsonl", ".ndjson")


class TextData(Dataset):
    """Texts with their true labels, if they are known.

    Args:
        texts: the strings.
        labels: the name of each text's true label; None for unknown.
        names: one per text; by default ``text-0`` and so on.

    >>> TextData(["Good film.", "Bad film."], labels=["good", "bad"])
    TextData(texts, 2 text, 2 labels)
    """

    kind = Text.kind

    def __init__(
        self,
        texts: Sequence[str],
        *,
        labels: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        title: str = "texts",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        if not len(texts):
            raise InputError(f"{title} has no texts")
        self.texts, self.title, self._settings = list(texts), title, settings
        self.names = (
            [f"text-{i}" for i in range(len(self.texts))] if names is None else distinct_names(list(names))
        )
        if labels is not None:
            known = [None if label in (None, "") else str(label) for label in labels]
            self.label_names, self.labels = numbered(known)

    def read(self, i: int) -> str:
        return Text.checked(self.texts[i], f"{self.names[i]} of {self.title}")

    def digest(self, i: int) -> str:
        return digest_of(self.texts[i])


@reader(
    "text",
    "text:FILE?column=COLUMN&target=COLUMN&name=COLUMN",
    "texts: the lines of a file, or a column of a CSV, JSONL or Parquet file; target has the true labels",
)
def text_file(path: str | Path, *, column: str = "", target: str = "", name: str = "") -> TextData:
    """The texts of a file: its non-empty lines, or the column ``column`` of a CSV, TSV, JSONL or Parquet file. ``target`` and ``name`` are
    the columns of true labels and of names."""
    file = Path(os.path.abspath(path))
    if not file.is_file():
        raise InputError(f"there is no file {path}.{suggest_path(path)}")
    settings = {"dataset": "text", "path": str(file), "column": column, "target": target, "name": name}
    suffix = file.suffix.lower()
    if suffix not in (".csv", ".tsv", *LINES, *PARQUET):
        if column or target or name:
            raise InputError(
                f"{path} is read line by line and has no columns; leave the names of columns out"
            )
        lines = [line for line in text_of(file).split("\n") if line.strip()]
        return TextData(lines, title=file.name, settings=settings)
    if suffix in (".csv", ".tsv"):
        columns, lines_of = table_rows(text_of(file), "\t" if suffix == ".tsv" else ",", file.name)
        rows = [dict(zip(columns, row, strict=True)) for _, row in lines_of]
    else:
        rows = _parquet(file) if suffix in PARQUET else _jsonl(file)
    if not rows:
        raise InputError(f"{path} has no rows")
    have = list(rows[0])
    if not column:
        raise InputError(
            f"{path} has the columns {', '.join(have[:12])}: say which has the texts, with --text-column COLUMN or {path}?column=COLUMN"
        )
    check_columns(path, [column, target, name], have)
    return TextData(
        ["" if row.get(column) is None else str(row[column]) for row in rows],
        labels=[row.get(target) for row in rows] if target else None,
        names=[str(row.get(name)) for row in rows] if name else None,
        title=file.name,
        settings=settings,
    )


def _jsonl(file: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text_of(file).split("\n"), 1):
        if line.strip():
            try:
                rows.append(dict(parse_json(line)))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f'line {number} of {file.name} is not JSON of an object with fields, such as {{"text": ...}}: {error}'
                ) from None
    return rows


def _parquet(file: Path) -> list[dict[str, Any]]:
    parquet = require("pyarrow.parquet", extra="parquet", purpose=f"the Parquet file {file.name}")
    try:
        found: list[dict[str, Any]] = parquet.read_table(file).to_pylist()
    except Exception as error:  # pyarrow has many kinds of errors
        raise InputError(f"{file.name} cannot be read as a Parquet file: {error}") from None
    return found
