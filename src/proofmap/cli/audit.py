"""``audit``: a run's scores against bars and against another run, answered with the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from proofmap.cli.console import stderr
from proofmap.cli.options import (
    Device,
    Format,
    RunFolder,
    device_named,
    path_option,
    print_as,
    print_notes,
)
from proofmap.core.errors import InputError
from proofmap.core.files import output_file, write_text
from proofmap.core.text import counted
from proofmap.results.audit import audit as audit_scores
from proofmap.results.evaluation import Evaluation
from proofmap.results.junit import junit as junit_text
from proofmap.study.outcome import Outcome
from proofmap.study.results import Run


def audit(
    run: RunFolder,
    min_completeness: Annotated[float | None, typer.Option(help="Least mean completeness.")] = None,
    min_soundness: Annotated[float | None, typer.Option(help="Least mean soundness.")] = None,
    min_best_effort: Annotated[float | None, typer.Option(help="Least mean best effort.")] = None,
    bar: Annotated[
        list[str] | None, typer.Option(help="Any other metric: METRIC=VALUE; may be given several times.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another run of the same images, such as that of yesterday's net.")
    ] = None,
    max_drop: Annotated[
        list[str] | None,
        typer.Option(
            help="How much any score may get worse against it; or METRIC=NUMBER, several times, for these only."
        ),
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="The whole 95 % interval must pass, not only the mean.")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Fail where net, code, pictures or Proofmap changed since the run."),
    ] = False,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls",
            help="First judge the controls that the run lacks: noise, the middle, and each method's maps blurred and shown for every label. Runs the net.",
        ),
    ] = False,
    device: Device = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Also of a run that is not finished.")
    ] = False,
    junit: Annotated[
        Path | None,
        path_option("Write the verdicts to this file too, as JUnit XML.", show_default=False),
    ] = None,
    format: Format = "table",
) -> None:
    bars = dict(_metric_and_number("--bar", text) for text in bar or [])
    if (against is None) == bool(max_drop):
        raise InputError(
            "--against and --max-drop belong together, such as --against runs/main --max-drop 0.05"
        )
    if not (bars or against) and {min_completeness, min_soundness, min_best_effort} == {None}:
        raise InputError(
            "an audit needs a bar, such as --min-completeness 0.8 or --bar insertion=0.5, or another run: "
            "--against RUN --max-drop 0.05"
        )
    least: dict[str, Any] = {
        "min_completeness": min_completeness,
        "min_soundness": min_soundness,
        "min_best_effort": min_best_effort,
    }
    if controls:
        with Run(run) as opened:  # what cannot be asked adds nothing to the run
            audit_scores(opened.evaluation(), **least, bars=bars)
        _judge_controls(run, device)
    with ExitStack() as stack:
        opened = stack.enter_context(Run(run))
        other = None if against is None else stack.enter_context(Run(against))
        if other is not None:
            _check_same_pictures(opened, other)
        evaluation = opened.evaluation()
        result = audit_scores(
            evaluation,
            **least,
            bars=bars,
            method=method,
            use="interval" if interval else "mean",
            against=None if other is None else other.evaluation(),
            max_drop=_limits(max_drop) if max_drop else None,
        )
        demands = {}
        if not unfinished:
            failed = "" if method else _failed(opened, evaluation)
            demands["is finished"] = _unfinished(opened, "the run") or failed
        if not unfinished and other is not None:
            demands["is held against a finished run"] = _unfinished(other, "the other run")
        if fresh:
            demands["is fresh"] = _stale(opened)
        if junit is not None:
            write_text(
                output_file(junit, "--junit", "audit.xml"),
                junit_text(result, run=opened.folder.name, also=demands),
            )
        print_notes(opened)
        for note in result.notes if format in ("md", "csv") else ():  # the other forms have them
            stderr.print(f"note: {note}")
    print_as(result, format)
    for reason in filter(None, demands.values()):
        stderr.print(reason)
    if not result.passes or any(demands.values()):
        raise typer.Exit(1)


def _judge_controls(run: Path, device: str | None) -> None:
    """Judge the controls that a run lacks and store them in it. If that fails, the audit goes on and says why."""
    from proofmap.report.runs import (
        save_run,  # only here: an audit that only reads loads no net and draws nothing
    )
    from proofmap.study.controls import add_controls

    def write(outcome: Outcome) -> list[Path]:
        with Run(outcome.folder) as judged:
            return save_run(judged, pictures=False)[1] if (run / "scores.csv").exists() else []

    reason = add_controls(
        run,
        device=device_named(device),
        on_start=lambda names: stderr.print(f"judging {counted(len(names), 'control')}: {', '.join(names)}"),
        on_end=write,
    )
    if reason:
        stderr.print(f"note: controls were not judged: {reason}")


def _metric_and_number(option: str, text: str) -> tuple[str, float]:
    metric, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        equals = ""
    if not equals or not metric.strip():
        raise InputError(f"{option} must be METRIC=NUMBER, not {text!r}")
    return metric.strip(), number


def _limits(texts: Sequence[str]) -> float | dict[str, float]:
    """One number for all scores, or one for each that is named."""
    if len(texts) == 1 and "=" not in texts[0]:
        try:
            return float(texts[0])
        except ValueError:
            raise InputError(f"--max-drop must be a number, or METRIC=NUMBER, not {texts[0]!r}") from None
    return dict(_metric_and_number("--max-drop", text) for text in texts)


def _unfinished(run: Run, which: str) -> str:
    """Why a run is not finished; empty where it is."""
    lacking = [f"{method} lacks {counted(n, 'image')}" for method, n in run.unfinished().items()]
    told = f"{which} is not finished, so it does not pass: {', '.join(lacking)}. Continue it, or accept it with --unfinished"
    return told if lacking else ""


def _failed(run: Run, evaluation: Evaluation) -> str:
    """Which methods failed on every image; empty where none did."""
    lacking = {*run.methods} - {*run.unfinished()} - {result.name for result in evaluation.results}
    told = f"no image has a result of {', '.join(sorted(lacking))}, so the run does not pass; see its report, or name others with --method"
    return told if lacking else ""


def _stale(run: Run) -> str:
    """Why a run is not of the present state; empty where it is."""
    from proofmap.study.fresh import what_changed  # it opens the net and the data

    changed = what_changed(run, device_named(None))
    more = f" (and {len(changed) - 5} more)" if len(changed) > 5 else ""
    told = f"the run is not fresh, so it does not pass: {'; '.join(changed[:5])}{more}. Evaluate into another --out"
    return told if changed else ""


def _check_same_pictures(run: Run, other: Run) -> None:
    """Images are matched by name, and what has one name must be one picture."""
    digests = {image.name: image.digest for image in other.images}
    for image in run.images:
        if digests.get(image.name, image.digest) != image.digest:
            raise InputError(
                f"{image.name} is not the same picture in {run.folder} and {other.folder}, so they do not compare; "
                "judge both on the same pictures"
            )
