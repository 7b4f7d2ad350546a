"""Commands on runs: ``compare``, ``analyse``, ``report``, ``export``, ``verify``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from proofmap.cli import options
from proofmap.cli.console import print_as, print_notes, print_result, print_written, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import output_file
from proofmap.report.runs import write_run_report
from proofmap.results.bounds import bounds
from proofmap.results.compare import compare as compare_scores
from proofmap.results.evaluation import Evaluation
from proofmap.results.frontier import frontier
from proofmap.results.label_matrix import label_matrices
from proofmap.results.reliability import reliability
from proofmap.results.score_tables import TABLES
from proofmap.results.seeds import seed_spread
from proofmap.study import Run, export_run, verify_run
from proofmap.study.export import DATA, TEXT
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.store.database import Store
from proofmap.study.store.lock import locked


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    baseline: Annotated[
        str | None, typer.Option(help="Compare only with this method (METHOD or RUN/METHOD).")
    ] = None,
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
            evaluations, baseline=baseline, metrics=chosen, allow_mismatch=allow_mismatch, detect=detect
        )
    print_as(result, format)


@contextmanager
def opened_runs(folders: Sequence[Path]) -> Iterator[list[Evaluation]]:
    """The evaluations of runs. If nothing fails, notes about the runs are printed at the end."""
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(folder)) for folder in folders]
        yield [run.evaluation() for run in runs]
        for run in runs:
            print_notes(run)


class Analysis(NamedTuple):
    """One kind of ``analyse``: its line of help, its function, and that function's names for the options it takes."""

    help: str
    function: Callable[..., object]
    options: Mapping[str, str]
    several_runs: bool = False


ANALYSES = {
    "seeds": Analysis(
        "how far scores move between runs that differ only in --seed", seed_spread, {}, several_runs=True
    ),
    "reliability": Analysis(
        "whether images rank the methods the same way, whether metrics agree, and which method is best by all of them",
        reliability,
        {"--method": "methods", "--metrics": "metrics"},
    ),
    "frontier": Analysis(
        "which methods no other method beats in every score", frontier, {"--metrics": "scores"}
    ),
    "bounds": Analysis(
        "how far a method's proofs are too strong or too weak, and how much of that maps at the bounds would have avoided",
        bounds,
        {},
    ),
    "label-matrix": Analysis(
        "the mean AUC of every label under the map of every label", label_matrices, {"--method": "methods"}
    ),
}
KIND_HELP = "; ".join(f"[bold]{kind}[/]: {analysis.help}" for kind, analysis in ANALYSES.items()) + "."


def analyse(
    kind: Annotated[str, typer.Argument(help=KIND_HELP, parser=options.one_of(ANALYSES), metavar="KIND")],
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
        result = chosen.function(
            found if chosen.several_runs else found[0],
            **{name: given[option] for option, name in chosen.options.items()},
        )
    print_as(result, format)


def report(
    run: Annotated[Path, options.RUN],
    out: Annotated[
        Path | None, options.path_option("The file to write.", show_default="RUN/report.html")
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of images shown in full: the worst by soundness, and the worst by completeness.",
        ),
    ] = 7,
    random: Annotated[int, typer.Option(min=0, help="Number of random images shown in full.")] = 6,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    with Run(run) as opened:
        page = output_file(out or run / "report.html")
        path = write_run_report(opened, page, worst=worst, random=random, title=title)
    stderr.print(f"written: {path}")


def export(
    run: Annotated[Path, options.RUN],
    format: Annotated[
        str,
        options.choice_option((*DATA, *TEXT), f"File format ({' and '.join(TEXT)} have only the scores)"),
    ] = "csv",
    tables: Annotated[
        str | None,
        typer.Option(help=f"Separated by commas: {', '.join(TABLES)}.", show_default="all"),
    ] = None,
    out: Annotated[
        Path | None, options.path_option("Folder for the files.", show_default="RUN/export")
    ] = None,
) -> None:
    with Run(run) as opened:
        wanted = options.names_after("--tables", tables)
        print_written(export_run(opened, out or run / "export", format, wanted))


def verify(
    run: Annotated[Path, options.RUN],
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Remove what is damaged, so that the next evaluate computes it again, and restore the manifest.",
        ),
    ] = False,
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
    problems = verify_run(run, repair=repair)
    for problem in problems:
        print_result(problem)
    if not problems:
        stderr.print(f"{run} is intact")
        return
    after = "the same evaluate command computes it again"
    removed = any(problem.path.name != MANIFEST for problem in problems)  # the manifest is restored
    if repair:
        stderr.print(f"removed; {after}" if removed else "restored")
        return
    if removed:
        stderr.print(f"verify --repair removes what is damaged; {after}")
    raise typer.Exit(1)


def _forget(run: Path, method: str) -> None:
    with Run(run) as opened:
        known = list(opened.methods)
    if method not in known:
        raise InputError(f"{run} has no method {method!r}; it has {', '.join(known)}")
    with locked(run), Store(run, create=True) as store:
        store.delete_method(method)
    stderr.print(f"{method} is no longer in {run}")
