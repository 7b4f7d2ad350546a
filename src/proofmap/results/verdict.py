"""The verdict on an evaluation: one headline that the scores support, and the reasons for it. All tables, pages and files use this
verdict.

f is the net's probability of a label, and AUC is the area under the insertion curve of the label's map.

A method *reaches the bar* if its mean completeness, its mean soundness and its mean best effort are at least .8. Best effort is left out if no
image counts for it. The grade of the verdict is the first of these that applies:

    unjudged   completeness and soundness were not both judged, or no image counts for both
    nothing    every judged label of every image has f >= .8; since AUC <= 1, soundness max(f, e2) / AUC cannot be below the bar
    none       no method reaches the bar
    is         a method reaches the bar, and all of these hold for it:
               images     at least ENOUGH images count for each score, and as many have a judged label with f < .8
               interval   the 95 % intervals of its scores are above the bar
               control    its soundness is above that of every row with one map for all labels, by the whole 95 % interval of the paired
                          differences
               fill, blur neither explains its soundness
    best       a method reaches the bar, but each such method misses at least one of these conditions

If the methods were judged with several fills, each fill has a verdict, and the worst of them counts.

A *control* is a row that is judged only for comparison. There are three kinds. A ``noise`` row does not use the net (:data:`NOISE`). A
``blurred`` row has the blurred maps of a judged method. A ``cheating`` row uses a judged method's map of the top label for every label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from proofmap.core.labels import NO_LABEL, UNBELIEVED
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import coverage_words, different_images
from proofmap.results.proof_shape import BAR
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult, setting_text
from proofmap.results.statistics import Doubles, Score, doubles, mean_interval
from proofmap.results.tables import metric_words, number, with_interval

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

PROOF = (COMPLETENESS, SOUNDNESS)
"""The two halves of the definition of a proof; a method must pass both."""
JUDGED = (*PROOF, BEST_EFFORT)
"""The scores of a verdict: the two halves of the definition, and best effort if it was judged."""
ENOUGH = 20
"""The number of images that the grade ``is`` needs."""
_NAMED = 3

Grade = Literal["is", "best", "none", "nothing", "unjudged"]
_FROM_BEST: tuple[Grade, ...] = ("is", "best", "none", "nothing", "unjudged")
Missing = Literal["images", "interval", "control", "fill", "blur", "no control"]
_DOUBTS: dict[Missing, str] = {
    "images": "too few to be sure",
    "interval": "not clearly above the bar",
    "control": "no sounder than one map for all labels",
    "fill": "soundness explained by the fill alone",
    "blur": "soundness explained by blur",
    "no control": "not compared with one map for all labels",
}


@dataclass(frozen=True)
class Verdict:
    """The verdict: its grade, its headline, the reasons (one sentence each), and the methods that the headline names."""

    grade: Grade
    headline: str
    reasons: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def record(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {reason}" for reason in self.reasons)])


def verdict(evaluation: Evaluation) -> Verdict:
    """The verdict on the methods of an evaluation, by the rules in the docstring of this module. With several fills, that of the worst fill."""
    views = evaluation.by_fill()
    if len(views) < 2:
        return _verdict(evaluation)
    found = {fill: _verdict(view) for fill, view in views.items()}

    def badness(fill: str) -> tuple[int, float]:
        own = [r for r in views[fill].results if r.name in found[fill].methods] or views[fill].results
        return _FROM_BEST.index(found[fill].grade), -min(
            (s.value for r in own for s in counted_scores(r)), default=0.0
        )

    worst = max(found, key=badness)
    others = [f"With the fill {fill}: {each.headline}." for fill, each in found.items() if fill != worst]
    return replace(
        found[worst],
        headline=f"{found[worst].headline} (fill {worst})",
        reasons=(f"The worst of {counted(len(found), 'fill')} counts.", *found[worst].reasons, *others),
    )


def _verdict(evaluation: Evaluation) -> Verdict:
    """The verdict by the first score of each kind."""
    results = evaluation.results
    if any(r.first_score(half) is None for r in results for half in PROOF):
        return Verdict(
            "unjudged", "What the methods scored", ("Completeness and soundness were not both judged.",)
        )
    whole = [r for r in results if all(_has_value(r, half) for half in PROOF)]
    missing = _missing_words(evaluation)
    if not whole and not any(_has_value(r, half) for r in results for half in PROOF):
        return Verdict(
            "unjudged", f"No {evaluation.inputs.singular} counted", ("No method has a value to judge it by.",)
        )
    if not whole:
        return Verdict("unjudged", "What the methods scored", missing)
    images = _images_that_test_soundness(evaluation)
    context = (*_uneven_note(evaluation), *missing, _coverage(evaluation))
    bar = f"The bar, {number(BAR)}, is our choice; read the numbers too."
    if images == 0:
        return Verdict(
            "nothing",
            "Nothing can be said: the net is sure of every label that was judged",
            (
                f"Each judged label has f >= {number(BAR)}, so soundness cannot be below the bar. Judge labels that the net does not "
                "believe, such as --labels top5+wrong.",
                *context,
            ),
        )
    own = [r for r in whole if role_of(r, results) == "method"] or whole
    passing = [r for r in own if all(s.value >= BAR for s in counted_scores(r))]
    if not passing:
        who = f"{own[0].name} is not" if len(own) == 1 else "No method is"
        headline = f"{who} both complete and sound{_few_words(evaluation, images)}"
        close = [r.name for r in own if all(s.high >= BAR for s in counted_scores(r))][:_NAMED]
        if close:
            context = (
                f"The 95 % intervals of {_joined(close)} reach the bar of {number(BAR)}: more {evaluation.inputs.noun} may decide.",
                *context,
            )
        return Verdict("none", headline, (_extremes(own), *context, bar))
    lacking = {r.name: _missing_conditions(evaluation, r, images) for r in passing}
    proved = [r for r in passing if not lacking[r.name]]
    if proved:
        names = [r.name for r in proved]
        headline = f"{_joined(names)} {'is' if len(names) == 1 else 'are'} both complete and sound"
        why = [_above_words(evaluation, r) for r in proved[:_NAMED]]
        return Verdict(
            "is", headline, (*map(_scores_words, proved[:_NAMED]), *why, *context, bar), tuple(names)
        )
    names = [r.name for r in passing]
    n = min(images, *(s.n for r in passing for s in counted_scores(r) if s.kind in PROOF))
    # the gravest doubt about any of them
    first = next(missing for missing in _DOUBTS if any(missing in lacking[name] for name in names))
    doubts = [words for r in passing[:_NAMED] for words in lacking[r.name].values()]
    return Verdict(
        "best",
        f"{_joined(names)} {'reaches' if len(names) == 1 else 'reach'} the bar on {counted(n, evaluation.inputs.singular)}; {_DOUBTS[first]}",
        (*map(_scores_words, passing[:_NAMED]), *dict.fromkeys(doubts), *context, bar),
        tuple(names),
    )


def counted_scores(result: MethodResult) -> list[Score]:
    """The scores of a method that the verdict uses: the first of each kind in ``JUDGED``, without those that are NaN."""
    found = (result.first_score(kind) for kind in JUDGED)
    return [s for s in found if s is not None and not math.isnan(s.value)]


def _missing_conditions(evaluation: Evaluation, result: MethodResult, images: int) -> dict[Missing, str]:
    """The conditions for the grade ``is`` that a method does not meet, each with a sentence that explains it.

    ``images`` is the number of images with a judged label whose f is below the bar.
    """
    found: dict[Missing, str] = {}
    scores = counted_scores(result)
    n = min(images, *(s.n for s in scores if s.kind in PROOF))
    if n < ENOUGH:
        sure = (
            ""
            if images == len(evaluation)
            else f", on which a judged label has f < {number(BAR)} and soundness can fail"
        )
        found["images"] = (
            f"{counted(n, evaluation.inputs.singular)} count{'s' if n == 1 else ''}{sure}; a plain verdict needs {ENOUGH}."
        )
    below = [metric_words(s.kind) for s in scores if not s.low >= BAR]
    if below:
        found["interval"] = (
            f"The 95 % interval of {result.name} reaches below the bar of {number(BAR)} in {_joined(below)}."
        )
    controls = [r for r in evaluation.results if r.one_map and r is not result]
    values = soundness_values(result)
    equals = [
        c
        for c in controls
        if values is not None and (v := soundness_values(c)) is not None and not is_above(values, v)
    ]
    others = [note for note in soundness_notes(evaluation, [result.name]) if not note.startswith(NO_EFFORT)]
    if result.one_map:
        found["control"] = f"{result.name} has one map for all labels, so it is sound without effort."
    elif equals:
        best = max(equals, key=lambda c: _value(c, SOUNDNESS))
        found["control"] = (
            f"The soundness of {result.name} ({number(_value(result, SOUNDNESS))}) is not clearly above that of {best.name} "
            f"({number(_value(best, SOUNDNESS))}), which has one map for all labels."
        )
    elif others:
        by_blur = any(note.startswith(BY_BLUR) for note in others)
        found["blur" if by_blur else "fill"] = (
            "; ".join(f"{note[:1].upper()}{note[1:]}" for note in others) + "."
        )
    elif not controls:
        found["no control"] = (
            "No row has one map for all labels. Add one, such as random: its soundness shows what is reached without effort."
        )
    return found


def _images_that_test_soundness(evaluation: Evaluation) -> int:
    """The number of images with a judged label whose f is below the bar. On other images soundness cannot be below the bar."""
    least = evaluation.f.masked_fill(evaluation.labels == NO_LABEL, math.inf).nan_to_num(math.inf).min(dim=1)
    return int((least.values < BAR).sum())


def _coverage(evaluation: Evaluation) -> str:
    """A sentence that says over how many labels soundness is the worst case, and which share of them the net does not believe."""
    judged = evaluation.labels != NO_LABEL
    wrong = int((judged & (evaluation.f < UNBELIEVED)).sum())
    share = "none of them" if not wrong else f"{wrong / int(judged.sum()):.0%} of them".replace("%", " %")
    tried = f"{share} are labels that the net does not believe (f < {UNBELIEVED:g})"
    if not wrong:
        tried = f"none of them is a label that the net does not believe (f < {UNBELIEVED:g}), so soundness was hardly tested"
    return f"Soundness is the worst of {coverage_words(evaluation)} of each {evaluation.inputs.singular}; {tried}."


def _few_words(evaluation: Evaluation, images: int) -> str:
    if len(evaluation) == 1:
        return f" on this {evaluation.inputs.singular}"
    return f" on these {counted(len(evaluation), evaluation.inputs.singular)}" if images < ENOUGH else ""


def _above_words(evaluation: Evaluation, result: MethodResult) -> str:
    controls = [r.name for r in evaluation.results if r.one_map and r is not result]
    return f"The soundness of {result.name} is above that of {_joined(controls)}, in pairs: {'this row has' if len(controls) == 1 else 'these rows have'} one map for all labels."


def _scores_words(result: MethodResult) -> str:
    parts = [
        f"{metric_words(s.kind)} {with_interval(s.value, s.low, s.high, s.n)}" for s in counted_scores(result)
    ]
    return f"{result.name}: {', '.join(parts)}."


def _missing_words(evaluation: Evaluation) -> tuple[str, ...]:
    """Sentences that say which scores are missing, and what follows from that."""
    sentences, results = [], evaluation.results
    for kind in JUDGED:
        unknown = [r.name for r in results if not _has_value(r, kind)]
        words = metric_words(kind)
        if unknown and all(r.first_score(kind) is None for r in results):
            sentences.append(f"{words.capitalize()} was not judged.")
        elif unknown:
            follows = "which therefore cannot pass" if kind in PROOF else "so the verdict leaves it out"
            sentences.append(
                f"No {evaluation.inputs.singular} counts for the {words} of {_joined(unknown)}, {follows}."
            )
    return tuple(sentences)


def _extremes(own: Sequence[MethodResult]) -> str:
    """A sentence that names the most complete and the soundest method."""
    first, second = (max(own, key=lambda r: _value(r, half)) for half in PROOF)
    scores = {r.name: [number(_value(r, half)) for half in PROOF] for r in (first, second)}
    if first is second:
        return "{} is the most complete method ({}) and the soundest ({}).".format(
            first.name, *scores[first.name]
        )
    return (
        f"The most complete method is {first.name} ({scores[first.name][0]}, with soundness {scores[first.name][1]}); "
        f"the soundest is {second.name} ({scores[second.name][1]}, with completeness {scores[second.name][0]})."
    )


def _uneven_note(evaluation: Evaluation) -> list[str]:
    """A list with one note if the means behind the verdict are over different images, otherwise an empty list."""
    first = evaluation.results[0]
    uneven = dict(zip((s.name for s in first.scores), different_images(evaluation), strict=True))
    judged = [s.name for kind in JUDGED if (s := first.first_score(kind)) is not None]
    return (
        [f"These means are over different {evaluation.inputs.noun}."]
        if any(uneven[name] for name in judged)
        else []
    )


def _has_value(result: MethodResult, kind: str) -> bool:
    """Whether the method has a score of this kind that is a number."""
    score = result.first_score(kind)
    return score is not None and not math.isnan(score.value)


def _value(result: MethodResult, kind: str) -> float:
    score = result.first_score(kind)
    assert score is not None
    return score.value


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
    return None if score is None or not score.n else doubles(result.numpy("values")[score.name])


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
    pairs, curves, score = (
        result.pairs_of_kind(SOUNDNESS),
        result.numpy("insertion"),
        result.first_score(SOUNDNESS),
    )
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
