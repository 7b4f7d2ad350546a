"""The saliency metric with a threshold for each row, tuned on images that are not judged, as the paper does.

[settings.tuned]
data = "imagenette:{data}/imagenette[train]"
number = 100                    # holdout images, at random
deltas = [0.0, 0.2]             # thresholds; 0 to 5 in steps of .2 when left out

A study judges all rows by the same metrics. So each distinct threshold becomes a metric of the study, and each row keeps
the one that was best for it on the holdout, under the plain name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proofmap.core.text import counted
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.metrics.saliency.sweep import DELTAS, SaliencySweep, saliency_sweep
from proofmap.models import load_classifier
from proofmap.reproduce.outcome import Job, Table
from proofmap.reproduce.rows import study_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.tables import number

METRIC = "saliency-metric"


@dataclass(frozen=True)
class Tuned:
    """What each row's thresholds gave on the holdout, and the passes of the net that this took."""

    sweeps: Mapping[str, SaliencySweep]
    passes: int

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The recipe's settings with one saliency metric for each distinct threshold."""
        deltas = sorted({sweep.best.delta for sweep in self.sweeps.values()})
        metrics = [
            changed
            for entry in settings["study"]["metrics"]
            for changed in (
                [{**entry, "name": _name(delta), "delta": delta} for delta in deltas]
                if entry["metric"] == METRIC
                else [entry]
            )
        ]
        return {**settings, "study": {**settings["study"], "metrics": metrics}}

    def applied(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation in which each row has the saliency metric at its own threshold only."""
        results = tuple(self._own(result) for result in evaluation.results)
        return replace(evaluation, results=results)

    def _own(self, result: MethodResult) -> MethodResult:
        name, scores = _name(self.sweeps[result.name].best.delta), []
        for score in result.scores:
            if score.name == name:
                scores.append(replace(score, name=METRIC))
            elif score.kind != METRIC:
                scores.append(score)
        return replace(result, scores=tuple(scores), values={**result.values, METRIC: result.values[name]})

    def table(self) -> Table:
        """The threshold of each row, and what its boxes were like on the holdout."""
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
        header = ("method", "delta", METRIC, "area of the box", "f on the crop", "boxes below .05")
        title = f"The saliency metric's threshold, tuned on {counted(n, 'other image')}"
        return Table(title, header, tuple(rows), tuple(records))


def tuned(job: Job) -> Tuned | None:
    """The thresholds of a recipe that asks for tuning; None where it does not."""
    wanted = job.settings.get("tuned")
    if wanted is None:
        return None
    study = study_of(job)
    dataset = open_data(wanted["data"])
    classifier = load_classifier(study.model, weights=study.weights, device=job.device)
    if study.label_set:
        classifier = classifier.restricted(list(study.label_set), renormalise=study.renormalise)
    indices = random_choice(dataset.names, min(wanted["number"], len(dataset)))
    (block,) = load_blocks(dataset, classifier, indices, block_size=len(indices))
    sweeps = {}
    methods = study.named_methods()
    with job.progress.task("thresholds of the saliency metric", len(methods)) as task:
        for name, method in methods.items():
            sweeps[name] = saliency_sweep(
                classifier, method, block.images, deltas=wanted.get("deltas", DELTAS), seed=job.seed
            )
            task.advance(1, name)
    costs = [method.cost(1) for method in methods.values()]
    made = sum(cost.passes for cost in costs if cost is not None)
    judged = sum(len(sweep.rows) for sweep in sweeps.values())
    return Tuned(sweeps, len(indices) * (made + judged))


def _name(delta: float) -> str:
    return f"{METRIC}, delta {delta:g}"
