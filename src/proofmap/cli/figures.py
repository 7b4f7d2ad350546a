"""``figures``: draws every kind of figure of the paper, from a run or from your photos, with captions."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_written, progress_for, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import check_output
from proofmap.core.text import check_known
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.models import DEFAULT_MODEL
from proofmap.report.figures import draw_figure, figures_of
from proofmap.report.figures.drawing import FIGURES, FORMATS
from proofmap.report.runs import load_pictured
from proofmap.study import Run


def figures(
    run: Annotated[
        Path | None, typer.Argument(help="A run directory, for figures that are drawn from its numbers.")
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            help="Figures separated by commas; see [bold]proofmap list figures[/].",
            show_default="all that the run allows",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Photos or a dataset, for figures that learn their own masks. May be repeated."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of images: of --data, chosen at random, and in grids that are drawn from a run.",
            show_default="all of --data, 4 in a grid",
        ),
    ] = None,
    labels: Annotated[str | None, options.LABELS] = None,
    method: Annotated[
        str | None,
        typer.Option(
            *options.METHOD, help="Method of figures that learn masks, such as learned-mask:steps=50."
        ),
    ] = None,
    model: Annotated[str, options.MODEL] = DEFAULT_MODEL,
    weights: Annotated[Path | None, options.WEIGHTS] = None,
    formats: Annotated[
        str, typer.Option(help=f"File formats separated by commas: {', '.join(FORMATS)}.")
    ] = "pdf,png",
    out: Annotated[Path, options.path_option("Folder for the results.")] = Path("figures"),
    device: Annotated[str | None, options.DEVICE] = None,
    seed: Annotated[int, options.SEED] = 0,
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    out = check_output(out)
    found: dict[str, Any] = {}
    if run is not None:
        with Run(run) as opened:
            found["evaluation"], _ = load_pictured(opened)
    wanted = _wanted(names, found)
    if any(FIGURES[name].needs == "images" for name in wanted):
        found |= _images(data, number, model, weights, device, seed)
    made = None if method is None else pm.make_method(method)
    kinds = options.names_after("--formats", formats) or ()
    given: dict[str, Any] = {
        "labels": labels,
        "rows": number,
        "method": made,
        "methods": None if made is None else [made],
    }
    given |= {"seed": seed, "progress": progress_for(stderr, quiet)}
    written: list[Path] = []
    for name in wanted:
        written += draw_figure(name, out=out, formats=kinds, **found, **_settings(name, **given))
    print_written(written)


def _settings(name: str, **given: Any) -> dict[str, Any]:
    """Those of the settings that were given and that the figure's function takes. Raises if it needs labels and none were given."""
    takes = inspect.signature(FIGURES[name].make).parameters
    if given["labels"] is None and "labels" in takes and takes["labels"].default is inspect.Parameter.empty:
        raise InputError(f"the figure {name} needs --labels: the labels to find, by name or index")
    if "method" in takes and not isinstance(given["method"], pm.LearnedMask | None):
        raise InputError(f"the figure {name} is about learned masks; --method must be learned-mask:...")
    return {key: value for key, value in given.items() if key in takes and value is not None}


def _wanted(names: str | None, found: dict[str, Any]) -> list[str]:
    if names is None:
        if not found:
            raise InputError("name a run, or figures with --names; see: proofmap list figures")
        return figures_of(found["evaluation"])
    wanted = options.names_after("--names", names) or []
    for name in wanted:
        check_known("figure", name, FIGURES)
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
        raise InputError("these figures learn their own masks: name photos with --data")
    dataset = open_data(data)
    classifier = pm.load_classifier(model, weights=weights, device=options.check_device(device))
    indices = range(len(dataset)) if number is None else random_choice(dataset.names, number, seed=seed)
    (block,) = load_blocks(dataset, classifier, list(indices), block_size=len(indices))
    if block.failures:
        raise InputError(next(iter(block.failures.values())))
    return {"classifier": classifier, "images": block.images}
