"""Exports a run's numbers for other programs and papers.

CSV, JSON and Parquet have three tables: ``scores`` has means with intervals, one row per method and metric; ``per_image`` and
``per_label`` have every value. A value that does not count is empty or null. Markdown and LaTeX have only the scores, one row per
method.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from proofmap.core.errors import InputError, require
from proofmap.core.files import atomic_write, output_folder, write_text, written_together
from proofmap.core.text import csv_lines, one_line
from proofmap.results.score_tables import (
    TABLES,
    best_two,
    image_records,
    label_records,
    latex,
    score_cells,
    score_notes,
    score_records,
)
from proofmap.results.sharing import shared, without_folders
from proofmap.results.tables import markdown
from proofmap.study.stored_run import Run

DATA = ("csv", "json", "parquet")
TEXT = {"md": "md", "latex": "tex"}
"""Formats for people, and the suffixes of their files."""
_ROWS_AT_ONCE = 50_000


def export_run(
    run: Run, out: str | Path, format: str = "csv", tables: Sequence[str] | None = None
) -> list[Path]:
    """Write tables of a run to a folder and return the files. By default, all tables that the format supports."""
    if format not in (*DATA, *TEXT):
        raise InputError(f"the format must be {', '.join((*DATA, *TEXT))}, not {format!r}")
    offered = TABLES if format in DATA else TABLES[:1]
    wanted = offered if tables is None else tables
    unknown = [name for name in wanted if name not in offered]
    if unknown:
        where = "" if format in DATA else f" in {format}"
        raise InputError(f"there is no table {unknown[0]!r}{where}; there are {', '.join(offered)}")
    if not wanted:
        raise InputError(f"no table was named; there are {', '.join(offered)}")
    if format == "parquet":
        require("pyarrow", extra="parquet", purpose="writing Parquet")
    if format in TEXT:
        text = _text(run, format)
        path = output_folder(out) / f"scores.{TEXT[format]}"
        write_text(path, text + "\n")
        return [path]
    with written_together(out) as folder:
        written = [_write(folder / f"{name}.{format}", format, *_table(run, name)) for name in wanted]
    return [Path(out, path.name) for path in written]


def _text(run: Run, format: str) -> str:
    """The table of scores and the notes of the run, as Markdown or LaTeX."""
    evaluation, notes = shared(run.evaluation()), [without_folders(note) for note in run.notes()]
    if format == "latex":
        return "\n".join([*(f"% {one_line(note)}" for note in notes), latex(evaluation)])
    header, rows = score_cells(evaluation)
    return markdown(header, rows, [*score_notes(evaluation), *notes], bold=best_two(evaluation))


def _table(run: Run, name: str) -> tuple[list[str], Iterator[tuple[object, ...]]]:
    if name == "scores":
        scores = list(score_records(shared(run.evaluation())))
        return list(scores[0]), (tuple(map(_known, record.values())) for record in scores)
    records = (image_records if name == "per_image" else label_records)(shared(run.evaluation()))
    columns = [*_COLUMNS[name], "truth", "value"]
    truth = {row.name: row.truth for row in run.images}
    rows_of = ({**record, "truth": truth[str(record["image"])]} for record in records)
    return columns, (tuple(_known(record[column]) for column in columns) for record in rows_of)


_COLUMNS = {
    "per_image": ("method", "metric", "image"),
    "per_label": ("method", "metric", "image", "label", "label_name", "f"),
}


def _known(value: object) -> object:
    """The value, or None for NaN, which is empty in every table."""
    return None if value != value else value


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
    """Write the rows as a JSON list of records, one per line."""
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
        while block := list(islice(rows, _ROWS_AT_ONCE)):
            arrays = [
                pa.array(values, type=field.type)
                for values, field in zip(zip(*block, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
