"""``validate``: how far can metrics be trusted on this net and data?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_as, print_written, progress_for, stderr
from proofmap.core.files import check_output, output_folder, write_text
from proofmap.core.text import counted
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.specs import run_files_in, split_specs
from proofmap.validation import TESTS, expected_passes


def validate(
    data: Annotated[
        list[str],
        typer.Argument(
            help="Photos, folders or a dataset; a few dozen images are enough.", show_default=False
        ),
    ],
    model: Annotated[str, options.MODEL] = DEFAULT_MODEL,
    weights: Annotated[Path | None, options.WEIGHTS] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Metrics separated by commas; see [bold]proofmap list metrics[/].",
            show_default="the usual five",
        ),
    ] = None,
    methods: Annotated[str | None, options.METHODS] = None,
    labels: Annotated[str, options.LABELS] = "top2+wrong",
    number: Annotated[int, typer.Option(min=2, help="Number of images, spread evenly over the data.")] = 24,
    tests: Annotated[str, typer.Option(help="Tests to make, separated by commas.")] = ",".join(TESTS),
    fills: Annotated[
        str | None, typer.Option(help="Fills to compare, separated by commas.", show_default="up to two")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="A second net that judges, such as one that was tuned on masked inputs."),
    ] = None,
    points: Annotated[int, typer.Option(min=2, help="Points of each curve.")] = 6,
    out: Annotated[Path | None, options.path_option("Folder for validation.json and validation.csv.")] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    batch_size: Annotated[int | None, options.BATCH_SIZE] = None,
    seed: Annotated[int, options.SEED] = 0,
    format: Annotated[str, options.FORMAT] = "table",
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    named = [text for text in (metrics, methods, fills) if text]
    run_files_in(tuple(named))
    if out is not None:
        out = check_output(out)
    chosen, compared = options.names_after("--tests", tests), split_specs(fills, "fill") if fills else []
    where = options.check_device(device)
    classifier = pm.load_classifier(model, weights=weights, device=where, batch_size=batch_size)
    dataset = open_data(data)
    count = min(number, len(dataset))
    indices = [k * len(dataset) // count for k in range(count)]
    (block,) = load_blocks(dataset, classifier, indices, block_size=max(1, count))
    for reason in block.failures.values():
        stderr.print(f"failed: {reason}")
    if not quiet:
        width = len(classifier.choose_labels(block.images[:1], labels)[0])
        many = 3 if methods is None else len(split_specs(methods))
        passes = expected_passes(classifier, len(block.indices), metrics, many, width, points)
        stderr.print(
            f"about {passes:,} passes of the net for {counted(count, classifier.inputs.singular)}, and those of the methods"
        )
    found = pm.validate(
        classifier,
        block.images,
        metrics=metrics,
        methods=methods,
        labels=labels,
        tests=chosen or TESTS,
        fills=compared,
        judge=None if judge is None else pm.load_classifier(judge, device=where),
        points=points,
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    print_as(found, format)
    if out is not None:
        folder = output_folder(out)
        written = [folder / "validation.json", folder / "validation.csv"]
        write_text(written[0], found.json())
        write_text(written[1], found.csv())
        print_written(written)
    if block.failures:
        raise typer.Exit(options.FAILED)
