"""Words for notes below tables, captions and pages: the label rule, thresholds, random images, and the images and labels that scores count.

In this module, f is the net's probability of a label, and ``place`` is the index of a label in its image's row of the label table ``(N, L)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from proofmap.core.labels import NO_LABEL, UNBELIEVED, WRONG, LabelRule
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation

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
