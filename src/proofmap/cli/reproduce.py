"""``reproduce``: the paper's tables and figures, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli.console import print_result, progress_for, stderr
from proofmap.cli.options import (
    FAILED,
    Device,
    Quiet,
    Seed,
    command_line,
    device_named,
    path_option,
    print_written,
)
from proofmap.reproduce import reproduce as run_recipe
from proofmap.reproduce.run import DATA
from proofmap.study.watchers.views import watcher_for


def reproduce(
    name: Annotated[
        str,
        typer.Argument(help="Which table or figure; see [bold]proofmap list recipes[/].", show_default=False),
    ],
    data: Annotated[Path, typer.Option(help="Folder with the data and weights that it needs.")] = DATA,
    out: Annotated[
        Path | None,
        path_option("Run directory; reproduced/NAME when left out."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The same code on very little, in seconds; no numbers to quote.")
    ] = False,
    images: Annotated[int | None, typer.Option(min=1, help="So many images, at random.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Which variant, such as another net; the first whose data and weights are here."),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(help="Only the rows of this name, such as 'TV *'; may be said several times."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Run of another recipe: maps that are the same are not made again."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit code 1 where something that the paper says is contradicted.")
    ] = False,
    device: Device = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    found = run_recipe(
        name,
        out or Path("reproduced") / (f"{name}-quick" if quick else name),
        data=data,
        quick=quick,
        images=images,
        variant=variant,
        rows=rows or (),
        start=start,
        seed=seed,
        device=device_named(device),
        progress=progress_for(stderr, quiet),
        watchers=[watcher_for(stderr, quiet)],
        command=command_line(),
    )
    print_result(
        f"{found.recipe.title}\nThe paper's {found.recipe.paper}.\n\n{found.outcome.text()}\n{found.effort}"
    )
    print_written(found.files)
    if check and not found.outcome.holds:
        raise typer.Exit(1)
    if found.outcome.failed:
        raise typer.Exit(FAILED)
