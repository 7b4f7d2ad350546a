"""Tunes the threshold delta of the saliency metric s for each row, on held-out images that are not judged, as the paper does:

    delta = argmin over {0, .2, .., 5} of the mean of s over the holdout,      score = mean of s(delta) over the judged images

[settings.tuned]
number = 100                    # holdout images, at random
data = "imagenette:{data}/imagenette[train]"    # left out, or if the run keeps its maps: its first images, at most a third
deltas = [0.0, 0.2]             # thresholds; 0 to 5 in steps of .2 when left out

A study judges all rows by the same metrics. So each distinct threshold becomes a metric of the study. Each row keeps the metric that was
best for it on the holdout, under the plain name. If the holdout consists of the first images of the run, whose order is random, these images
do not count in this score, and no map is made only for tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from proofmap.core.text import counted
from proofmap.metrics.boxes import DELTAS, SaliencySweep, saliency_sweep
from proofmap.metrics.judged import Judged
from proofmap.reproduce.findings import Job, PaperTable
from proofmap.reproduce.rows import draw_sample
from proofmap.reproduce.stored_maps import StoredMaps
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.tables import number
from proofmap.session import Session

METRIC = "saliency-metric"


@dataclass(frozen=True)
class Tuning:
    """For each row, the results of all thresholds on the holdout (``sweeps``); and the number of passes that tuning took."""

    sweeps: Mapping[str, SaliencySweep]
    passes: int
    held: int = 0
    """Number of first images of the run that are held out for tuning; 0 if other data was used."""

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The recipe's settings with one saliency metric for each distinct threshold; without any, before the thresholds are known."""
        deltas = sorted({sweep.best.delta for sweep in self.sweeps.values()})
        return _with_metric(settings, [{"name": _name(delta), "delta": delta} for delta in deltas])

    def applied(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with one saliency metric per row, at the row's own threshold."""
        results = tuple(self._own(result) for result in evaluation.results)
        return replace(evaluation, results=results)

    def _own(self, result: MethodResult) -> MethodResult:
        name, scores = _name(self.sweeps[result.name].best.delta), []
        values = result.values[name].clone()
        values[: self.held] = torch.nan
        for score in result.scores:
            if score.name == name:
                own = replace(score, name=METRIC)
                scores.append(own.over(values) if self.held else own)
            elif score.kind != METRIC:
                scores.append(score)
        return replace(result, scores=tuple(scores), values={**result.values, METRIC: values})

    def table(self) -> PaperTable:
        """A table of each row's best threshold, and of the boxes that it gives on the holdout."""
        rows, records = [], []
        for row, sweep in self.sweeps.items():
            best = sweep.best
            tiny = f"{best.tiny:.0%}" + (" (degenerate)" if sweep.degenerate else "")
            rows.append(
                (row, f"{best.delta:g}", *map(number, (best.value, best.area, best.confidence)), tiny)
            )
            found = {"value": best.value, "area": best.area, "confidence": best.confidence, "tiny": best.tiny}
            records.append({"method": row, "score": METRIC, "delta": best.delta, **found, "n": sweep.n})
        n = next(iter(self.sweeps.values())).n
        which = f"{counted(n, 'image')} that it does not count" if self.held else counted(n, "other image")
        header = ("method", "delta", METRIC, "area of the box", "f on the crop", "boxes below .05")
        title = f"The saliency metric's threshold, tuned on {which}"
        return PaperTable(title, header, rows, records)


def tune(job: Job, stored: StoredMaps | None = None) -> Tuning:
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
    sweeps = {name: saliency_sweep(one, deltas=wanted.get("deltas", DELTAS)) for name, one in judged.items()}
    # one pass for each holdout image and threshold
    return Tuning(sweeps, passes + sum(sweep.n * len(sweep.rows) for sweep in sweeps.values()), held)


def _with_metric(settings: Mapping[str, Any], changes: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings with the saliency metric replaced by one saliency metric for each of ``changes``."""
    metrics = [
        changed
        for entry in settings["study"]["metrics"]
        for changed in ([{**entry, **change} for change in changes] if entry["metric"] == METRIC else [entry])
    ]
    return {**settings, "study": {**settings["study"], "metrics": metrics}}


def _name(delta: float) -> str:
    return f"{METRIC}, delta {delta:g}"
