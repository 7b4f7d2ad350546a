"""The figures of a recipe that judges methods: those of an evaluation, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from proofmap.report.figures import Figure, make_figure
from proofmap.report.figures.masks import two_objects
from proofmap.reproduce.rows import by_epsilons
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared


def figures_of(evaluation: Evaluation, settings: Mapping[str, Any]) -> dict[str, Figure]:
    """What ``[settings] figures`` names, by the names of their files; a scatter for each pair of thresholds."""
    found: dict[str, Figure] = {}
    for name in settings.get("figures", ()):
        if name == "two-objects":
            found[name] = two_objects(shared(evaluation))
        elif name == "scatter" and settings.get("epsilons"):
            for place, preset in enumerate(settings["epsilons"]):
                one = _at_one(evaluation, settings, place)
                found[f"{name}-{preset}"] = make_figure(name, evaluation=one)
        else:
            found[name] = make_figure(name, evaluation=evaluation)
    return found


def _at_one(evaluation: Evaluation, settings: Mapping[str, Any], place: int) -> Evaluation:
    """The evaluation with the scores of one pair of thresholds only."""
    others = {name for names in by_epsilons(settings).values() for k, name in enumerate(names) if k != place}
    results = tuple(
        replace(result, scores=tuple(score for score in result.scores if score.name not in others))
        for result in evaluation.results
    )
    return replace(evaluation, results=results)
