"""``list``: lists everything that the command line takes by name, and the runs below a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from proofmap.cli import options
from proofmap.cli.console import print_result, stderr
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import DATA_FOLDER
from proofmap.core.text import check_known
from proofmap.results import tables
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import HOW_TO_RUN
from proofmap.study.stored_run import Run

if TYPE_CHECKING:
    from proofmap.core.registry import Registry
    from proofmap.reproduce.recipe import Recipe

PLUGINS = ("methods", "metrics", "fills", "games", "targets")


class KindList(NamedTuple):
    """The records of one kind of thing, the columns of their table (title, and key in a record), and a note below the table."""

    records: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    note: str = ""


def list_kind(
    kind: Annotated[
        str | None,
        options.choice_argument(KINDS, KIND_HELP, metavar="KIND"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show only this entry, with all its settings. For runs: the folder to search.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Folder with the data and weights that recipes need.")
    ] = DATA_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    if kind is None:
        print_result(f"proofmap list KIND [NAME]\nKIND: {KIND_HELP}")
        return
    if kind in PLUGINS:
        from proofmap.cli.plugin_list import plugin_list  # imports torch

        print_result(plugin_list(_registry(kind), name, as_json=as_json))
        return
    found = LISTS[kind](name, data)
    if as_json:
        print_result(json.dumps(found.records, indent=1))
    elif found.records:
        rows = [
            ["any" if record[key] is None else str(record[key]) for key in found.columns.values()]
            for record in found.records
        ]
        print_result(tables.aligned(list(found.columns), rows))
        if found.note:
            print_result(f"\n{found.note}")
    else:
        stderr.print(found.note)


def _registry(kind: str) -> Registry[Any]:
    from proofmap.fills import FILLS
    from proofmap.methods import METHODS
    from proofmap.metrics import GAMES, METRICS, TARGETS

    registries: tuple[Registry[Any], ...] = (METHODS, METRICS, FILLS, GAMES, TARGETS)
    return dict(zip(PLUGINS, registries, strict=True))[kind]


def _models(name: str | None, _: Path) -> KindList:
    from proofmap.models import list_models

    records = _chosen("model", map(asdict, list_models()), name)
    columns = {"model": "name", "input": "size", "weights": "weights", "what it is": "description"}
    return KindList(records, columns)


def _datasets(name: str | None, _: Path) -> KindList:
    from proofmap.data import list_datasets

    records = _chosen("dataset", map(asdict, list_datasets()), name)
    note = "Words in capitals stand for your own values; what follows them is optional."
    return KindList(records, {"write": "form", "what it is": "description"}, note)


def _figures(name: str | None, _: Path) -> KindList:
    from proofmap.report.figures.drawing import FIGURES

    infos = [{"name": i.name, "needs": i.needs, "description": i.description} for i in FIGURES.values()]
    return KindList(
        _chosen("figure", infos, name), {"figure": "name", "needs": "needs", "what it shows": "description"}
    )


def _chosen(kind: str, records: Iterable[dict[str, Any]], name: str | None) -> list[dict[str, Any]]:
    """The record with this name, or all records if no name is given."""
    known = {record["name"]: record for record in records}
    if name is None:
        return list(known.values())
    check_known(kind, name, known)
    return [known[name]]


def _recipes(name: str | None, data: Path) -> KindList:
    from proofmap.reproduce.recipe import Recipe, recipe_names

    records: list[dict[str, Any]] = []
    missing_in: dict[str, list[str]] = {}  # what is missing, and the recipes that need it
    for recipe in map(Recipe.named, recipe_names() if name is None else [name]):
        state, missing = _recipe_state(recipe, data)
        described = f"{recipe.title} ({recipe.paper})"
        records.append({"name": recipe.name, "state": state, "description": described, "missing": missing})
        for words in missing:
            missing_in.setdefault(words, []).append(recipe.name)
    lines = [f"  {', '.join(names)}: {words}" for words, names in missing_in.items()]
    note = "\n".join(["Missing (--data names another folder):", *lines]) if lines else ""
    return KindList(records, {"recipe": "name", "state": "state", "what it is": "description"}, note)


def _recipe_state(recipe: Recipe, data: Path) -> tuple[str, list[str]]:
    """The state of a recipe in words, and a list of what is missing for it and for its variants, up to the first that can be run."""
    missing = [need.describe(data) for need in recipe.missing(data)]
    required, ready = bool(recipe.lacks(data)), recipe.ready_variant(data)
    for variant in (v for v in recipe.variants if not v.by_name):
        if variant is ready:
            optional = [need for need in variant.needs if not need.is_there(data)]
            missing += [f"({variant.name}) {need.describe(data)}" for need in optional]
            break
        missing += [f"({variant.name}) {need.describe(data)}" for need in variant.lacks(data)]
    if required or (recipe.variants and ready is None):
        return "data missing", missing
    if ready is not None and ready is not recipe.variants[0]:
        return f"with {ready.name}", missing
    return "in part" if missing else "ready", missing


def _runs(name: str | None, _: Path) -> KindList:
    folder = Path("." if name is None else name)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} to look for runs in")
    # folders that vanish meanwhile are passed over
    places = [Path(place) for place, _, names in os.walk(folder) if MANIFEST in names]
    records = [_run_record(place, folder) for place in sorted(places)]
    found = [record for record in records if record is not None]
    note = "" if found else f"there is no run directory below {folder}; {HOW_TO_RUN}"
    return KindList(found, {key: key for key in ("run", "model", "images", "methods", "state")}, note)


def _run_record(path: Path, root: Path) -> dict[str, Any] | None:
    """One run as plain data; None if the manifest belongs to another program or the run cannot be read."""
    try:
        with Run(path) as run:
            return {
                "run": str(path.relative_to(root)) if path != root else str(path),
                "model": str(run.manifest.identity.get("model")),
                "images": len(run.images),
                "methods": ", ".join(run.methods),
                "state": run.state,
            }
    except ProofmapError:
        return None


LISTS: dict[str, Callable[[str | None, Path], KindList]] = {
    "models": _models,
    "datasets": _datasets,
    "figures": _figures,
    "recipes": _recipes,
    "runs": _runs,
}
KINDS = (*PLUGINS, *LISTS)
KIND_HELP = f"One of {', '.join(KINDS)}."
