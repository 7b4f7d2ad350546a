"""Commands that read runs: ``compare``, ``audit``, ``report`` and ``export``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from proofmap.cli import options
from proofmap.cli.console import print_as, print_written, shown_path, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import output_file, output_folder, write_text, written_together
from proofmap.core.text import counted, csv_lines, one_line
from proofmap.plugins.specs import split_specs
from proofmap.results.audit import audit as audit_scores
from proofmap.results.compare import compare as compare_scores
from proofmap.results.evaluation import Evaluation
from proofmap.results.score_tables import TABLES, score_table, table_records
from proofmap.results.sharing import shared, without_folders
from proofmap.study.stored_run import Run

_FORMATS = ("csv", "json", "md", "latex")
_RUN = typer.Argument(help="A run directory, made by evaluate.", show_default=False)
_METHODS = typer.Option("--methods", "--method", help="Only these methods, separated by commas.")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    baseline: Annotated[
        str | None, typer.Option(help="Compare only with this method (METHOD or RUN/METHOD).")
    ] = None,
    methods: Annotated[list[str] | None, _METHODS] = None,
    metrics: Annotated[str | None, typer.Option(help="Only these metrics, separated by commas.")] = None,
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
    scores = options.names_after("--metrics", metrics)
    names = [folder.name or str(folder) for folder in runs]
    if len({*names}) < len(names):
        raise InputError("two of the run directories have the same name; rename one of them")
    with ExitStack() as stack:
        opened = [stack.enter_context(Run(folder)) for folder in runs]
        found = [run.evaluation() for run in opened]
        result = compare_scores(
            found[0] if len(found) == 1 else dict(zip(names, found, strict=True)),
            baseline=baseline,
            methods=_names(methods),
            metrics=scores,
            allow_mismatch=allow_mismatch,
            detect=detect,
        )
        for run in opened:
            _print_notes(run)
    print_as(result, format)


def _names(methods: list[str] | None) -> list[str] | None:
    """The names of methods in an option, which may hold commas in their settings."""
    return [name for each in methods or () for name in split_specs(each)] or None


def _print_notes(run: Run) -> None:
    """Print the notes of a run, which say how its numbers were made."""
    for note in run.notes():
        stderr.print(f"note: {run.folder.name}: {note}")


def audit(
    run: Annotated[Path, _RUN],
    min_completeness: Annotated[
        float | None, typer.Option(min=0, max=1, help="Minimum mean completeness, from 0 to 1.")
    ] = None,
    min_soundness: Annotated[
        float | None, typer.Option(min=0, max=1, help="Minimum mean soundness, from 0 to 1.")
    ] = None,
    min_best_effort: Annotated[
        float | None, typer.Option(min=0, max=1, help="Minimum mean best effort, from 0 to 1.")
    ] = None,
    bar: Annotated[
        list[str] | None, typer.Option(help="A bar for any metric: METRIC=NUMBER. May be repeated.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another run of the same images, such as that of yesterday's net.")
    ] = None,
    max_drop: Annotated[
        float | None, typer.Option(help="How much worse than in that run any score may be.")
    ] = None,
    methods: Annotated[list[str] | None, _METHODS] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="The whole 95 % interval must pass, not only the mean.")
    ] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Accept runs that are not finished.")
    ] = False,
    format: Annotated[str, options.FORMAT] = "table",
) -> None:
    bars = dict(map(_bar, bar or []))
    if (against is None) != (max_drop is None):
        raise InputError(
            "--against and --max-drop must be given together, such as --against runs/main --max-drop 0.05"
        )
    if not (bars or against) and {min_completeness, min_soundness, min_best_effort} == {None}:
        raise InputError(
            "an audit needs a bar, such as --min-completeness 0.8 or --bar insertion=0.5, or another run: "
            "--against RUN --max-drop 0.05"
        )
    with ExitStack() as stack:
        opened = stack.enter_context(Run(run))
        other = None if against is None else stack.enter_context(Run(against))
        if other is not None:
            _check_same_pictures(opened, other)
        evaluation = opened.evaluation()
        result = audit_scores(
            evaluation,
            min_completeness=min_completeness,
            min_soundness=min_soundness,
            min_best_effort=min_best_effort,
            bars=bars,
            methods=_names(methods),
            use="interval" if interval else "mean",
            against=None if other is None else other.evaluation(),
            max_drop=max_drop,
        )
        demands = []
        if not unfinished:
            demands.append(_unfinished(opened, "the run") or ("" if methods else _failed(opened, evaluation)))
            demands.append("" if other is None else _unfinished(other, "the other run"))
        _print_notes(opened)
        for note in result.notes if format == "csv" else ():  # the other formats contain them
            stderr.print(f"note: {note}")
    print_as(result, format)
    for reason in filter(None, demands):
        stderr.print(reason)
    if not result.passes or any(demands):
        raise typer.Exit(1)


def _bar(text: str) -> tuple[str, float]:
    """The metric and the number of a bar."""
    metric, _, value = text.partition("=")
    try:
        return metric.strip(), float(value)
    except ValueError:
        raise InputError(f"--bar must be METRIC=NUMBER, not {text!r}") from None


def _unfinished(run: Run, which: str) -> str:
    """A text that says why a run is not finished; empty if it is finished."""
    item = run.manifest.kind.singular
    lacking = [f"{method} lacks {counted(n, item)}" for method, n in run.unfinished().items()]
    reason = f"{which} is not finished, so it does not pass: {', '.join(lacking)}. Continue it, or accept it with --unfinished"
    return reason if lacking else ""


def _failed(run: Run, evaluation: Evaluation) -> str:
    """A text that names the methods which failed on every image; empty if there are none."""
    lacking = {*run.methods} - {*run.unfinished()} - {result.name for result in evaluation.results}
    reason = f"no {evaluation.inputs.singular} has a result of {', '.join(sorted(lacking))}, so the run does not pass; see its report, or name others with --methods"
    return reason if lacking else ""


def _check_same_pictures(run: Run, other: Run) -> None:
    """Raise if images with the same name are different pictures in the two runs: images are matched by name."""
    digests = {image.name: image.digest for image in other.images}
    for image in run.images:
        if digests.get(image.name, image.digest) != image.digest:
            raise InputError(
                f"{image.name} is not the same in {run.folder} and {other.folder}, so the runs cannot be compared; "
                "judge both on the same data"
            )


def report(
    run: Annotated[Path, _RUN],
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
    from proofmap.report.runs import write_run_report

    with Run(run) as opened:
        page = output_file(out or run / "report.html")
        path = write_run_report(opened, page, worst=worst, random=random, title=title or "")
    stderr.print(f"written: {shown_path(path)}")


def export(
    run: Annotated[Path, _RUN],
    format: Annotated[
        str,
        options.choice_option(_FORMATS, "File format (md and latex have only the scores)"),
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


def export_run(
    run: Run, out: str | Path, format: str = "csv", tables: Sequence[str] | None = None
) -> list[Path]:
    """Write tables of a run to a folder and return the files. By default, all tables that the format supports.

    CSV and JSON have three tables: ``scores`` has means with intervals, one row per method and metric; ``per_image`` and ``per_label`` have
    every value. A value that does not count is empty or null. Markdown and LaTeX have only the scores, one row per method.
    """
    if format not in _FORMATS:
        raise InputError(f"the format must be {', '.join(_FORMATS)}, not {format!r}")
    offered = TABLES if format in ("csv", "json") else TABLES[:1]
    wanted = offered if tables is None else tables
    unknown = [name for name in wanted if name not in offered]
    if unknown or not wanted:
        what = f"there is no table {unknown[0]!r} in {format}" if unknown else "no table was named"
        raise InputError(f"{what}; there are {', '.join(offered)}")
    evaluation = shared(run.evaluation())
    if offered != TABLES:
        notes = [without_folders(note) for note in run.notes()]
        table = score_table(evaluation)
        if format == "md":
            text = replace(table, notes=(*table.notes, *notes)).markdown()
        else:
            text = "\n".join([*(f"% {one_line(note)}" for note in notes), table.to_latex()])
        path = output_folder(out) / f"scores.{'md' if format == 'md' else 'tex'}"
        write_text(path, f"{text}\n")
        return [path]
    truth = {row.name: row.truth for row in run.images}
    with written_together(out) as folder:
        for name in wanted:
            records = []
            for record in table_records(evaluation, name):
                if name != "scores":  # the true label of the image stands before its value
                    value = record.pop("value")
                    record |= {"truth": truth[str(record["image"])], "value": value}
                # NaN is empty in every table
                records.append({key: None if value != value else value for key, value in record.items()})
            if format == "json":
                text = "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n"
            else:
                lines = csv_lines([list(records[0]), *(list(record.values()) for record in records)])
                text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{format}").write_text(text, encoding="utf-8", newline="")
    return [Path(out, f"{name}.{format}") for name in wanted]
