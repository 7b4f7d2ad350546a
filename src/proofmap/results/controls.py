"""What controls say about methods: which rows of an evaluation are controls, and when they explain a method's soundness.

A control is not a proposed method. A ``noise`` row does not use the net (:data:`NOISE`). A ``blurred`` row has a judged method's maps,
blurred. A ``cheating`` row shows a judged method's map of the top label for every label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from proofmap.core.text import one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.intervals import Doubles, doubles, mean_interval
from proofmap.results.records import SOUNDNESS, MethodResult
from proofmap.results.tables import number

NOISE = ("random", "centered-gaussian", "edges")
"""Label-free methods that know nothing of the net."""
Role = Literal["method", "noise", "blurred", "cheating"]
_COMPANIONS: Mapping[object, Role] = {"blurred": "blurred", "top-label": "cheating"}

NEARLY = 0.9
"""A control explains soundness if it reaches this share of it and the method is not clearly above the control."""
NO_EFFORT = "soundness not clearly higher than that of one map for all labels"
"""The first words of a note on methods that are not above a map that is the same for every label."""
BY_BLUR = "soundness explained by blur"
"""The first words of a note on methods that are not above their blurred maps."""
FROM_FILL = 0.5
"""The fill explains soundness if it alone gives more than this share of the least sound label's area."""


def role_of(result: MethodResult, results: Sequence[MethodResult]) -> Role:
    """The role of a row. A wrapper is a control if the method inside it is judged too."""
    if result.label_free and result.settings.get("method") in NOISE:
        return "noise"
    role = _COMPANIONS.get(result.settings.get("method"))
    inside = result.settings.get("of")
    if role is None or not isinstance(inside, Mapping):
        return "method"
    return role if any(_has_settings(other, inside) for other in results if other is not result) else "method"


def _has_settings(result: MethodResult, record: Mapping[str, object]) -> bool:
    return all(result.settings.get(key) == value for key, value in record.items())


def soundness_notes(evaluation: Evaluation, methods: Sequence[str] | None = None) -> list[str]:
    """Notes on methods whose soundness has another cause than their maps: it is no higher than that of blurred maps or of one map for all
    labels, or the fill alone proves the labels.

    A control explains a method's soundness if its mean is at least nine tenths of the method's mean, and if the 95 % interval of the
    paired differences does not lie above zero (for one image: if the difference is not above zero).
    """
    roles = {result.name: role_of(result, evaluation.results) for result in evaluation.results}
    own = [
        result
        for result in evaluation.results
        if roles[result.name] == "method"
        and not result.label_free
        and (methods is None or result.name in methods)
    ]
    smooth = [r for r in evaluation.results if r.settings.get("method") == "blurred" and not r.label_free]
    free = [r for r in evaluation.results if r.label_free]
    notes = []
    for controls, words in (
        (smooth, f"{BY_BLUR}: not clearly higher than that of blurred maps (in brackets)"),
        (
            free,
            f"{NO_EFFORT} (in brackets)",
        ),
    ):
        if found := list(_not_above(own, controls)):
            notes.append(f"{words}: {'; '.join(found)}")
    filled = [(result.name, share) for result in own if (share := _share_of_fill(result)) > FROM_FILL]
    if filled:
        names = ", ".join(f"{one_line(name)} ({100 * share:.0f} %)" for name, share in filled)
        notes.append(
            f"soundness explained by the fill alone, which gives this share of the least sound label's area, on {evaluation.inputs.noun} "
            f"whose soundness is below 1: {names}; try another fill"
        )
    return notes


def _not_above(own: Sequence[MethodResult], controls: Sequence[MethodResult]) -> Iterator[str]:
    """Texts such as ``grad-cam .81 (random .84)``: a method, and the best control that the method does not exceed."""
    for result in own:
        values = soundness_values(result)
        if values is None:
            continue
        others = [(c, v) for c in controls if c is not result and (v := soundness_values(c)) is not None]
        equals = [(float(np.nanmean(v)), c.name) for c, v in others if not is_above(values, v)]
        mean = float(np.nanmean(values))
        best, name = max(equals, default=(math.nan, ""))
        if best >= NEARLY * mean:
            yield f"{one_line(result.name)} {number(mean)} ({one_line(name)} {number(best)})"


def soundness_values(result: MethodResult) -> Doubles | None:
    """The soundness ``(N,)`` of a method on each image; None if no image counts."""
    score = result.first_score(SOUNDNESS)
    return None if score is None or not score.n else doubles(result.arrays("values")[score.name])


@np.errstate(invalid="ignore")  # infinite values
def is_above(values: Doubles, control: Doubles) -> bool:
    """Whether the whole 95 % interval of the mean paired difference is above zero. For one image, whether the difference is above zero."""
    differences = values - control
    if int((~np.isnan(differences)).sum()) < 2:
        return float(np.nansum(differences)) > 0
    return mean_interval(differences)[0] > 0


def _share_of_fill(result: MethodResult) -> float:
    """The share of the area that the fill alone gives: f(fill, a) / AUC(a), at most 1, for the least sound label a, averaged over images
    with soundness below 1. 0 if there are none, or if the curve does not start with nothing shown.
    """
    pairs, curves = result.pair_array(SOUNDNESS), result.curve_arrays
    if pairs is None or int(curves.counts[0]) != 0 or curves.game != "insertion":
        return 0.0
    below = np.where(np.isnan(pairs), np.inf, pairs)
    rows = np.flatnonzero(below.min(axis=1) < 1)
    if len(rows) == 0:
        return 0.0
    worst = below[rows].argmin(axis=1)
    alone, area = doubles(curves.probabilities[rows, worst, 0]), doubles(curves.auc[rows, worst])
    with np.errstate(divide="ignore", invalid="ignore"):  # no area: a share of 1, or of 0 without a value
        shares = np.clip(alone / area, 0.0, 1.0)
    return float(np.where(np.isnan(shares), 0.0, shares).mean())
