"""The experiment ``study``: methods judged on images as ``proofmap evaluate`` does it, beside what the paper printed.

[settings]
figures = ["curves"]            # of the evaluation

[settings.study]                # see proofmap.reproduce.rows

[settings.tuned]                # the saliency metric's threshold: see proofmap.reproduce.tuned

[settings.paper."TV 0"]         # what the paper printed, by method and metric
"completeness, gray" = 0.92

Claims about rows: see proofmap.reproduce.claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.methods.method import Method
from proofmap.report.runs import SavedRun
from proofmap.reproduce.begun import asked_for, begun
from proofmap.reproduce.beside import epsilon_table, rows_table, score_tables
from proofmap.reproduce.claims import claims_of, orderings_of, orderings_table
from proofmap.reproduce.outcome import Job, Outcome, Table, Work
from proofmap.reproduce.pictured import figures_of
from proofmap.reproduce.rows import rows_for_later, study_of
from proofmap.reproduce.stored import Stored
from proofmap.reproduce.tuned import tuned_on_first_images, tuned_on_other_images, without_metric
from proofmap.results.evaluation import Evaluation
from proofmap.study import Run, run_study
from proofmap.study.watchers.status import Status
from proofmap.study.watchers.views import ProgressFile


class _Last:
    """Keeps the last status of a study: how many passes it made."""

    status: Status

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self.status = status

    def update(self, status: Status) -> None:
        self.status = status

    end = update


@dataclass(frozen=True)
class Judged:
    """A finished study: its numbers, what its rows are, and what to know about it."""

    evaluation: Evaluation
    methods: Mapping[str, Method]
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    work: Work
    tables: tuple[Table, ...] = ()
    """Those about how it was judged."""
    failed: int = 0
    """Images that could not be read, and those that a method failed on."""


def run(job: Job) -> Outcome:
    """The study in the run directory, continued if it was stopped; its scores beside the paper's."""
    return outcome_of(judge(job), job.settings)


def judge(job: Job) -> Judged:
    """Run the study of a recipe in the job's folder, or what is left of it to do; the saliency metric is tuned where asked."""
    wanted = job.settings.get("tuned")
    if wanted is None:
        return _judge(job)
    if "data" in wanted:
        before, thresholds = None, tuned_on_other_images(job)
    else:
        first = replace(job, settings=without_metric(job.settings))
        before = _judge(first).work
        thresholds = tuned_on_first_images(Stored.open(job.folder, study_of(first), job.device), wanted)
    found = _judge(replace(job, settings=thresholds.settings(job.settings)))
    passes = found.work.passes + thresholds.passes + (0 if before is None else before.passes)
    return replace(
        found,
        evaluation=thresholds.applied(found.evaluation),
        work=replace(before or found.work, passes=passes),
        tables=(thresholds.table(),),
    )


def _judge(job: Job) -> Judged:
    saved, last, study = SavedRun(pictures=False), _Last(), study_of(job)
    with begun(job.start, job.folder):
        finished = run_study(
            study,
            job.folder,
            device=job.device,
            later=rows_for_later(job),
            watchers=[*job.watchers, last, ProgressFile(job.folder / "progress.json")],
            on_end=saved,
            command=job.command,
        )
    if saved.evaluation is None:
        raise InputError(f"no method gave a result; proofmap report {job.folder} says why")
    # a run that was begun with another's has rows and metrics that nobody asks for
    with Run(job.folder) as opened:
        notes = [*job.left_out(), *opened.notes(study.named_methods(), study.named_metrics())]
    if failed := finished.failed + finished.unreadable:
        notes.append(f"{counted(failed, 'thing')} failed; report.html says which")
    evaluation = asked_for(saved.evaluation, study)
    work = Work(
        len(evaluation),
        evaluation.labels.shape[1],
        last.status.passes_done,
        whole=last.status.units_before == 0 and job.start is None,
    )
    return Judged(evaluation, study.named_methods(), tuple(notes), finished.files, work, failed=failed)


def outcome_of(found: Judged, settings: Mapping[str, Any]) -> Outcome:
    """Tables, claims and figures of a study."""
    evaluation = found.evaluation
    compared = orderings_of(evaluation, settings)
    fitting = epsilon_table(evaluation, settings)
    return Outcome(
        (
            *score_tables(evaluation, settings),
            *([] if fitting is None else [fitting]),
            *([orderings_table(compared)] if compared else []),
            *found.tables,
            rows_table(evaluation, found.methods),
        ),
        tuple(claims_of(evaluation, settings, compared)),
        figures_of(evaluation, settings),
        found.notes,
        found.files,
        found.work,
        found.failed,
    )
