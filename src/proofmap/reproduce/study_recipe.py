"""The experiment ``study``: methods are judged on images as by ``proofmap evaluate``, and the scores are shown next to the paper's.

[settings]
figures = ["curves"]            # of the evaluation; "mask-pairs" and "mask-pairs-second" also ask the net, and need stored maps
pictured = 4                    # images in each grid of pictures

[settings.study]                # see proofmap.reproduce.rows

[settings.tuned]                # the saliency metric's threshold: see proofmap.reproduce.tuning

[settings.paper."TV 0"]         # what the paper printed, by method and metric
"completeness, gray" = 0.92

Claims about rows: see proofmap.reproduce.claims.

The experiment ``corner``: a study of photos that are cut to a corner, with some of its rows repeated on the whole photos.

[settings.whole]                # the study of the whole photos
data = "imagenette:..."
holdout = "imagenette:..."      # of [settings.tuned]
methods = ["Random"]            # rows of the study to repeat, as "Random, whole photos"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.methods.method import Method
from proofmap.report.figures import make_figure
from proofmap.report.figures.drawing import Figure
from proofmap.report.figures.masks import mask_pairs, two_objects
from proofmap.report.runs import save_run
from proofmap.reproduce.claims import claims_of
from proofmap.reproduce.findings import Findings, Job, PaperTable, WorkDone, score_table
from proofmap.reproduce.rows import FLOORS, by_epsilons, rows_for_later, study_of
from proofmap.reproduce.stored_maps import StoredMaps, copied_from, select_rows
from proofmap.reproduce.tuning import Tuning, tune
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared, without_folders
from proofmap.study import Run, run_study

PAIRS: Mapping[str, int] = {"mask-pairs": 0, "mask-pairs-second": 1}
"""Figures of masks and of the masked images, each with the index of the label that it shows (0 is the most probable label)."""


@dataclass(frozen=True)
class JudgedRows:
    """A finished study: its numbers, the method of each row, notes, files, and the work that was done."""

    evaluation: Evaluation
    methods: Mapping[str, Method]
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    work: WorkDone
    tables: tuple[PaperTable, ...] = ()
    """Tables about how the study was judged."""
    failed: int = 0
    """Number of images that could not be read, plus (method, image) pairs on which a method failed."""


def run(job: Job) -> Findings:
    """Run the study in the job's folder, or continue it if it was stopped, and compare its scores with the paper's."""
    outcome = outcome_of(judge_rows(job), job.settings)
    pairs = {name: place for name, place in PAIRS.items() if name in job.settings.get("figures", ())}
    if not pairs:
        return outcome
    stored = StoredMaps.open(job.folder, study_of(job), job.device)
    found = shared(stored.evaluation)
    made = {
        name: mask_pairs(stored.classifier, found, place=place, rows=_pictured(job.settings))
        for name, place in pairs.items()
    }
    return replace(outcome, figures={**outcome.named_figures, **made})


def judge_rows(job: Job) -> JudgedRows:
    """Run or continue the study of a recipe in the job's folder. The threshold of the saliency metric is tuned if the recipe requests it."""
    wanted = job.settings.get("tuned")
    if wanted is None:
        return _run_study(job)
    if "data" in wanted and job.settings["study"].get("maps") == "none":
        before, thresholds = None, tune(job)
    else:
        first = replace(job, settings=Tuning({}, 0).settings(job.settings))
        before = _run_study(first).work
        thresholds = tune(job, StoredMaps.open(job.folder, study_of(first), job.device))
    found = _run_study(replace(job, settings=thresholds.settings(job.settings)))
    passes = found.work.passes + thresholds.passes + (0 if before is None else before.passes)
    return replace(
        found,
        evaluation=thresholds.applied(found.evaluation),
        work=replace(before or found.work, passes=passes),
        tables=(thresholds.table(),),
    )


def _run_study(job: Job) -> JudgedRows:
    study = study_of(job)
    with copied_from(job.start, job.folder):
        finished = run_study(
            study,
            job.folder,
            device=job.device,
            planned_methods=rows_for_later(job),
            watchers=job.watchers,
            command=job.command,
        )
    judged, files = save_run(job.folder, pictures=False)
    if judged is None:
        raise InputError(f"no method gave a result; proofmap report {job.folder} says why")
    # a run that was begun with another's has rows and metrics that nobody asks for
    with Run(job.folder) as opened:
        notes = [*job.left_out(), *opened.notes(study.named_methods(), study.named_metrics())]
    if failed := finished.failed + finished.unreadable:
        notes.append(f"{counted(failed, 'thing')} failed; report.html says which")
    evaluation = select_rows(judged, study)
    work = WorkDone(
        len(evaluation),
        evaluation.labels.shape[1],
        finished.passes,
        whole=finished.plan.done == 0 and job.start is None,
    )
    return JudgedRows(evaluation, study.named_methods(), tuple(notes), tuple(files), work, failed=failed)


def outcome_of(found: JudgedRows, settings: Mapping[str, Any]) -> Findings:
    """The tables, claims and figures of a finished study."""
    evaluation = found.evaluation
    claims, orderings = claims_of(evaluation, settings)
    return Findings(
        (
            *score_tables(evaluation, settings),
            *orderings,
            *found.tables,
            rows_table(evaluation, found.methods),
        ),
        tuple(claims),
        figures_of(evaluation, settings),
        found.notes,
        found.files,
        found.work,
        found.failed,
    )


def figures_of(evaluation: Evaluation, settings: Mapping[str, Any]) -> dict[str, Figure]:
    """The figures named in ``[settings] figures``, by file name. There is one scatter plot for each pair of thresholds."""
    found: dict[str, Figure] = {}
    for name in settings.get("figures", ()):
        if name in PAIRS:
            continue  # made from the stored maps
        if name == "two-objects":
            found[name] = two_objects(shared(evaluation), rows=_pictured(settings))
        elif name in ("mask-grid", "mask-grid-wrong"):
            found[name] = make_figure(name, evaluation=evaluation, rows=_pictured(settings))
        elif name == "scatter" and settings.get("epsilons"):
            for place, preset in enumerate(settings["epsilons"]):
                one = _at_one(evaluation, settings, place)
                found[f"{name}-{preset}"] = make_figure(name, evaluation=one)
        else:
            found[name] = make_figure(name, evaluation=evaluation)
    return found


def _pictured(settings: Mapping[str, Any]) -> int:
    return int(settings.get("pictured", 4))


def _at_one(evaluation: Evaluation, settings: Mapping[str, Any], place: int) -> Evaluation:
    """The evaluation with the scores of one pair of thresholds only."""
    others = {name for names in by_epsilons(settings).values() for k, name in enumerate(names) if k != place}
    results = tuple(
        replace(result, scores=tuple(score for score in result.scores if score.name not in others))
        for result in evaluation.results
    )
    return replace(evaluation, results=results)


def score_tables(evaluation: Evaluation, settings: Mapping[str, Any]) -> list[PaperTable]:
    """A table of all scores, and one more table for each metric that is judged at several thresholds."""
    several, paper = by_epsilons(settings), settings.get("paper", {})
    apart = {name for names in several.values() for name in names}
    title = f"{evaluation.settings['model']}, {counted(len(evaluation), 'image')}, labels {evaluation.settings['labels']}"
    plain = [score.name for score in evaluation.results[0].scores if score.name not in apart]
    made = [_table(evaluation, title, {name: name for name in plain}, paper)] if plain else []
    for metric, names in several.items():
        floor = FLOORS[evaluation.results[0].score(names[0]).kind]
        headers = {
            name: f"{preset}, {floor} = {pair[floor]:g}"
            for name, (preset, pair) in zip(names, settings["epsilons"].items(), strict=True)
        }
        printed = {
            row: dict.fromkeys(names, cells[metric]) for row, cells in paper.items() if metric in cells
        }
        made.append(_table(evaluation, f"{metric}: {title}", headers, printed))
    return made


def _table(
    evaluation: Evaluation, title: str, headers: Mapping[str, str], paper: Mapping[str, Mapping[str, float]]
) -> PaperTable:
    rows = {(result.name,): [result.score(name) for name in headers] for result in evaluation.results}
    return score_table(title, ["method"], list(headers.values()), rows, paper)


def rows_table(evaluation: Evaluation, methods: Mapping[str, Method]) -> PaperTable:
    """A table with the settings of each row, and the seconds for making and judging its maps."""
    titles = {result.name: without_folders(methods[result.name].title()) for result in evaluation.results}
    rows = [(result.name, titles[result.name], f"{result.seconds:.1f}") for result in evaluation.results]
    records = [{"method": name, "what": title} for name, title in titles.items()]
    return PaperTable("What each row is", ("method", "what", "seconds"), rows, records)


def run_corner(job: Job) -> Findings:
    """Run the study of cut photos, and the study of whole photos in the folder ``whole``. Rows are paired by the names of photos."""
    cut, whole = judge_rows(job), _whole(job)
    return outcome_of(
        _together(cut, judge_rows(whole)) if whole.settings["study"]["methods"] else cut, job.settings
    )


def _whole(job: Job) -> Job:
    study, whole = job.settings["study"], job.settings["whole"]
    rows = [row for row in study["methods"] if row["name"] in whole["methods"]]
    settings = {
        **job.settings,
        "study": {**study, "data": whole["data"], "methods": rows},
        "tuned": {**job.settings["tuned"], "data": whole["holdout"]},
    }
    return replace(job, settings=settings, all_settings=None, folder=job.folder / "whole")


def _together(cut: JudgedRows, whole: JudgedRows) -> JudgedRows:
    """The rows of the cut photos, and those of the whole photos of the same names; NaN where a photo was not judged whole."""
    there = {name: i for i, name in enumerate(whole.evaluation.image_names)}
    at = torch.tensor([there.get(name, -1) for name in cut.evaluation.image_names])
    added = [
        replace(
            result,
            name=f"{result.name}, whole photos",
            values={name: own[at].masked_fill(at < 0, torch.nan) for name, own in result.values.items()},
        )
        for result in whole.evaluation.results
    ]
    work = replace(
        cut.work, passes=cut.work.passes + whole.work.passes, whole=cut.work.whole and whole.work.whole
    )
    return replace(
        cut,
        evaluation=replace(cut.evaluation, results=(*cut.evaluation.results, *added)),
        methods={
            **cut.methods,
            **{f"{name}, whole photos": method for name, method in whole.methods.items()},
        },
        notes=(*cut.notes, *(f"whole photos: {note}" for note in whole.notes)),
        work=work,
        failed=cut.failed + whole.failed,
    )
