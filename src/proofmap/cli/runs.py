"""Commands on runs: list, compare, seeds, bounds, frontier, report, export, verify, forget; ``audit`` has a file of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli.console import print_result, stderr
from proofmap.cli.options import (
    AsJson,
    Format,
    RunFolder,
    check_format,
    names_after,
    path_option,
    print_as,
    print_notes,
    print_written,
)
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import output_file
from proofmap.report.runs import write_run_report
from proofmap.results.bounds import bounds as bounds_of
from proofmap.results.compare import compare as compare_scores
from proofmap.results.evaluation import Evaluation
from proofmap.results.frontier import frontier as frontier_of
from proofmap.results.seeds import seed_spread
from proofmap.results.tables import aligned
from proofmap.study import Run, StoreError, export_run, verify_run
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import HOW_TO_RUN, Manifest
from proofmap.study.store.database import Store
from proofmap.study.store.lock import locked


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this method (METHOD or RUN/METHOD) only.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also where settings differ.")] = False,
    detect: Annotated[
        float | None,
        typer.Option(help="How many images does a difference this large need? Else the one found."),
    ] = None,
    format: Format = "table",
) -> None:
    """Paired differences between methods, image by image: 95 % intervals, p-values corrected for their number."""
    check_format(format)
    chosen = names_after("--metrics", metrics)
    names = [folder.name or str(folder) for folder in runs]
    if len({*names}) < len(names):
        raise InputError("two of the run directories have the same name; rename one of them")
    with opened_runs(runs) as found:
        evaluations = found[0] if len(found) == 1 else dict(zip(names, found, strict=True))
        result = compare_scores(evaluations, baseline=baseline, metrics=chosen, anyway=anyway, detect=detect)
    print_as(result, format)


@contextmanager
def opened_runs(folders: Sequence[Path]) -> Iterator[list[Evaluation]]:
    """The numbers of runs; what a reader should know of them is printed at the end, if all went well."""
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(folder)) for folder in folders]
        yield [run.evaluation() for run in runs]
        for run in runs:
            print_notes(run)


def seeds(
    runs: Annotated[list[Path], typer.Argument(help="Runs that differ in --seed alone.", show_default=False)],
    format: Format = "table",
) -> None:
    """How far scores move from seed to seed: for methods and fills that draw."""
    check_format(format)
    with opened_runs(runs) as found:
        result = seed_spread(found)
    print_as(result, format)


def bounds(run: RunFolder, format: Format = "table") -> None:
    """How much of each method's overshoot and shortfall was its choice: areas against the weakest and strongest proofs."""
    check_format(format)
    with opened_runs([run]) as (found,):
        result = bounds_of(found)
    print_as(result, format)


def frontier(
    run: RunFolder,
    metrics: Annotated[
        str | None,
        typer.Option(help="Those that count, separated by commas; completeness, soundness and best effort."),
    ] = None,
    format: Format = "table",
) -> None:
    """Which methods or settings no other one beats in every score, and by which the others are dominated."""
    check_format(format)
    with opened_runs([run]) as (found,):
        result = frontier_of(found, scores=names_after("--metrics", metrics))
    print_as(result, format)


def report(
    run: RunFolder,
    out: Annotated[
        Path | None,
        path_option("The file; RUN/report.html when left out."),
    ] = None,
    worst: Annotated[
        int, typer.Option(min=0, help="Images worst in soundness, and in completeness, shown in full.")
    ] = 7,
    random: Annotated[int, typer.Option(min=0, help="Images at random, shown in full.")] = 6,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
) -> None:
    """One HTML file with everything: verdict, table, pictures with a slider; needs no network and no server."""
    with Run(run) as opened:
        page = output_file(out or run / "report.html")
        path = write_run_report(opened, page, worst=worst, random=random, title=title)
    stderr.print(f"written: {path}")


def export(
    run: RunFolder,
    format: Annotated[
        str, typer.Option(help="csv, json or parquet; md or latex for the scores as a table to read.")
    ] = "csv",
    tables: Annotated[
        str | None, typer.Option(help="Of scores, per_image, per_label; all when left out.")
    ] = None,
    out: Annotated[
        Path | None,
        path_option("Folder; RUN/export when left out."),
    ] = None,
) -> None:
    """Every number for other programs: scores with intervals, values per image and per label."""
    with Run(run) as opened:
        wanted = names_after("--tables", tables)
        print_written(export_run(opened, out or run / "export", format, wanted))


def forget(
    run: RunFolder,
    method: Annotated[str, typer.Argument(help="The method to remove.", show_default=False)],
) -> None:
    """Remove a method and all its results from a run; the next evaluate that names it computes it again."""
    with Run(run) as opened:
        known = list(opened.methods)
    if method not in known:
        raise InputError(f"{run} has no method {method!r}; it has {', '.join(known)}")
    with locked(run), Store(run, create=True) as store:
        store.delete_method(method)
    stderr.print(f"{method} is no longer in {run}")


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, and in the folders below.")] = Path("."),
    as_json: AsJson = False,
) -> None:
    """The run directories below a folder: what they are of, and how far they are."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} to look for runs in")
    records = [_run_record(path.parent, folder) for path in sorted(folder.rglob(MANIFEST))]
    found = [record for record in records if record is not None]
    if as_json:
        print_result(json.dumps(found, indent=1))
    elif not found:
        stderr.print(f"there is no run directory below {folder}; {HOW_TO_RUN}")
    else:
        header = ["run", "model", "images", "methods", "state"]
        print_result(aligned(header, [[str(record[key]) for key in header] for record in found]))


def _run_record(path: Path, root: Path) -> dict[str, object] | None:
    """One run as plain data; None for a manifest that is not ours, or a run that cannot be read."""
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


def verify(
    run: RunFolder,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Remove what is damaged, for the next evaluate to compute again, and restore the manifest.",
        ),
    ] = False,
) -> None:
    """Check every stored number and map against its digest: exit code 1 if something is damaged."""
    problems = verify_run(run, repair=repair)
    for problem in problems:
        print_result(problem)
    if not problems:
        stderr.print(f"{run} is intact")
        return
    outdated = False
    with suppress(StoreError):  # a damaged manifest is among the problems
        outdated = Manifest.read(run).outdated
    again = "cannot compute it again" if outdated else "computes it again"
    after = f"the same evaluate command {again}" + (
        ", since an earlier Proofmap made this run" if outdated else ""
    )
    removed = any(problem.path.name != MANIFEST for problem in problems)  # the manifest is restored
    if repair:
        stderr.print(f"removed; {after}" if removed else "restored")
        return
    if removed:
        stderr.print(f"verify --repair removes what is damaged; {after}")
    raise typer.Exit(1)
