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
from proofmap.reproduce import Recipe, recipe_names
from proofmap.reproduce import reproduce as run_recipe
from proofmap.reproduce.run import DATA
from proofmap.results import tables
from proofmap.study.watchers.views import watcher_for


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which table or figure; all are listed when left out.")
    ] = None,
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
    """The paper's tables and figures, beside what it printed: without a NAME, a list of them and what each lacks."""
    if name is None:
        print_result(recipe_list(data))
        return
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


def recipe_list(data: Path) -> str:
    """All recipes, and what to supply for each."""
    rows: list[list[str]] = []
    lacking: dict[str, list[str]] = {}  # what is not here, and the recipes that lack it
    for recipe in map(Recipe.named, recipe_names()):
        state, missing = _state(recipe, data)
        rows.append([recipe.name, state, f"{recipe.title} ({recipe.paper})"])
        for words in missing:
            lacking.setdefault(words, []).append(recipe.name)
    shown = [tables.aligned(["recipe", "", "what it is"], rows)]
    if lacking:
        told = [f"  {', '.join(names)}: {words}" for words, names in lacking.items()]
        shown.append("\n".join(["What is not here (name another folder with --data):", *told]))
    return "\n\n".join(shown)


def _state(recipe: Recipe, data: Path) -> tuple[str, list[str]]:
    """Whether it can be run, and what is not here: of the recipe itself, and of each variant up to the first that is."""
    missing = [need.words(data) for need in recipe.missing(data)]
    required, ready = bool(recipe.lacks(data)), recipe.ready_variant(data)
    for variant in (v for v in recipe.variants if not v.by_name):
        if variant is ready:
            optional = [need for need in variant.needs if not need.is_there(data)]
            missing += [f"({variant.name}) {need.words(data)}" for need in optional]
            break
        missing += [f"({variant.name}) {need.words(data)}" for need in variant.lacks(data)]
    if required or (recipe.variants and ready is None):
        return "lacks data", missing
    if ready is not None and ready is not recipe.variants[0]:
        return f"with {ready.name}", missing
    return "in part" if missing else "ready", missing
