"""``compare`` and ``analyse``: compare the scores of methods and runs, and analyse them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from proofmap.cli import options
from proofmap.cli.console import print_as, print_notes
from proofmap.core.errors import InputError
from proofmap.results.compare import compare as compare_scores
from proofmap.results.evaluation import Evaluation
from proofmap.study.reading.stored_run import Run


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    baseline: Annotated[
        str | None, typer.Option(help="Compare only with this method (METHOD or RUN/METHOD).")
    ] = None,
    method: Annotated[list[str] | None, options.METHOD] = None,
    metrics: Annotated[str | None, options.METRICS] = None,
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Compare runs even if their settings differ.")
    ] = False,
    detect: Annotated[
        float | None,
        typer.Option(
            help="Report how many images are needed to detect a difference of this size.",
            show_default="the difference found",
        ),
    ] = None,
    format: Annotated[str, options.FORMAT] = "table",
) -> None:
    chosen = options.names_after("--metrics", metrics)
    names = [folder.name or str(folder) for folder in runs]
    if len({*names}) < len(names):
        raise InputError("two of the run directories have the same name; rename one of them")
    with opened_runs(runs) as found:
        evaluations = found[0] if len(found) == 1 else dict(zip(names, found, strict=True))
        result = compare_scores(
            evaluations,
            baseline=baseline,
            methods=method or None,
            metrics=chosen,
            allow_mismatch=allow_mismatch,
            detect=detect,
        )
    print_as(result, format)


@contextmanager
def opened_runs(folders: Sequence[Path]) -> Iterator[list[Evaluation]]:
    """Open runs and yield their evaluations. If nothing fails, notes about the runs are printed at the end."""
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(folder)) for folder in folders]
        yield [run.evaluation() for run in runs]
        for run in runs:
            print_notes(run)


class Analysis(NamedTuple):
    """One kind of ``analyse``: its line of help, its function, and the function's parameter for each option that it takes."""

    help: str
    function: str
    """Module below ``proofmap.results`` and name of the function. It is imported when it is needed."""
    options: Mapping[str, str]
    several_runs: bool = False


ANALYSES = {
    "seeds": Analysis(
        "how far scores move between runs that differ only in --seed",
        "seeds.seed_spread",
        {},
        several_runs=True,
    ),
    "reliability": Analysis(
        "whether images rank the methods the same way, whether metrics agree, and which method is best by all of them",
        "reliability.reliability",
        {"--method": "methods", "--metrics": "metrics"},
    ),
    "frontier": Analysis(
        "which methods no other method beats in every score", "frontier.frontier", {"--metrics": "scores"}
    ),
    "bounds": Analysis(
        "how far a method's proofs are too strong or too weak, and how much of that maps at the bounds would have avoided",
        "bounds.bounds",
        {},
    ),
    "label-matrix": Analysis(
        "the mean AUC of every label under the map of every label",
        "label_matrix.label_matrices",
        {"--method": "methods"},
    ),
}
KIND_HELP = "; ".join(f"[bold]{kind}[/]: {analysis.help}" for kind, analysis in ANALYSES.items()) + "."


def analyse(
    kind: Annotated[str, options.choice_argument(ANALYSES, KIND_HELP, metavar="KIND")],
    runs: Annotated[
        list[Path], typer.Argument(help="A run directory; for seeds, several of them.", show_default=False)
    ],
    method: Annotated[list[str] | None, options.METHOD] = None,
    metrics: Annotated[str | None, options.METRICS] = None,
    format: Annotated[str, options.FORMAT] = "table",
) -> None:
    chosen = ANALYSES[kind]
    given = {"--method": method or None, "--metrics": options.names_after("--metrics", metrics)}
    for option, value in given.items():
        if value is not None and option not in chosen.options:
            raise InputError(f"{option} does not apply to analyse {kind}; leave it out")
    if len(runs) > 1 and not chosen.several_runs:
        raise InputError(f"analyse {kind} takes one run directory, not {len(runs)}")
    with opened_runs(runs) as found:
        module, _, name = chosen.function.partition(".")
        result = getattr(import_module(f"proofmap.results.{module}"), name)(
            found if chosen.several_runs else found[0],
            **{argument: given[option] for option, argument in chosen.options.items()},
        )
    print_as(result, format)
