"""The figures of a recipe that judges methods: those of an evaluation, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from proofmap.report.figures import Figure, make_figure, two_objects
from proofmap.reproduce.rows import by_epsilons
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared


def figures_of(evaluation: Evaluation, settings: Mapping[str, Any]) -> Iterator[Figure]:
    """What ``[settings] figures`` names; a scatter is drawn once for each pair of thresholds."""
    for name in settings.get("figures", ()):
        if name == "two-objects":
            yield two_objects(shared(evaluation))
        elif name == "scatter" and settings.get("epsilons"):
            for place in range(len(settings["epsilons"])):
                yield make_figure(name, evaluation=_at_one(evaluation, settings, place))
        else:
            yield make_figure(name, evaluation=evaluation)


def _at_one(evaluation: Evaluation, settings: Mapping[str, Any], place: int) -> Evaluation:
    """The evaluation with the scores of one pair of thresholds only."""
    others = {name for names in by_epsilons(settings).values() for k, name in enumerate(names) if k != place}
    results = tuple(
        replace(result, scores=tuple(score for score in result.scores if score.name not in others))
        for result in evaluation.results
    )
    return replace(evaluation, results=results)
