"""``reliability``: how far a run's metrics can be relied on, and the order of its methods by all of them."""

from __future__ import annotations

from typing import Annotated

import typer

from proofmap.cli.options import Format, RunFolder, check_format, names_after, print_as
from proofmap.cli.runs import opened_runs
from proofmap.results.reliability import reliability as reliability_of


def reliability(
    run: RunFolder,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    format: Format = "table",
) -> None:
    """Do images rank the methods alike, do metrics agree, and which method comes first by all of them?"""
    check_format(format)
    with opened_runs([run]) as (found,):
        result = reliability_of(found, methods=method or None, metrics=names_after("--metrics", metrics))
    print_as(result, format)
