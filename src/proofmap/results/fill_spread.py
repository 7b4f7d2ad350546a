"""Scores with several fills: a table with a row for each method and fill, and how much scores change between fills."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.statistics import Score
from proofmap.results.tables import Cells, metric_words, number, with_interval

_MOST = 3
"""Number of methods named in a note."""


def scores_by_fill(scores: Sequence[Score]) -> dict[str, dict[str, Score]]:
    """``{fill: {kind: score}}`` if a kind of score was computed with several fills; otherwise empty.

    Scores that use no fill are under every fill.
    """
    found: dict[str, dict[str, Score]] = {}
    without = [score for score in scores if "fill" not in score.settings]
    for score in scores:
        if "fill" in score.settings:
            fill = found.setdefault(str(score.settings["fill"]), {})
            if score.kind in fill:
                return {}  # two settings of one fill: not a comparison of fills
            fill[score.kind] = score
    kinds = {tuple(of_fill) for of_fill in found.values()}
    if len(found) < 2 or len(kinds) > 1:
        return {}
    return {fill: {**of_fill, **{score.kind: score for score in without}} for fill, of_fill in found.items()}


def fill_cells(evaluation: Evaluation, label_free_mark: str) -> Cells:
    """Header and one row per method and fill; only if :func:`scores_by_fill` finds several."""
    first = scores_by_fill(evaluation.results[0].scores)
    kinds = list(next(iter(first.values())))
    header = ["method", "fill", *(f"{metric_words(kind)} {_arrow(first, kind)}" for kind in kinds)]
    rows = [
        [
            result.name + label_free_mark * result.label_free if k == 0 else "",
            fill,
            *(with_interval(s.value, s.low, s.high) for s in (of_fill[kind] for kind in kinds)),
        ]
        for result in evaluation.results
        for k, (fill, of_fill) in enumerate(scores_by_fill(result.scores).items())
    ]
    return header, rows


def fill_spread(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """How much each method's mean score changes between fills, ``{kind: {method: largest - smallest}}``; empty with one fill."""
    found: dict[str, dict[str, float]] = {}
    for result in evaluation.results:
        of_fills = scores_by_fill(result.scores)
        for kind in next(iter(of_fills.values()), {}):
            values = [
                of_fill[kind].value for of_fill in of_fills.values() if "fill" in of_fill[kind].settings
            ]
            values = [value for value in values if not math.isnan(value)]
            if len(values) > 1:
                found.setdefault(kind, {})[result.name] = max(values) - min(values)
    return found


def spread_notes(evaluation: Evaluation) -> list[str]:
    """One line for each kind of score: ``between fills completeness moves by .31 (belief-order), .02 (random)``."""
    lines = []
    for kind, moved in fill_spread(evaluation).items():
        order = sorted(moved, key=lambda method: -moved[method])
        named = [f"{number(moved[method])} ({method})" for method in order[:_MOST]]
        more = f" and less for {counted(len(order) - _MOST, 'other')}" if len(order) > _MOST else ""
        lines.append(f"between fills the mean {metric_words(kind)} moves by {', '.join(named)}{more}")
    return lines


def _arrow(first: Mapping[str, Mapping[str, Score]], kind: str) -> str:
    return "↑" if next(iter(first.values()))[kind].higher_is_better else "↓"
