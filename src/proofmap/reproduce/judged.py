"""The experiment ``study``: methods judged on images as ``proofmap evaluate`` does it, beside what the paper printed.

[settings]
figures = ["curves"]            # of the evaluation
saliency_holdout = 100          # the saliency metric too, tuned on so many images: see proofmap.reproduce.tuned

[settings.study]                # see proofmap.reproduce.rows

[settings.paper."TV 0"]         # what the paper printed, by method and metric
"completeness, gray" = 0.92

Claims about rows: see proofmap.reproduce.claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.report.figures import make_figure
from proofmap.report.runs import save_run
from proofmap.reproduce.begun import asked_for, begun
from proofmap.reproduce.beside import epsilon_table, score_tables
from proofmap.reproduce.claims import claims_of, orderings_of, orderings_table
from proofmap.reproduce.outcome import Job, Outcome, Work
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.stored import Stored
from proofmap.reproduce.tuned import with_saliency_metric
from proofmap.results.evaluation import Evaluation
from proofmap.study import Run, run_study
from proofmap.study.outcome import Outcome as Finished
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


def run(job: Job) -> Outcome:
    """The study in the run directory, continued if it was stopped; its scores beside the paper's."""
    found: list[tuple[Evaluation, list[Path]]] = []

    def write(finished: Finished) -> list[Path]:
        with Run(finished.folder) as opened:
            if opened.has_results:
                found.append(save_run(opened, pictures=False))
        return found[0][1] if found else []

    last, study = _Last(), study_of(job)
    with begun(job.start, job.folder):
        finished = run_study(
            study,
            job.folder,
            device=job.device,
            watchers=[*job.watchers, last, ProgressFile(job.folder / "progress.json")],
            on_end=write,
            command=job.command,
        )
    if not found:
        raise InputError(f"no method gave a result; proofmap report {job.folder} says why")
    evaluation, written = found[0]
    with Run(job.folder) as opened:
        notes = [*job.left_out(), *opened.notes()]
    if finished.failed or finished.unreadable:
        notes.append(
            f"{counted(finished.failed + finished.unreadable, 'thing')} failed; report.html says which"
        )
    settings, status = job.settings, last.status
    evaluation = asked_for(evaluation, study)
    if "saliency_holdout" in settings:
        evaluation, told = with_saliency_metric(
            Stored.open(job.folder, study, job.device), settings["saliency_holdout"]
        )
        notes += told
    compared = orderings_of(evaluation, settings)
    fitting = epsilon_table(evaluation, settings)
    return Outcome(
        (
            *score_tables(evaluation, settings),
            *([] if fitting is None else [fitting]),
            *([orderings_table(compared)] if compared else []),
        ),
        tuple(claims_of(evaluation, settings, compared)),
        tuple(make_figure(name, evaluation=evaluation) for name in settings.get("figures", ())),
        tuple(notes),
        tuple(written),
        Work(len(evaluation), evaluation.labels.shape[1], status.passes_done, whole=status.units_before == 0),
    )
