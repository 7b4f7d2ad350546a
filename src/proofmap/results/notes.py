"""Words for notes below tables, captions and pages: the label rule, thresholds, random images, the images and labels that scores count, and
labels that the fill alone gives.

In this module, f is the net's probability of a label, and ``place`` is the index of a label in its image's row of the label table ``(N, L)``.

The fill is what replaces hidden positions. f(fill, a) is the probability of label a if every position is hidden, which is where an
insertion curve begins: the net believes the label when no part of the image is shown. On an image, the fill alone *gives* label a if

    f(fill, a) >= .9, or
    the map is too strong (soundness below .8), and f(fill, a) is at least .01 and at least AUC / 2.

Completeness and soundness of such a label say more about the fill than about the map, so they carry a mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.labels import NO_LABEL, UNBELIEVED, WRONG, LabelRule
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import BAR
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult, setting_text
from proofmap.results.statistics import Score
from proofmap.results.tables import number

if TYPE_CHECKING:
    from proofmap.metrics.curves import Curves

WRONG_WORDS = "a wrong one, to test"
"""The remark next to the name of a wrong label."""


def rule_words(evaluation: Evaluation) -> str:
    """The label rule in words, with the number of wrong labels that were drawn: ``top3 and two wrong ones (near, far)``. A net with few
    labels may believe all others, so that fewer or none are left to draw."""
    rule = str(evaluation.settings.get("labels", "given"))
    first = LabelRule.first_wrong(rule)
    if first is None:
        return rule
    drawn = (evaluation.numpy("labels")[:, first:] != NO_LABEL).sum(axis=1)
    least, most = int(drawn.min(initial=WRONG)), int(drawn.max(initial=0))
    if least == WRONG:
        return f"top{first} and two wrong ones (near, far)"
    many = f"{least}" if least == most else f"{least} to {most}"
    return f"top{first} and {many} of two wrong ones (too few labels have f < {UNBELIEVED:g})"


def thresholds_words(evaluation: Evaluation) -> str:
    """The thresholds of the scores, such as ``e1 = 0.01, e2 = 0.001``. If scores use different thresholds, the scores' names are added."""
    users: dict[str, list[str]] = {}
    for key in ("e1", "e2"):
        for score in evaluation.results[0].scores:
            if key in score.settings:
                users.setdefault(f"{key} = {score.settings[key]}", []).append(score.name)
    several = len(users) > 2
    return ", ".join(f"{used} ({', '.join(names)})" if several else used for used, names in users.items())


def distractor_words(methods: Iterable[Mapping[str, object]], metrics: Iterable[Mapping[str, object]]) -> str:
    """A text that says on which random images (distractors) methods learned and metrics judged, by their recorded settings, and whether an
    image can be in both: ``learned on 41 of your own images``. Empty if no random images were drawn.
    """
    parts, drawn_by = [], []
    for verb, records in (("learned", methods), ("judged", metrics)):
        drawn = dict.fromkeys(pool for record in records for pool in _pools_in(record).items())
        if drawn:
            parts.append(f"{verb} on {' and '.join(dict.fromkeys(pool for pool, _ in drawn))}")
            drawn_by.append({part for _, part in drawn})
    if len(parts) == 2:
        apart = drawn_by == [{"learn"}, {"judge"}]
        parts.append("no image is in both" if apart else "the same images can be in both")
    return "; ".join(parts)


def _pools_in(record: Mapping[str, Any]) -> dict[str, str]:
    """The pools of random images in a record of results: a dict from the description of each pool to the part of the sources that
    it was drawn from. The part is empty in old records.
    """
    own = "fill" in record and "pool" in record
    found = {str(record["pool"]): str(record.get("part", ""))} if own else {}
    values = (item for value in record.values() for item in (value if isinstance(value, list) else [value]))
    for item in values:
        if isinstance(item, Mapping):
            found |= _pools_in(item)
    return found


def coverage_words(evaluation: Evaluation) -> str:
    """The number of labels judged per image, out of all labels in the label set: ``5 of 1,000 labels``, ``2 to 7 of 10 labels``."""
    judged = (evaluation.numpy("labels") != NO_LABEL).sum(axis=1)
    least, most = int(judged.min()), int(judged.max())
    label_set = evaluation.settings.get("label_set", "all")
    everything = len(label_set) if isinstance(label_set, Sequence) and not isinstance(label_set, str) else 0
    n = everything or len(evaluation.label_names)
    if least == n:
        return f"all {counted(n, 'label')}"
    return (
        f"{least:,} of {counted(n, 'label')}"
        if least == most
        else f"{least:,} to {most:,} of {counted(n, 'label')}"
    )


def different_images(evaluation: Evaluation) -> list[bool]:
    """For each score, whether the methods' means are over different images. A method that counts no image is left out."""
    found = []
    for scores in zip(*(r.scores for r in evaluation.results), strict=True):
        with_images = [(s, r) for s, r in zip(scores, evaluation.results, strict=True) if s.n]
        sizes = {s.n for s, _ in with_images}
        sets = {tuple(np.isnan(r.numpy("values")[s.name]).tolist()) for s, r in with_images}
        found.append(len(sizes) > 1 or len(sets) > 1)
    return found


# ---- labels that the fill alone gives -----------------------------------------------------------------------

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


def is_marked(evaluation: Evaluation, score: Score) -> bool:
    """Whether tables mark a score: it is completeness, soundness or best effort, and the fill of its curves gives a label on some image."""
    drawn = evaluation.results[0].curve_settings.get("fill")
    same_fill = setting_text(score.settings.get("fill", drawn)) == setting_text(drawn)
    rests = score.kind in (COMPLETENESS, SOUNDNESS, BEST_EFFORT) and same_fill
    return rests and any(bool(given_by_fill(result).any()) for result in evaluation.results)


def fill_notes(evaluation: Evaluation, *, drawn: bool = False) -> list[str]:
    """Notes on labels that the fill alone gives: which labels, what this means for scores, and how to judge with another fill. Empty if no
    score is marked. With ``drawn``, a sentence for pictures of proofs, which need no marked score.
    """
    scores = evaluation.results[0].scores
    if not any(bool(given_by_fill(result).any()) for result in evaluation.results):
        return []
    fill, labels = _fill(evaluation.results[0]), ", ".join(_labels(evaluation))
    cause = f"{fill} alone gives {labels}, with nothing shown: such scores speak of the fill, not of the map"
    other = other_fill(evaluation)
    if drawn:
        return [f"{cause[:1].upper()}{cause[1:]}. Another fill: --fill {other}"]
    how = f"--fill {other} (explain), --fills {other} (evaluate); in Python explain(curve={{'fill': '{other}'}}), evaluate(fills=['{other}'])"
    return [f"{MARK} {cause}. Another fill: {how}"] if any(is_marked(evaluation, s) for s in scores) else []


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
