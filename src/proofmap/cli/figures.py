"""``figures``: every kind of figure of the paper, from a run or on photos of yours, with captions."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

import proofmap as pm
from proofmap.cli.console import progress_for, stderr
from proofmap.cli.options import (
    LABELS_HELP,
    Device,
    Model,
    Quiet,
    Seed,
    Weights,
    device_named,
    path_option,
    print_written,
    split_list,
)
from proofmap.core.errors import InputError
from proofmap.core.files import check_output
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.models import DEFAULT_MODEL
from proofmap.report.figures import FIGURES, draw_figure, figures_of
from proofmap.report.runs import shown
from proofmap.study import Run


def figures(
    run: Annotated[
        Path | None, typer.Argument(help="A run directory, for the figures of its numbers.")
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="Which, separated by commas; all that the run can give when left out.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Photos or a dataset, for the figures that learn masks of their own."),
    ] = None,
    number: Annotated[int | None, typer.Option(min=1, help="So many of them, at random.")] = None,
    labels: Annotated[str | None, typer.Option(help=LABELS_HELP + " For figures that take labels.")] = None,
    method: Annotated[
        str | None, typer.Option(help="For the figures that learn masks, such as learned-mask:steps=50.")
    ] = None,
    model: Model = DEFAULT_MODEL,
    weights: Weights = None,
    formats: Annotated[str, typer.Option(help="Of pdf, png, svg.")] = "pdf,png",
    out: Annotated[Path, path_option("Folder for the figures.")] = Path("figures"),
    device: Device = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    check_output(out)
    found: dict[str, Any] = {}
    if run is not None:
        with Run(run) as opened:
            found["evaluation"], _ = shown(opened)
    wanted = _wanted(names, found)
    if any(FIGURES[name].needs == "images" for name in wanted):
        found |= _images(data, number, model, weights, device, seed)
    settings: dict[str, Any] = {"seed": seed, "progress": progress_for(stderr, quiet)}
    written: list[Path] = []
    for name in wanted:
        needs = FIGURES[name].needs
        given = {
            key: value for key, value in found.items() if (key == "evaluation") == (needs == "evaluation")
        }
        chosen = {**settings, **_choices(name, labels, method)} if needs == "images" else {}
        written += draw_figure(name, out=out, formats=split_list(formats), **given, **chosen)
    print_written(written)


def _choices(name: str, labels: str | None, method: str | None) -> dict[str, Any]:
    """Labels and method as the figure's maker takes them."""
    takes = inspect.signature(FIGURES[name].make).parameters
    chosen: dict[str, Any] = {}
    if labels is not None:
        if "labels" not in takes:
            raise InputError(f"the figure {name} chooses its labels itself; leave out --labels")
        chosen["labels"] = labels
    elif "labels" in takes and takes["labels"].default is inspect.Parameter.empty:
        raise InputError(f"the figure {name} needs --labels: the things it shall find, by name or index")
    if method is not None:
        made = pm.make_method(method)
        if "method" in takes and not isinstance(made, pm.LearnedMask):
            raise InputError(f"the figure {name} is about learned masks; --method must be learned-mask:...")
        chosen |= {"method": made} if "method" in takes else {"methods": [made]}
    return chosen


def _wanted(names: str | None, found: dict[str, Any]) -> list[str]:
    if names is None:
        if not found:
            raise InputError("name a run, or figures with --names; see: proofmap list figures")
        return figures_of(found["evaluation"])
    wanted = split_list(names)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown or not wanted:
        raise InputError(f"no figure is named {(unknown or [names])[0]!r}; known are {', '.join(FIGURES)}")
    lacking = [name for name in wanted if FIGURES[name].needs == "evaluation" and not found]
    if lacking:
        raise InputError(
            f"the figure {lacking[0]} is drawn from a run: proofmap figures RUN --names {lacking[0]}"
        )
    return wanted


def _images(
    data: list[str] | None,
    number: int | None,
    model: str,
    weights: Path | None,
    device: str | None,
    seed: int,
) -> dict[str, Any]:
    if not data:
        raise InputError("these figures learn masks of their own: name photos with --data")
    dataset = open_data(data)
    classifier = pm.load_classifier(model, weights=weights, device=device_named(device))
    indices = range(len(dataset)) if number is None else random_choice(dataset.names, number, seed=seed)
    (block,) = load_blocks(dataset, classifier, list(indices), block_size=len(indices))
    if block.failures:
        raise InputError(block.failures[0].reason)
    return {"classifier": classifier, "images": block.images}
