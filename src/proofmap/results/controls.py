"""Controls: which rows of an evaluation are controls, and when they explain a method's soundness.

A control is a row that is judged only for comparison. There are three kinds. A ``noise`` row does not use the net (:data:`NOISE`). A
``blurred`` row has the blurred maps of a judged method. A ``cheating`` row uses a judged method's map of the top label for every label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from proofmap.core.text import one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.intervals import Doubles, doubles, mean_interval
from proofmap.results.records import SOUNDNESS, MethodResult, setting_text
from proofmap.results.tables import number

NOISE = ("random", "centered-gaussian", "edges")
"""Names of methods with one map for all labels that do not use the net."""
Role = Literal["method", "noise", "blurred", "cheating"]
_COMPANIONS: Mapping[object, Role] = {"blurred": "blurred", "top-label": "cheating"}

NEARLY = 0.9
"""A control explains a method's soundness if it reaches this share of the method's mean and the method is not clearly above the control."""
NO_EFFORT = "soundness is not clearly higher than that of a method with one map for all labels"
"""The first words of the note on methods whose soundness is not clearly above that of a control with one map for all labels."""
BY_BLUR = "soundness is explained by blur"
"""The first words of the note on methods whose soundness is not clearly above that of blurred maps."""
FROM_FILL = 0.5
"""The fill (what replaces hidden positions) explains soundness if it alone gives more than this share of the least sound label's area."""


def role_of(result: MethodResult, results: Sequence[MethodResult]) -> Role:
    """The role of the row ``result`` among all rows ``results``. A blurred or top-label row is a control only if the method that it wraps
    is judged too."""
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
    """Notes on methods whose soundness is explained by something other than their maps: by blur, by one map for all labels, or by the fill
    alone.

    A control explains a method's soundness if two conditions hold. The control's mean soundness is at least nine tenths of the method's.
    And the 95 % interval of the paired differences, method minus control, does not lie above zero (for one image: the difference is not
    above zero).
    """
    roles = {result.name: role_of(result, evaluation.results) for result in evaluation.results}
    own = [
        result
        for result in evaluation.results
        if roles[result.name] == "method"
        and not result.one_map
        and (methods is None or result.name in methods)
    ]
    smooth = [r for r in evaluation.results if r.settings.get("method") == "blurred" and not r.one_map]
    free = [r for r in evaluation.results if r.one_map]
    notes = []
    for controls, words in (
        (smooth, f"{BY_BLUR}: it is not clearly higher than that of blurred maps (in brackets)"),
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
            f"soundness is explained by the fill alone, which gives this share of the least sound label's area, on {evaluation.inputs.noun} "
            f"whose soundness is below 1: {names}; try another fill"
        )
    return notes


def _not_above(own: Sequence[MethodResult], controls: Sequence[MethodResult]) -> Iterator[str]:
    """Texts such as ``grad-cam .81 (random .84)``, one per method whose soundness a control explains: the method, and the best control
    that it is not clearly above."""
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
    """Whether the 95 % interval of the mean paired difference, ``values - control``, lies above zero. For one image, whether the difference
    is above zero."""
    differences = values - control
    if int((~np.isnan(differences)).sum()) < 2:
        return float(np.nansum(differences)) > 0
    return mean_interval(differences)[0] > 0


def _share_of_fill(result: MethodResult) -> float:
    """The share of the area that the fill alone gives, averaged over the images with soundness below 1.

    For one image, the share is f(fill, a) / AUC(a), at most 1, where a is the least sound label, AUC(a) the area under its insertion curve,
    and f(fill, a) its probability if nothing is shown. The result is 0 if there are no such images, or if the curve does not start with
    nothing shown.
    """
    pairs, curves, score = result.pair_array(SOUNDNESS), result.curve_arrays, result.first_score(SOUNDNESS)
    if pairs is None or score is None or int(curves.counts[0]) != 0 or curves.game != "insertion":
        return 0.0
    drawn = curves.settings.get("fill")
    if setting_text(score.settings.get("fill", drawn)) != setting_text(drawn):
        return 0.0  # nothing is known of the fill alone: the curves were played on another
    below = np.where(np.isnan(pairs), np.inf, pairs)
    rows = np.flatnonzero(below.min(axis=1) < 1)
    if len(rows) == 0:
        return 0.0
    worst = below[rows].argmin(axis=1)
    alone, area = doubles(curves.probabilities[rows, worst, 0]), doubles(curves.auc[rows, worst])
    with np.errstate(divide="ignore", invalid="ignore"):  # no area: a share of 1, or of 0 without a value
        shares = np.clip(alone / area, 0.0, 1.0)
    return float(np.where(np.isnan(shares), 0.0, shares).mean())
