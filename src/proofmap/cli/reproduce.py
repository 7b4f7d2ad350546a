"""``reproduce``: computes the paper's tables and figures again, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli import options
from proofmap.cli.console import print_result, print_written, progress_for, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import DATA_FOLDER
from proofmap.reproduce.run import reproduce as run_recipe
from proofmap.study.watchers import watchers_for


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which table or figure; see [bold]proofmap list recipes[/].")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder with the data and weights that it needs.")] = DATA_FOLDER,
    out: Annotated[Path | None, options.path_option("Run directory.", show_default="reproduced/NAME")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Run the same code on very little data, in seconds. Do not quote its numbers."
        ),
    ] = False,
    images: Annotated[
        int | None,
        typer.Option(min=1, help="Number of images, chosen at random.", show_default="the recipe's number"),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Which variant, such as another net.",
            show_default="the first whose data and weights are there",
        ),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option(help="Only the rows of this name, such as 'TV *'. May be repeated.")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Run of another recipe; maps that are the same are taken from it."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit code 1 if a statement of the paper is contradicted.")
    ] = False,
    device: Annotated[str | None, options.DEVICE] = None,
    seed: Annotated[int, options.SEED] = 0,
    images_seed: Annotated[
        int | None,
        typer.Option(help="Seed of the random sample of images; another seed draws another sample."),
    ] = None,
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    if name is None:
        raise InputError("no recipe was named; see: proofmap list recipes")
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
        images_seed=images_seed,
        device=options.check_device(device),
        progress=progress_for(stderr, quiet),
        watchers=watchers_for(stderr, quiet),
        command=options.command_line(),
    )
    print_result(
        f"{found.recipe.title}\nThe paper's {found.recipe.paper}.\n\n{found.outcome.text()}\n{found.effort}"
    )
    print_written(found.files)
    if check and not found.outcome.holds:
        raise typer.Exit(1)
    if found.outcome.failed:
        raise typer.Exit(options.FAILED)
