"""The experiment ``study``: methods are judged on images as by ``proofmap evaluate``, and the scores are shown next to the paper's.

[settings]
figures = ["curves"]            # of the evaluation; "mask-pairs" and "mask-pairs-second" also ask the net, and need stored maps
pictured = 4                    # images in each grid of pictures

[settings.study]                # see proofmap.reproduce.rows

[settings.paper."TV 0"]         # what the paper printed, by method and metric
"completeness, gray" = 0.92

Claims about rows: see proofmap.reproduce.claims.

The threshold delta of the saliency metric s is tuned for each row, on held-out images that are not judged, as the paper does:

    delta = argmin over {0, .2, .., 5} of the mean of s over the holdout,      score = mean of s(delta) over the judged images

[settings.tuned]
number = 100                    # holdout images, at random
data = "imagenette:{data}/imagenette[train]"    # left out, or if the run keeps its maps: its first images, at most a third
deltas = [0.0, 0.2]             # thresholds; 0 to 5 in steps of .2 when left out

A study judges all rows by the same metrics. So each distinct threshold becomes a metric of the study. Each row keeps the metric that was
best for it on the holdout, under the plain name. If the holdout consists of the first images of the run, whose order is random, these images
do not count in this score, and no map is made only for tuning.

The experiment ``corner``: a study of photos that are cut to a corner, with some of its rows repeated on the whole photos.

[settings.whole]                # the study of the whole photos
data = "imagenette:..."
holdout = "imagenette:..."      # of [settings.tuned]
methods = ["Random"]            # rows of the study to repeat, as "Random, whole photos"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.methods.method import Method
from proofmap.metrics.boxes import SweepRow, saliency_sweep
from proofmap.metrics.judged import Judged
from proofmap.report.figures import make_figure
from proofmap.report.figures.drawing import Figure
from proofmap.report.figures.masks import mask_pairs, two_objects
from proofmap.report.runs import save_run
from proofmap.reproduce.claims import claims_of
from proofmap.reproduce.findings import Findings, Job, PaperTable, WorkDone, score_table
from proofmap.reproduce.rows import FLOORS, by_epsilons, draw_sample, study_of
from proofmap.reproduce.stored_maps import StoredMaps, copied_from, select_rows
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.sharing import shared, without_folders
from proofmap.results.tables import number
from proofmap.session import Session
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
    if job.recipe.experiment == "corner":
        return _run_corner(job)
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
        before, thresholds = None, _tune(job)
    else:
        first = replace(job, settings=Tuning({}, 0).settings(job.settings))
        before = _run_study(first).work
        thresholds = _tune(job, StoredMaps.open(job.folder, study_of(first), job.device))
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


def _run_corner(job: Job) -> Findings:
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
    return replace(job, settings=settings, folder=job.folder / "whole")


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


# ---- the threshold of the saliency metric --------------------------------------------------------------------------

_SALIENCY = "saliency-metric"


@dataclass(frozen=True)
class Tuning:
    """For each row, the results of all thresholds on the holdout, the best first (``sweeps``); and the number of passes that tuning took."""

    sweeps: Mapping[str, Sequence[SweepRow]]
    passes: int
    held: int = 0
    """Number of first images of the run that are held out for tuning; 0 if other data was used."""

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The recipe's settings with one saliency metric for each distinct threshold; without any, before the thresholds are known."""
        deltas = sorted({best.delta for best, *_ in self.sweeps.values()})
        return _with_metric(settings, [{"name": _name(delta), "delta": delta} for delta in deltas])

    def applied(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with one saliency metric per row, at the row's own threshold."""
        results = tuple(self._own(result) for result in evaluation.results)
        return replace(evaluation, results=results)

    def _own(self, result: MethodResult) -> MethodResult:
        name, scores = _name(self.sweeps[result.name][0].delta), []
        values = result.values[name].clone()
        values[: self.held] = torch.nan
        for score in result.scores:
            if score.name == name:
                own = replace(score, name=_SALIENCY)
                scores.append(own.over(values) if self.held else own)
            elif score.kind != _SALIENCY:
                scores.append(score)
        return replace(result, scores=tuple(scores), values={**result.values, _SALIENCY: values})

    def table(self) -> PaperTable:
        """A table of each row's best threshold, and of the boxes that it gives on the holdout."""
        rows, records = [], []
        for row, (best, *_) in self.sweeps.items():
            tiny = f"{best.tiny:.0%}" + (" (degenerate)" if best.degenerate else "")
            rows.append(
                (row, f"{best.delta:g}", *map(number, (best.value, best.area, best.confidence)), tiny)
            )
            found = {"value": best.value, "area": best.area, "confidence": best.confidence, "tiny": best.tiny}
            records.append({"method": row, "score": _SALIENCY, "delta": best.delta, **found, "n": best.n})
        n = next(iter(self.sweeps.values()))[0].n
        which = f"{counted(n, 'image')} that it does not count" if self.held else counted(n, "other image")
        header = ("method", "delta", _SALIENCY, "area of the box", "f on the crop", "boxes below .05")
        title = f"The saliency metric's threshold, tuned on {which}"
        return PaperTable(title, header, rows, records)


def _tune(job: Job, stored: StoredMaps | None = None) -> Tuning:
    """Tune the thresholds on the first images of a run, using their ``stored`` maps: at least one image, at most a third of all images. If
    there are none, on the separate data that the recipe names; maps of these images are computed only for tuning."""
    wanted, passes, held = job.settings["tuned"], 0, 0
    if stored is not None:
        held = min(wanted["number"], max(1, len(stored.evaluation) // 3))
        names = [result.name for result in stored.evaluation.results]
        judged = {name: stored.judged(name, images=slice(held), labels=1) for name in names}
    else:
        here = draw_sample(job, wanted["data"], wanted["number"])
        labels, judged = here.classifier.choose_labels(here.images, "top1"), {}
        with job.progress.task("maps to tune the saliency metric", len(here.methods)) as task:
            for name, method in here.methods.items():
                maps = method(here.classifier, here.images, labels, seed=job.seed)
                judged[name] = Judged(Session(here.classifier, seed=job.seed), here.images, labels, maps)
                task.advance(1, name)
        costs = [method.cost(1) for method in here.methods.values()]
        passes = len(here.images) * sum(cost.passes for cost in costs if cost is not None)
    sweeps = {name: saliency_sweep(one, deltas=wanted.get("deltas")) for name, one in judged.items()}
    # one pass for each holdout image and threshold
    return Tuning(sweeps, passes + sum(row.n for rows in sweeps.values() for row in rows), held)


def _with_metric(settings: Mapping[str, Any], changes: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings with the saliency metric replaced by one saliency metric for each of ``changes``."""
    metrics = [
        changed
        for entry in settings["study"]["metrics"]
        for changed in (
            [{**entry, **change} for change in changes] if entry["metric"] == _SALIENCY else [entry]
        )
    ]
    return {**settings, "study": {**settings["study"], "metrics": metrics}}


def _name(delta: float) -> str:
    return f"{_SALIENCY}, delta {delta:g}"
