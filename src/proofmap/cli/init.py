"""``init``: writes a study file with comments, for the data in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli import options
from proofmap.cli.console import shown_path, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import output_file, write_text
from proofmap.study.draft import draft, find_data, has_model


def init(
    data: Annotated[Path, typer.Argument(help="A folder or file: photos, a table, series, or texts.")] = Path(
        "."
    ),
    target: Annotated[
        str | None, typer.Option(help="The column of true labels of a table.", show_default="the last column")
    ] = None,
    text_column: Annotated[str | None, typer.Option(help="The column of texts of a file of texts.")] = None,
    out: Annotated[Path, options.path_option("The study file to write.")] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing study file.")] = False,
) -> None:
    found, *others = find_data(data, target or "", text_column or "")
    if out.exists() and not force:
        raise InputError(f"{out} exists; choose another --out, or replace it with --force")
    file = output_file(out, such_as="study.toml")
    write_text(file, draft(found, file, others))
    shown = shown_path(file)
    stderr.print(f"wrote {shown} for {found.words}")
    first = "" if has_model(found) else f"name your model in {shown}, then "
    stderr.print(f"next: {first}proofmap evaluate {shown} --dry-run")
