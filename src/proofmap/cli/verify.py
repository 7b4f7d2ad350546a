"""``verify``: finds damaged files of a run, and removes methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli import options
from proofmap.cli.console import print_result, stderr
from proofmap.core.errors import InputError
from proofmap.study.reading.stored_run import Run
from proofmap.study.reading.verify import verify_run
from proofmap.study.store.database import Store
from proofmap.study.store.lock import locked


def verify(
    run: Annotated[Path, options.RUN],
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Check nothing, but remove this method and all its results. The next evaluate that names it computes it again.",
        ),
    ] = None,
) -> None:
    if forget is not None:
        _forget(run, forget)
        return
    problems = verify_run(run)
    for problem in problems:
        print_result(problem)
    if problems:
        raise typer.Exit(1)
    stderr.print(f"{run} is intact")


def _forget(run: Path, method: str) -> None:
    with Run(run) as opened:
        known = list(opened.methods)
    if method not in known:
        raise InputError(f"{run} has no method {method!r}; it has {', '.join(known)}")
    with locked(run), Store(run, create=True) as store:
        store.delete_method(method)
    stderr.print(f"{method} is no longer in {run}")
