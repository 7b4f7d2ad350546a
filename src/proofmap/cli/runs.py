"""``report`` and ``export``: write a run as one page, and as files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli import options
from proofmap.cli.console import print_written, shown_path, stderr
from proofmap.core.files import output_file
from proofmap.results.score_tables import TABLES
from proofmap.study.reading.export import DATA, TEXT, export_run
from proofmap.study.reading.stored_run import Run


def report(
    run: Annotated[Path, options.RUN],
    out: Annotated[
        Path | None, options.path_option("The file to write.", show_default="RUN/report.html")
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of images shown in full: the worst by soundness, and the worst by completeness.",
        ),
    ] = 7,
    random: Annotated[int, typer.Option(min=0, help="Number of random images shown in full.")] = 6,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    from proofmap.report.runs import write_run_report

    with Run(run) as opened:
        page = output_file(out or run / "report.html")
        path = write_run_report(opened, page, worst=worst, random=random, title=title)
    stderr.print(f"written: {shown_path(path)}")


def export(
    run: Annotated[Path, options.RUN],
    format: Annotated[
        str,
        options.choice_option((*DATA, *TEXT), f"File format ({' and '.join(TEXT)} have only the scores)"),
    ] = "csv",
    tables: Annotated[
        str | None,
        typer.Option(help=f"Separated by commas: {', '.join(TABLES)}.", show_default="all"),
    ] = None,
    out: Annotated[
        Path | None, options.path_option("Folder for the files.", show_default="RUN/export")
    ] = None,
) -> None:
    with Run(run) as opened:
        wanted = options.names_after("--tables", tables)
        print_written(export_run(opened, out or run / "export", format, wanted))
