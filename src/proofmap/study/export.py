"""Exports a run's numbers for other programs and papers.

CSV, JSON and Parquet have three tables: ``scores`` has means with intervals, one row per method and metric; ``per_image`` and
``per_label`` have every value. A value that does not count is empty or null. Markdown and LaTeX have only the scores, one row per
method.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from proofmap.core.errors import InputError, require
from proofmap.core.files import atomic_write, output_folder, write_text, written_together
from proofmap.core.text import csv_lines, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.score_tables import (
    TABLES,
    score_table,
    table_records,
)
from proofmap.results.sharing import shared, without_folders
from proofmap.study.stored_run import Run

DATA = ("csv", "json", "parquet")
TEXT = {"md": "md", "latex": "tex"}
"""Formats for people, and the suffixes of their files."""


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
    evaluation = shared(run.evaluation())
    if format in TEXT:
        path = output_folder(out) / f"scores.{TEXT[format]}"
        write_text(path, _text(run, evaluation, format) + "\n")
        return [path]
    with written_together(out) as folder:
        for name in wanted:
            records = table_records(evaluation, name) if name == "scores" else _values(run, evaluation, name)
            with atomic_write(folder / f"{name}.{format}") as part:
                _write(part, format, [{k: _known(value) for k, value in row.items()} for row in records])
    return [Path(out, f"{name}.{format}") for name in wanted]


def _text(run: Run, evaluation: Evaluation, format: str) -> str:
    """The table of scores and the notes of the run, as Markdown or LaTeX."""
    notes, table = [without_folders(note) for note in run.notes()], score_table(evaluation)
    if format == "latex":
        return "\n".join([*(f"% {one_line(note)}" for note in notes), table.to_latex()])
    return replace(table, notes=(*table.notes, *notes)).markdown()


def _values(run: Run, evaluation: Evaluation, name: str) -> Iterator[dict[str, object]]:
    """A record for each value, with the true label of its image before the value."""
    truth = {row.name: row.truth for row in run.images}
    for record in table_records(evaluation, name):
        value = record.pop("value")
        yield {**record, "truth": truth[str(record["image"])], "value": value}


def _known(value: object) -> object:
    """The value, or None for NaN, which is empty in every table."""
    return None if value != value else value


def _write(path: Path, format: str, records: Sequence[Mapping[str, object]]) -> None:
    columns = list(records[0])
    if format == "csv":
        lines = csv_lines([columns, *(list(record.values()) for record in records)])
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    elif format == "json":
        rows = ",\n".join(map(json.dumps, records))
        path.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = dict.fromkeys(("truth", "label", "n"), pa.int64())
        kinds |= dict.fromkeys(("value", "f", "low", "high"), pa.float64())
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
        pq.write_table(pa.Table.from_pylist(list(records), schema=schema), path)
