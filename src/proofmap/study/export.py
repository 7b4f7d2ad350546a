"""Exports a run's numbers for other programs and papers.

CSV and JSON have three tables: ``scores`` has means with intervals, one row per method and metric; ``per_image`` and ``per_label`` have
every value. A value that does not count is empty or null. Markdown and LaTeX have only the scores, one row per method.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.core.files import output_folder, write_text, written_together
from proofmap.core.text import csv_lines, one_line
from proofmap.results.score_tables import TABLES, score_table, table_records
from proofmap.results.sharing import shared, without_folders
from proofmap.study.stored_run import Run

FORMATS = ("csv", "json", "md", "latex")


def export_run(
    run: Run, out: str | Path, format: str = "csv", tables: Sequence[str] | None = None
) -> list[Path]:
    """Write tables of a run to a folder and return the files. By default, all tables that the format supports."""
    if format not in FORMATS:
        raise InputError(f"the format must be {', '.join(FORMATS)}, not {format!r}")
    offered = TABLES if format in ("csv", "json") else TABLES[:1]
    wanted = offered if tables is None else tables
    unknown = [name for name in wanted if name not in offered]
    if unknown or not wanted:
        what = f"there is no table {unknown[0]!r} in {format}" if unknown else "no table was named"
        raise InputError(f"{what}; there are {', '.join(offered)}")
    evaluation = shared(run.evaluation())
    if offered != TABLES:
        notes = [without_folders(note) for note in run.notes()]
        table = score_table(evaluation)
        if format == "md":
            text = replace(table, notes=(*table.notes, *notes)).markdown()
        else:
            text = "\n".join([*(f"% {one_line(note)}" for note in notes), table.to_latex()])
        path = output_folder(out) / f"scores.{'md' if format == 'md' else 'tex'}"
        write_text(path, f"{text}\n")
        return [path]
    truth = {row.name: row.truth for row in run.images}
    with written_together(out) as folder:
        for name in wanted:
            records = []
            for record in table_records(evaluation, name):
                if name != "scores":  # the true label of the image stands before its value
                    value = record.pop("value")
                    record |= {"truth": truth[str(record["image"])], "value": value}
                # NaN is empty in every table
                records.append({key: None if value != value else value for key, value in record.items()})
            if format == "json":
                text = "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n"
            else:
                lines = csv_lines([list(records[0]), *(list(record.values()) for record in records)])
                text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{format}").write_text(text, encoding="utf-8", newline="")
    return [Path(out, f"{name}.{format}") for name in wanted]
