"""The saliency metric with its threshold tuned for each method, as the paper does it, on the maps of a finished run:

    delta = argmin over {0, .2, .., 5} of the mean of s over the holdout,      score = mean of s(delta) over the other images

The holdout is the first images of the run, whose order is random; they do not count in this score.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from proofmap.core.text import counted
from proofmap.metrics.saliency.box import SaliencyMetric
from proofmap.metrics.saliency.sweep import sweep_of
from proofmap.reproduce.stored import Stored
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.statistics import mean_score
from proofmap.results.tables import number

NAME = "saliency metric"


def with_saliency_metric(stored: Stored, holdout: int) -> tuple[Evaluation, list[str]]:
    """The evaluation with the score ``saliency metric`` of every method, and what a reader should know of it.

    The holdout has ``holdout`` images, and at most a third of all; with fewer than two images there is no such score.
    """
    n = len(stored.evaluation)
    held = min(holdout, max(1, n // 3))
    if n < 2:
        return stored.evaluation, [
            f"no {NAME}: its threshold is tuned on other images, and there is one only"
        ]
    results, chosen, tiny = [], [], []
    for result in stored.evaluation.results:
        sweep = sweep_of(stored.judged(result.name, images=slice(held), labels=1))
        results.append(_with_score(stored, result, held, sweep.metric))
        chosen.append(f"{sweep.best.delta:g} for {result.name}")
        if sweep.degenerate:
            tiny.append(result.name)
    notes = [
        f"{NAME}: its threshold, in multiples of a map's mean, was chosen on {counted(held, 'image')} that it does not "
        f"count: {', '.join(chosen)}"
    ]
    if tiny:
        notes.append(f"{NAME}: most boxes cover less than {number(0.05)} of the image for {', '.join(tiny)}")
    return replace(stored.evaluation, results=tuple(results)), notes


def _with_score(stored: Stored, result: MethodResult, held: int, metric: SaliencyMetric) -> MethodResult:
    values = metric(stored.judged(result.name, images=slice(held, None), labels=1)).cpu()
    values = torch.cat([values.new_full((held,), torch.nan), values])
    score = mean_score(
        NAME,
        values,
        higher_is_better=False,
        kind=metric.kind,
        settings=metric.settings(),
        limits=metric.limits,
    )
    return replace(result, scores=(*result.scores, score), values={**result.values, NAME: values})
