"""What scores depend on, in words: their thresholds, and over how many of the net's labels the worst case was taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proofmap.core.labels import NO_LABEL, is_by_probability
from proofmap.core.text import counted
from proofmap.fills import pools_in
from proofmap.results.records import SOUNDNESS, EvaluationRecord


def thresholds_words(evaluation: EvaluationRecord) -> str:
    """The thresholds of the scores that have any; with the scores' names where scores use several: ``e1 = 0.01, e2 = 0.001``."""
    parts = []
    for threshold in ("e1", "e2"):
        users: dict[str, list[str]] = {}
        for score in evaluation.results[0].scores:
            if threshold in score.settings:
                users.setdefault(f"{threshold} = {score.settings[threshold]}", []).append(score.name)
        several = len(users) > 1
        parts += [f"{used} ({', '.join(names)})" if several else used for used, names in users.items()]
    return ", ".join(parts)


def distractor_notes(evaluation: EvaluationRecord) -> list[str]:
    """Which random images were drawn from: ``distractors: learned on 41 of your own images``."""
    methods = {result.name: result.settings for result in evaluation.results}
    scores = {score.name: score.settings for score in evaluation.results[0].scores}
    found = distractor_words(methods, scores)
    return [f"distractors: {found}"] if found else []


def distractor_words(
    methods: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Mapping[str, Any]]
) -> str:
    """Which random images methods learned on and metrics judged on, by their records, and whether an image can be in both.

    Methods or metrics are named where their pools differ. Empty if nobody drew any.
    """
    learned, judged = _users(methods), _users(metrics)
    parts = [
        f"{verb} on {' and '.join(_named(users))}"
        for verb, users in (("learned", learned), ("judged", judged))
        if users
    ]
    if learned and judged:
        apart = {part for _, part in learned} == {"learn"} and {part for _, part in judged} == {"judge"}
        parts.append("no image is in both" if apart else "the same images can be in both")
    return "; ".join(parts)


def _users(records: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Pool, in words, and its part -> who draws from it."""
    users: dict[tuple[str, str], list[str]] = {}
    for name, record in records.items():
        for drawn in pools_in(record).items():
            users.setdefault(drawn, []).append(name)
    return users


def _named(users: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    return [f"{pool} ({', '.join(names)})" if len(users) > 1 else pool for (pool, _), names in users.items()]


def coverage_words(evaluation: EvaluationRecord) -> str:
    """How many labels of an image were judged, of those that count: ``5 of 1,000 labels``, ``2 to 7 of 10 labels``."""
    judged = (evaluation.labels != NO_LABEL).sum(dim=1)
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


def coverage_notes(evaluation: EvaluationRecord) -> list[str]:
    """Over how many labels soundness is the worst case, and whether the net itself selected them by a probability."""
    sound = [score for score in evaluation.results[0].scores if score.kind == SOUNDNESS]
    names = [score.name for score in sound]
    if not names:
        return []
    notes = []
    for top in dict.fromkeys(score.settings.get("top") for score in sound):
        over = ", ".join(score.name for score in sound if score.settings.get("top") == top)
        which = "of the labels judged" if top is None else f"of the {top} most probable of them"
        notes.append(f"{over} over {coverage_words(evaluation)}: the worst case {which}")
    rule = str(evaluation.settings.get("labels", ""))
    if is_by_probability(rule) and rule.strip().startswith("p"):
        notes.append(
            f"labels {rule} are those that the net itself believes: a label with a small probability, which soundness "
            f"is about, is never tried, so {' and '.join(names)} is optimistic; compare with labels all or top5"
        )
    return notes


def certificate_notes(evaluation: EvaluationRecord) -> list[str]:
    """What the scores promise that guarantee something, or how hard they searched, each in its own words."""
    scores = evaluation.results[0].scores
    return [
        f"{s.name}: {s.settings[key]}"
        for s in scores
        for key in ("certificate", "searched")
        if key in s.settings
    ]
