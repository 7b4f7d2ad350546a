"""The experiment ``corner``: a study of photos that are cut to a corner, with some of its rows repeated on the whole photos.

[settings.whole]                # the study of the whole photos
data = "imagenette:..."
holdout = "imagenette:..."      # of [settings.tuned]
methods = ["Random"]            # rows of the study to repeat, as "Random, whole photos"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from proofmap.reproduce.findings import Findings, Job, WorkDone
from proofmap.reproduce.study_recipe import JudgedRows, judge_rows, outcome_of
from proofmap.results.records import MethodResult


def run(job: Job) -> Findings:
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
    names = cut.evaluation.image_names
    added = [_in_order_of(result, whole.evaluation.image_names, names) for result in whole.evaluation.results]
    methods = {f"{name}, whole photos": method for name, method in whole.methods.items()}
    work = WorkDone(
        cut.work.images,
        cut.work.labels,
        cut.work.passes + whole.work.passes,
        cut.work.whole and whole.work.whole,
    )
    return replace(
        cut,
        evaluation=replace(cut.evaluation, results=(*cut.evaluation.results, *added)),
        methods={**cut.methods, **methods},
        notes=(*cut.notes, *(f"whole photos: {note}" for note in whole.notes)),
        work=work,
        failed=cut.failed + whole.failed,
    )


def _in_order_of(result: MethodResult, own: Sequence[str], wanted: Sequence[str]) -> MethodResult:
    """The row with its values in the order of the images ``wanted``; NaN for images that are not among its ``own``."""
    place = {name: i for i, name in enumerate(own)}
    return replace(
        result,
        name=f"{result.name}, whole photos",
        values={name: _ordered(values, place, wanted) for name, values in result.values.items()},
    )


def _ordered(values: Tensor, place: Mapping[str, int], wanted: Sequence[str]) -> Tensor:
    found = [float(values[place[name]]) if name in place else torch.nan for name in wanted]
    return torch.tensor(found, dtype=values.dtype)
