"""Labels that the fill alone gives: the net believes them when no part of the image is shown.

The fill is what replaces hidden positions. f(fill, a) is the probability of label a if every position is hidden, which is where an
insertion curve begins. On an image, the fill alone *gives* label a if

    f(fill, a) >= .9, or
    the map is too strong (soundness below .8), and f(fill, a) is at least .01 and at least AUC / 2.

Completeness and soundness of such a label say more about the fill than about the map, so they carry a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from proofmap.core.deferred import Tensor, torch
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import BAR
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult, setting_text
from proofmap.results.statistics import Score
from proofmap.results.tables import number

if TYPE_CHECKING:
    from proofmap.metrics.curves import Curves

MARK = "†"
GIVEN = 0.9
"""The fill alone gives a label if f(fill, a) is at least this."""
WORTH_NAMING = 0.01
"""The fill alone never gives a label if f(fill, a) is below this: every net gives every label a small probability."""
_NAMED = 3
_BETTER = ("blur", "near-rows")
"""Fills that are suggested first, if the inputs have them: their pixels are close to what a net was trained on."""


def f_of_fill(curves: Curves) -> Tensor:
    """f(fill, a) of every pair ``(N, L)``. All NaN if the curves do not start with nothing shown, or do not contain probabilities."""
    begins = curves.game == "insertion" and "target" not in curves.settings and int(curves.counts[0]) == 0
    found = curves.probabilities[:, :, 0] if begins else torch.full_like(curves.f, torch.nan)
    return found.cpu().double()


def given_by_fill(result: MethodResult) -> Tensor:
    """A mask ``(N, L)`` of the pairs whose label the fill alone gives."""
    from proofmap.metrics import scores

    curves = result.insertion
    alone, auc, f = f_of_fill(curves), curves.auc.cpu().double(), curves.f.cpu().double()
    too_strong = scores.soundness(auc, f, result.threshold("e2")) < BAR
    found: Tensor = (alone >= GIVEN) | (too_strong & (alone >= WORTH_NAMING) & (alone >= auc / 2))
    return found & (curves.labels.cpu() != NO_LABEL)


def fill_words(result: MethodResult, index: int, place: int) -> str:
    """A note such as ``gray alone: f = .98`` if the fill alone gives the label at ``place`` of image ``index``; otherwise empty."""
    if not bool(given_by_fill(result)[index, place]):
        return ""
    return f"{_fill(result)} alone: f = {number(float(f_of_fill(result.insertion)[index, place]))}"


def is_marked(evaluation: Evaluation, score: Score) -> bool:
    """Whether tables mark a score: it is completeness, soundness or best effort, and the fill of its curves gives a label on some image."""
    drawn = evaluation.results[0].curve_settings.get("fill")
    same_fill = setting_text(score.settings.get("fill", drawn)) == setting_text(drawn)
    rests = score.kind in (COMPLETENESS, SOUNDNESS, BEST_EFFORT) and same_fill
    return rests and any(bool(given_by_fill(result).any()) for result in evaluation.results)


def fill_notes(evaluation: Evaluation) -> list[str]:
    """Notes on labels that the fill alone gives: which labels, what this means for scores, and how to judge with another fill. Empty if no
    score is marked.
    """
    if not any(is_marked(evaluation, score) for score in evaluation.results[0].scores):
        return []
    other = other_fill(evaluation)
    how = f"--fill {other} (explain), --fills {other} (evaluate); in Python explain(curve={{'fill': '{other}'}}), evaluate(fills=['{other}'])"
    return [f"{MARK} {cause}. Another fill: {how}" for cause in fill_causes(evaluation)]


def fill_causes(evaluation: Evaluation) -> list[str]:
    """The notes of :func:`fill_notes` without the advice on another fill, for pictures."""
    if not any(bool(given_by_fill(result).any()) for result in evaluation.results):
        return []
    fill, labels = _fill(evaluation.results[0]), ", ".join(_labels(evaluation))
    return [f"{fill} alone gives {labels}, with nothing shown: such scores speak of the fill, not of the map"]


def other_fill(evaluation: Evaluation) -> str:
    """A fill that the curves do not use and that makes sense for these inputs."""
    inputs, used = evaluation.inputs, _fill(evaluation.results[0])
    same = {used, "gray", inputs.same_as_gray} if used in ("gray", inputs.same_as_gray) else {used}
    return next(name for name in (*_BETTER, *inputs.fills) if name not in same and name in inputs.fills)


def _labels(evaluation: Evaluation) -> Iterator[str]:
    """Texts such as ``'cat' f = .98 (2 images)``, one per label that the fill alone gives. Labels given on the most images come first."""
    given = torch.stack([given_by_fill(result) for result in evaluation.results]).any(dim=0)
    alone, labels = f_of_fill(evaluation.results[0].insertion), evaluation.labels.cpu()
    found, counts = labels[given].unique(return_counts=True)
    order = counts.argsort(descending=True, stable=True).tolist()
    for k in order[:_NAMED]:
        label, images = int(found[k]), int(counts[k])
        f = float(alone[given & (labels == label)].mean())
        yield f"{one_line(evaluation.label_names[label])!r} f = {number(f)} ({counted(images, evaluation.inputs.singular)})"
    if len(order) > _NAMED:
        yield f"and {counted(len(order) - _NAMED, 'other label')}"


def _fill(result: MethodResult) -> str:
    return str(result.curve_settings.get("fill", "the fill"))
