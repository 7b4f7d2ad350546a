"""``audit``: checks a run's scores against thresholds and against another run. The exit code says whether all checks pass."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proofmap.cli import options
from proofmap.cli.console import print_as, print_notes, stderr
from proofmap.core.errors import InputError
from proofmap.core.files import output_file, write_text
from proofmap.core.inputs import kind_of
from proofmap.core.text import counted
from proofmap.results.audit import audit as audit_scores
from proofmap.results.audit import junit as junit_text
from proofmap.results.evaluation import Evaluation
from proofmap.study.reading.stored_run import Run

if TYPE_CHECKING:
    from proofmap.study.outcome import Outcome


def audit(
    run: Annotated[Path, options.RUN],
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
        list[str] | None,
        typer.Option(
            help="How much worse than in that run any score may be; or METRIC=NUMBER for only this metric. May be repeated."
        ),
    ] = None,
    method: Annotated[list[str] | None, options.METHOD] = None,
    fill: Annotated[
        str | None,
        typer.Option(
            help="Compare the bars with scores of this fill only, such as gray. By default every fill must pass."
        ),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="The whole 95 % interval must pass, not only the mean.")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Fail if net, code, pictures or Proofmap changed since the run."),
    ] = False,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls",
            help="First judge the controls that the run does not have: random maps, a centred Gaussian, each method's maps blurred, and its top label's map used for every label. Runs the net.",
        ),
    ] = False,
    device: Annotated[str | None, options.DEVICE] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Accept runs that are not finished.")
    ] = False,
    junit: Annotated[
        Path | None, options.path_option("Also write the verdicts to this file, as JUnit XML.")
    ] = None,
    format: Annotated[str, options.FORMAT] = "table",
) -> None:
    bars = dict(_metric_and_number("--bar", text) for text in bar or [])
    if (against is None) == bool(max_drop):
        raise InputError(
            "--against and --max-drop must be given together, such as --against runs/main --max-drop 0.05"
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
        with Run(run) as opened:  # a bar that is refused must not add controls to the run
            audit_scores(opened.evaluation(), **least, bars=bars, fill=fill)
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
            fill=fill,
            use="interval" if interval else "mean",
            against=None if other is None else other.evaluation(),
            max_drop=_limits(max_drop) if max_drop else None,
        )
        demands = {}
        if not unfinished:
            failed = "" if method else _failed(opened, evaluation)
            demands["is finished"] = _unfinished(opened, "the run") or failed
        if not unfinished and other is not None:
            demands["is compared with a finished run"] = _unfinished(other, "the other run")
        if fresh:
            demands["is fresh"] = _stale(opened)
        if junit is not None:
            write_text(
                output_file(junit, "--junit", "audit.xml"),
                junit_text(result, run=opened.folder.name, also=demands),
            )
        print_notes(opened)
        for note in result.notes if format == "csv" else ():  # the other formats contain them
            stderr.print(f"note: {note}")
    print_as(result, format)
    for reason in filter(None, demands.values()):
        stderr.print(reason)
    if not result.passes or any(demands.values()):
        raise typer.Exit(1)


def _judge_controls(run: Path, device: str | None) -> None:
    """Judge the controls that a run lacks and store them in the run. If that fails, print the reason; the audit continues."""

    from proofmap.report.runs import save_run
    from proofmap.study.stored_study import add_controls

    def write(outcome: Outcome) -> list[Path]:
        with Run(outcome.folder) as judged:
            return save_run(judged, pictures=False)[1] if (judged.folder / "scores.csv").exists() else []

    reason = add_controls(
        run,
        device=options.check_device(device),
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
    """Parse limits: one number for all scores, or one number for each named metric."""
    if len(texts) == 1 and "=" not in texts[0]:
        try:
            return float(texts[0])
        except ValueError:
            raise InputError(f"--max-drop must be a number, or METRIC=NUMBER, not {texts[0]!r}") from None
    return dict(_metric_and_number("--max-drop", text) for text in texts)


def _unfinished(run: Run, which: str) -> str:
    """A text that says why a run is not finished; empty if it is finished."""
    item = kind_of(run.manifest.identity).singular
    lacking = [f"{method} lacks {counted(n, item)}" for method, n in run.unfinished().items()]
    reason = f"{which} is not finished, so it does not pass: {', '.join(lacking)}. Continue it, or accept it with --unfinished"
    return reason if lacking else ""


def _failed(run: Run, evaluation: Evaluation) -> str:
    """A text that names the methods which failed on every image; empty if there are none."""
    lacking = {*run.methods} - {*run.unfinished()} - {result.name for result in evaluation.results}
    reason = f"no {evaluation.inputs.singular} has a result of {', '.join(sorted(lacking))}, so the run does not pass; see its report, or name others with --method"
    return reason if lacking else ""


def _stale(run: Run) -> str:
    """A text that says what has changed since the run was computed; empty if nothing has."""
    from proofmap.study.stored_study import what_changed

    changed = what_changed(run, options.check_device(None))
    more = f" (and {len(changed) - 5} more)" if len(changed) > 5 else ""
    reason = f"the run is not fresh, so it does not pass: {'; '.join(changed[:5])}{more}. Evaluate into another --out"
    return reason if changed else ""


def _check_same_pictures(run: Run, other: Run) -> None:
    """Raise if images with the same name are different pictures in the two runs: images are matched by name."""
    digests = {image.name: image.digest for image in other.images}
    for image in run.images:
        if digests.get(image.name, image.digest) != image.digest:
            raise InputError(
                f"{image.name} is not the same in {run.folder} and {other.folder}, so the runs cannot be compared; "
                "judge both on the same data"
            )
