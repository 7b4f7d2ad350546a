"""Notes below tables: what scores depend on, what they guarantee, and which images and labels they count.

In this module, f is the net's probability of a label, and ``place`` is the index of a label in its image's row of the label table ``(N, L)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from proofmap.core.labels import NO_LABEL, UNBELIEVED, WRONG, first_wrong, is_by_probability
from proofmap.core.outputs import in_words
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import BEST_EFFORT, SOUNDNESS
from proofmap.results.statistics import Score
from proofmap.results.tables import metric_words, number

WRONG_WORDS = "a wrong one, to test"
"""The remark next to the name of a wrong label."""
_HARDLY = 0.01


def rule_words(evaluation: Evaluation) -> str:
    """The label rule in words, with the number of wrong labels that were drawn: ``top3 and two wrong ones (near, far)``. A net with few
    labels may believe all others, so that fewer or none are left to draw."""
    rule = str(evaluation.settings.get("labels", "given"))
    first = first_wrong(rule)
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


def setting_notes(evaluation: Evaluation) -> list[str]:
    """Notes on the settings behind the scores: what was judged, the thresholds, the insertion curve, the labels that soundness covers, how much
    was searched, and random images."""
    settings, scores = evaluation.settings, evaluation.results[0].scores
    thresholds, curve = thresholds_words(evaluation), evaluation.results[0].curve_settings
    fill, gray = curve.get("fill", "-"), evaluation.inputs.neutral_words
    error = max(float(np.nan_to_num(r.numpy("insertion").error).max()) for r in evaluation.results)
    distractors = distractor_words((r.settings for r in evaluation.results), (s.settings for s in scores))
    return [
        f"{counted(len(evaluation), evaluation.inputs.singular)}, labels {rule_words(evaluation)}, {in_words(settings)}, "
        f"model {settings['model']}, seed {settings['seed']}; 95 % intervals over {evaluation.inputs.noun}",
        f"{f'thresholds {thresholds}; ' if thresholds else ''}insertion curve: fill {fill}{f' ({gray})' if fill == 'gray' and gray else ''}, "
        f"{curve['points']} points, rule {curve['rule']}, ties {curve['ties']}; "
        f"numerical error of an AUC: about {max(error, 0.001):.3f} or less (estimated by leaving out every second point)",
        *([str(settings["assumed"])] if "assumed" in settings else []),
        *_coverage_notes(evaluation),
        *(f"{r.name}: maps {r.settings['read']}" for r in evaluation.results if "read" in r.settings),
        *(f"{s.name}: {s.settings['searched']}" for s in scores if "searched" in s.settings),
        *([f"distractors: {distractors}"] if distractors else []),
    ]


def counting_notes(evaluation: Evaluation) -> list[str]:
    """The scores of the run as a whole, notes on the images that scores count, and warnings about inputs on which every map is sound."""
    lines: dict[str, list[str]] = {}
    for score in evaluation.run_scores:
        lines.setdefault(score.name, []).append(f"{score.subject} {number(score.value)} (n = {score.n})")
    notes = [f"{name}: {', '.join(found)}" for name, found in lines.items()]
    notes += [*_score_counts(evaluation), *_flat_notes(evaluation)]
    if (difference := evaluation.settings.get("batch_difference")) is not None:
        notes.append(
            f"f of a masked {evaluation.inputs.singular} differs by up to {difference:g} between batches of the net: smaller differences between "
            "scores mean nothing"
        )
    return notes


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


def _coverage_notes(evaluation: Evaluation) -> list[str]:
    """Notes on the labels over which soundness takes the worst case: their number, and a warning if only labels that the net believes were
    judged."""
    sound = [score for score in evaluation.results[0].scores if score.kind == SOUNDNESS]
    names = [score.name for score in sound]
    if not names:
        return []
    notes = [
        f"{score.name} over {coverage_words(evaluation)}: the worst case "
        + (
            f"of the {score.settings['top']} most probable of them"
            if score.settings.get("top")
            else "of the labels judged"
        )
        for score in sound
    ]
    if len(evaluation.label_names) > 1 and (evaluation.numpy("labels") != NO_LABEL).sum(axis=1).max() == 1:
        notes.append(
            f"{' and '.join(names)} was tested on one label of each {evaluation.inputs.singular} alone; for others judge more labels, such as labels "
            "top5+wrong, or give a map for each label"
        )
    rule = str(evaluation.settings.get("labels", ""))
    if is_by_probability(rule) and rule.strip().startswith("p"):
        notes.append(
            f"labels {rule} are those that the net itself believes: a label with a small probability, which soundness "
            f"is about, is never tried, so {' and '.join(names)} is optimistic; compare with labels all or top5+wrong"
        )
    return notes


def different_images(evaluation: Evaluation) -> list[bool]:
    """For each score, whether the methods' means are over different images. A method that counts no image is left out."""
    found = []
    for scores in zip(*(r.scores for r in evaluation.results), strict=True):
        with_images = [(s, r) for s, r in zip(scores, evaluation.results, strict=True) if s.n]
        sizes = {s.n for s, _ in with_images}
        sets = {tuple(np.isnan(r.numpy("values")[s.name]).tolist()) for s, r in with_images}
        found.append(len(sizes) > 1 or len(sets) > 1)
    return found


def _score_counts(evaluation: Evaluation) -> list[str]:
    """Notes on the images that scores count: how many best effort counts and by which rule, which other scores leave images out, and for
    which scores the methods count different images."""
    of, notes = counted(len(evaluation), evaluation.inputs.singular), []
    columns = zip(*(r.scores for r in evaluation.results), strict=True)
    for scores, uneven in zip(columns, different_images(evaluation), strict=True):
        name, rule = metric_words(scores[0].name), _best_effort_rule(scores[0])
        least, most = min(s.n for s in scores), max(s.n for s in scores)
        many = f"{least}" if least == most else f"{least} to {most}"
        those = f": those {rule}" if rule else ""
        if uneven:
            notes.append(
                f"{name}: means over different {evaluation.inputs.noun} ({many} of {of} by method{those}); compare with: proofmap compare"
            )
        elif rule or least < len(evaluation):
            notes.append(f"{name} counts {many} of {of}{those}")
    return notes


def _flat_notes(evaluation: Evaluation) -> list[str]:
    """A list with one note if f hardly changes whatever part of the image is shown. If a net ignores its input, every map is complete and
    sound."""
    moved = 0.0
    for curves in (result.numpy("insertion") for result in evaluation.results):
        own = curves.probabilities[curves.labels != NO_LABEL]
        moved = max(moved, float(np.nan_to_num(np.ptp(own, axis=-1), nan=1).max()) if len(own) else 1)
    if moved >= _HARDLY:
        return []
    return [
        f"whatever is shown, f changes by less than {_HARDLY:g}: every map, noise too, is complete and sound"
    ]


def _best_effort_rule(score: Score) -> str:
    """The rule that decides which images a best-effort score counts, in words. Empty for other scores and for scores of other packages."""
    if score.kind != BEST_EFFORT or "e1" not in score.settings:
        return ""
    from proofmap.metrics.scores import SECOND_LABEL_FLOOR

    e1 = float(str(score.settings["e1"]))
    second = f"whose second label has f >= {SECOND_LABEL_FLOOR:g}"
    if score.settings.get("counted") == "paper":
        return f"{second} (the paper's rule; labels with f <= {e1:g} count as proved)"
    believed = f"where a judged label other than the top one has f >= {e1:g}"
    return believed if e1 >= SECOND_LABEL_FLOOR else f"{second}, and {believed}"
