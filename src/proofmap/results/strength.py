"""How strong a single proof is: weaker than the net's belief, as strong, or stronger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from proofmap.metrics import proof
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import COMPLETENESS, SOUNDNESS, MethodResult, setting_text

BAR = 0.8
"""A map with completeness and soundness at or above this matches the net's belief."""
OTHER_CURVE = (
    "Completeness and soundness were scored on another insertion curve than the one whose AUC is shown."
)

Word = Literal["weak", "match", "strong", "unknown"]


@dataclass(frozen=True)
class Strength:
    """A proof in a word: too ``weak`` (incomplete), too ``strong`` (unsound), a ``match``, or ``unknown``."""

    word: Word
    below: float | None = None
    """The value that misses the bar, in two decimals as tables print it; .798 reads as .79, because it is below a bar of .8."""


def strength(completeness: float, soundness: float) -> Strength:
    """The strength of a proof with this completeness and soundness. If both are below the bar, the proof is called weak.

    >>> strength(0.2, 1.0), strength(1.0, 0.798).below, strength(1.0, 0.9).word
    (Strength(word='weak', below=0.2), 0.79, 'match')
    """
    if math.isnan(completeness) or math.isnan(soundness):
        return Strength("unknown")
    if completeness < BAR:
        return Strength("weak", _rounded_below_bar(completeness))
    if soundness < BAR:
        return Strength("strong", _rounded_below_bar(soundness))
    return Strength("match")


def _rounded_below_bar(value: float) -> float:
    """Two decimals, but never the bar itself."""
    return min(float(f"{value:.2f}"), BAR - 0.01)


def proof_values(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> tuple[float, float]:
    """Completeness and soundness of one map, from the first scores of these kinds. If there is no such score, or none for this label,
    they are computed from the drawn curve.
    """
    f, auc = evaluation.f[index, place].cpu(), result.insertion.auc[index, place].cpu()
    alpha, beta = (_scored(result, kind, index, place) for kind in (COMPLETENESS, SOUNDNESS))
    if math.isnan(alpha):
        alpha = float(proof.completeness(auc, f, result.threshold("e1")))
    if math.isnan(beta):
        beta = float(proof.soundness(auc, f, result.threshold("e2")))
    return alpha, beta


def _scored(result: MethodResult, kind: str, index: int, place: int) -> float:
    """The value of the first score of this kind for one label; NaN if there is none."""
    found = result.pairs_of_kind(kind)
    return math.nan if found is None else float(found[index, place])


def judged_on_another_curve(evaluation: Evaluation) -> bool:
    """Whether completeness or soundness was scored on an insertion curve with other settings than the one drawn."""
    result = evaluation.results[0]
    drawn = result.insertion.settings
    for kind in (COMPLETENESS, SOUNDNESS):
        score = result.first_score(kind)
        used = {} if score is None else score.settings
        if any(setting_text(used[key]) != setting_text(drawn[key]) for key in used.keys() & drawn.keys()):
            return True
    return False
