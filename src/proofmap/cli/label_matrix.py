"""``label-matrix``: whose pixels prove what."""

from __future__ import annotations

from typing import Annotated

import typer

from proofmap.cli.options import Format, RunFolder, check_format, print_as
from proofmap.cli.runs import opened_runs
from proofmap.results.label_matrix import label_matrices


def label_matrix(
    run: RunFolder,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    format: Format = "table",
) -> None:
    """The label x label matrix of a run: the mean AUC of every label under the map of every label, beside f."""
    check_format(format)
    with opened_runs([run]) as (found,):
        result = label_matrices(found, methods=method or None)
        print_as(result, format)
