"""A run's numbers for other programs: CSV, JSON and Parquet files of three tables.

``scores``: means with intervals, one row per method and metric. ``per_image`` and ``per_label``: every value. A value
that does not count is empty or null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from proofmap.core.errors import InputError, require
from proofmap.core.files import atomic_write, output_folder
from proofmap.core.text import csv_lines
from proofmap.study.results import Run

Format = Literal["csv", "json", "parquet"]
TABLES = ("scores", "per_image", "per_label")
_ROWS_AT_ONCE = 50_000


def export_run(run: Run, out: str | Path, format: str = "csv", tables: Sequence[str] = TABLES) -> list[Path]:
    """Write the tables into a folder; returns the files."""
    if format not in get_args(Format):
        raise InputError(f"the format must be {', '.join(get_args(Format))}, not {format!r}")
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise InputError(f"there is no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    if format == "parquet":
        require("pyarrow", extra="parquet", purpose="writing Parquet")
    folder = output_folder(out)
    return [_write(folder / f"{name}.{format}", format, *_table(run, name)) for name in tables]


def _table(run: Run, name: str) -> tuple[list[str], Iterator[tuple[object, ...]]]:
    if name == "scores":
        rows = [
            _score_row(result.name, score.record())
            for result in run.evaluation().results
            for score in result.scores
        ]
        return list(rows[0]), iter([tuple(row.values()) for row in rows])
    run.check()
    cursor = run.store.database.execute(f"SELECT * FROM {name}")
    return [column[0] for column in cursor.description], iter(cursor)


def _score_row(method: str, record: Mapping[str, object]) -> dict[str, object]:
    values = {
        k: None if v != v else v for k, v in record.items() if k != "settings"
    }  # NaN is empty, as in the other tables
    return {"method": method, **values, "settings": json.dumps(record["settings"], default=str)}


def _write(path: Path, format: str, columns: list[str], rows: Iterator[tuple[object, ...]]) -> Path:
    with atomic_write(path) as part:
        if format == "parquet":
            _write_parquet(part, columns, rows)
        elif format == "csv":
            with open(part, "w", newline="", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in csv_lines(chain([columns], rows)))
        else:
            _write_json(part, columns, rows)
    return path


def _write_json(path: Path, columns: Sequence[str], rows: Iterator[tuple[object, ...]]) -> None:
    """A list of records, one per line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("[")
        for k, row in enumerate(rows):
            record = dict(zip(columns, row, strict=True))
            file.write(("," if k else "") + "\n" + json.dumps(record))
        file.write("\n]\n")


def _write_parquet(path: Path, columns: Sequence[str], rows: Iterator[tuple[object, ...]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"truth": pa.int64(), "label": pa.int64(), "n": pa.int64()} | {
        name: pa.float64() for name in ("value", "f", "low", "high")
    }
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        while block := [row for _, row in zip(range(_ROWS_AT_ONCE), rows, strict=False)]:
            arrays = [
                pa.array(values, type=field.type)
                for values, field in zip(zip(*block, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
