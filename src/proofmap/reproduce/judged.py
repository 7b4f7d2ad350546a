"""The experiment ``study``: methods judged on images as ``proofmap evaluate`` does it, beside what the paper printed.

[settings]
tolerance = 0.07                # how far a cell may be from the paper's
figures = ["curves"]            # of the evaluation

[settings.study]                # a study, as proofmap evaluate takes it
[settings.each_method]          # settings of all methods, whatever each says
[settings.each_metric]          # and of all metrics

[settings.paper."TV 0"]         # what the paper printed, by method and metric
"completeness, gray" = 0.92

[[settings.trends]]             # what it says of several methods: a metric rises or falls along them
metric = "completeness, gray"
direction = "falls"
methods = ["TV 0", "TV .001"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.report.figures import make_figure
from proofmap.report.runs import save_run
from proofmap.reproduce.outcome import Claim, Job, Outcome, Table
from proofmap.results.evaluation import Evaluation
from proofmap.results.statistics import Score
from proofmap.results.tables import number
from proofmap.study import Run, Study, run_study
from proofmap.study.outcome import Outcome as Finished
from proofmap.study.watchers.views import ProgressFile


def run(job: Job) -> Outcome:
    """The study in the run directory, continued if it was stopped; its scores beside the paper's."""
    found: list[tuple[Evaluation, list[Path]]] = []

    def write(finished: Finished) -> list[Path]:
        with Run(finished.folder) as opened:
            if opened.has_results:
                found.append(save_run(opened, pictures=False))
        return found[0][1] if found else []

    finished = run_study(
        study_of(job),
        job.folder,
        device=job.device,
        watchers=[*job.watchers, ProgressFile(job.folder / "progress.json")],
        on_end=write,
        command=job.command,
    )
    if not found:
        raise InputError(f"no method gave a result; proofmap report {job.folder} says why")
    evaluation, written = found[0]
    with Run(job.folder) as opened:
        notes = opened.notes()
    if finished.failed or finished.unreadable:
        notes.append(
            f"{counted(finished.failed + finished.unreadable, 'thing')} failed; report.html says which"
        )
    return Outcome(
        (_table(evaluation, job.settings),),
        tuple(_claims(evaluation, job.settings)),
        tuple(make_figure(name, evaluation=evaluation) for name in job.settings.get("figures", ())),
        tuple(notes),
        tuple(written),
    )


def study_of(job: Job) -> Study:
    """The study of a recipe: what holds for all methods and metrics is put into each."""
    settings = job.settings
    table = dict(settings["study"])
    for kind in ("methods", "metrics"):
        shared = settings.get(f"each_{kind[:-1]}", {})
        table[kind] = [{**entry, **shared} for entry in table[kind]]
    study = replace(Study.from_table(table), seed=job.seed)
    return study if job.images is None else replace(study, images=replace(study.images, number=job.images))


def _table(evaluation: Evaluation, settings: Mapping[str, Any]) -> Table:
    paper = settings.get("paper", {})
    scores = [score.name for score in evaluation.results[0].scores]
    rows, records = [], []
    for result in evaluation.results:
        printed = paper.get(result.name, {})
        cells = [_cell(result.score(name), printed.get(name)) for name in scores]
        rows.append((result.name, *cells))
        for name in scores:
            score = result.score(name)
            records.append(
                {
                    "method": result.name,
                    "score": name,
                    "value": score.value,
                    "low": score.low,
                    "high": score.high,
                    "n": score.n,
                    "paper": printed.get(name, ""),
                }
            )
    title = f"{evaluation.settings['model']}, {counted(len(evaluation), 'image')}, labels {evaluation.settings['labels']}"
    return Table(title, ("method", *scores), tuple(rows), tuple(records))


def _cell(score: Score, printed: float | None) -> str:
    interval = f" [{number(score.low)}, {number(score.high)}]"
    return f"{number(score.value)}{interval}" + (
        "" if printed is None else f" (paper {number(float(printed))})"
    )


def _claims(evaluation: Evaluation, settings: Mapping[str, Any]) -> Iterator[Claim]:
    away = [
        (abs(evaluation[method].score(name).value - printed), method, name)
        for method, cells in settings.get("paper", {}).items()
        for name, printed in cells.items()
    ]
    if away and "tolerance" in settings:
        largest, method, name = max(away)
        yield Claim(
            f"every cell is within {settings['tolerance']:g} of the paper's",
            largest <= settings["tolerance"],
            f"the largest difference is {largest:.3f}: {name} of {method}",
        )
    for trend in settings.get("trends", ()):
        values = [evaluation[method].score(trend["metric"]).value for method in trend["methods"]]
        yield Claim(
            f"{trend['metric']} {trend['direction']} from {trend['methods'][0]} to {trend['methods'][-1]}",
            values == sorted(values, reverse=trend["direction"] == "falls"),
            ", ".join(map(number, values)),
        )
