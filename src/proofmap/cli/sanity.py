"""``sanity``: do maps change when the net's weights are randomised, and which axioms do methods satisfy?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_as, print_result, print_written, progress_for, stderr
from proofmap.core.errors import MissingExtra
from proofmap.core.files import check_output, output_folder, write_text
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.metrics.axioms import check_axioms
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.specs import run_files_in, split_specs
from proofmap.report.figures.drawing import draw
from proofmap.report.figures.sanity import sanity_figure
from proofmap.results.randomisation import Order

_ORDERS = [order for order in get_args(Order) if order != "labels"]


def sanity(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Photos, folders or a dataset; sample:cat is a sample photo.", show_default=False
        ),
    ] = None,
    model: Annotated[str, options.MODEL] = DEFAULT_MODEL,
    weights: Annotated[Path | None, options.WEIGHTS] = None,
    methods: Annotated[str, options.METHODS] = "gradient,gradient-x-input,grad-cam,edges",
    labels: Annotated[str, options.LABELS] = "top1",
    number: Annotated[int, typer.Option(min=1, help="Number of images, spread evenly over the data.")] = 20,
    orders: Annotated[
        str,
        typer.Option(
            help=f"Orders in which layers are randomised, separated by commas: {', '.join(_ORDERS)}."
        ),
    ] = "cascading",
    groups: Annotated[int, typer.Option(min=1, help="Number of groups that the layers are split into.")] = 6,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="Number of noisy copies that maps are averaged over; the smooth variant uses 50."
        ),
    ] = 1,
    noise: Annotated[
        float, typer.Option(min=0, help="Standard deviation of their noise, as a share of the image's range.")
    ] = 0.1,
    axioms: Annotated[
        bool,
        typer.Option(
            "--axioms",
            help="Instead check which axioms the methods satisfy on small generated nets: sensitivity (a) and (b), implementation invariance. Needs no data.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        options.path_option("Folder for sanity.csv, sanity.json and a figure."),
    ] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    batch_size: Annotated[int | None, options.BATCH_SIZE] = None,
    seed: Annotated[int, options.SEED] = 0,
    format: Annotated[str, options.FORMAT] = "table",
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    run_files_in(methods)
    made = [pm.make_method(name) for name in split_specs(methods)]
    if axioms:
        if format not in ("table", "json"):
            raise pm.InputError(f"--axioms prints a table or json, not {format}")
        reports = [check_axioms(method, seed=seed, device=options.check_device(device)) for method in made]
        records = [asdict(report) for report in reports]
        print_result(json.dumps(records, indent=1) if format == "json" else "\n".join(map(str, reports)))
        return
    if not data:
        raise pm.InputError(
            "no data was named: give photos, folders or a dataset, or --axioms, which needs none"
        )
    if out is not None:
        out = check_output(out)
    chosen = options.names_after("--orders", orders) or []
    dataset = open_data(data)
    classifier = pm.load_classifier(
        model, weights=weights, device=options.check_device(device), batch_size=batch_size
    )
    count = min(number, len(dataset))
    indices = [k * len(dataset) // count for k in range(count)]
    (block,) = load_blocks(dataset, classifier, indices, block_size=max(1, count))
    if not block.indices:
        raise pm.InputError(next(iter(block.failures.values())))
    found = pm.sanity_checks(
        classifier,
        block.images,
        methods=made,
        labels=labels,
        orders=cast(list[Order], chosen),
        groups=groups,
        samples=samples,
        noise=noise,
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    print_as(found, format)
    if out is not None:
        folder = output_folder(out)
        written = [folder / "sanity.csv", folder / "sanity.json"]
        write_text(written[0], found.csv())
        write_text(written[1], found.json())
        try:
            if chosen:
                written.append(draw(sanity_figure(found), folder / "sanity.png"))
        except MissingExtra as missing:
            stderr.print(str(missing))
        print_written(written)
    for reason in block.failures.values():
        stderr.print(f"failed: {reason}")
    if block.failures:
        raise typer.Exit(options.FAILED)
