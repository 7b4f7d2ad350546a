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

An image is *fully proved* by a method if the completeness and the soundness of every judged label are at least .8, with every fill. Tables, pages and
the terminal print how many are (:func:`fully_proved`).

A *control* is a row that is judged only for comparison: ``noise``, which does not use the net, or a ``companion`` of a judged method, which
has its maps after a blur, or its map of the top label for every label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from proofmap.core.labels import NO_LABEL, UNBELIEVED
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import coverage_words
from proofmap.results.proof_shape import BAR
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult, setting_text
from proofmap.results.statistics import Doubles, Score, doubles, mean_interval
from proofmap.results.tables import metric_words, number, with_interval

_NOISE = ("random", "centered-gaussian", "edges")
"""Names of methods with one map for all labels that do not use the net."""
_COMPANIONS = ("blurred", "top-label")
"""Methods that show the maps of a judged method in another way."""

_NEARLY = 0.9
"""A control explains a method's soundness if it reaches this share of the method's mean and the method is not clearly above the control."""
_FROM_FILL = 0.5
"""The fill (what replaces hidden positions) explains soundness if it alone gives more than this share of the least sound label's area."""

_PROOF = (COMPLETENESS, SOUNDNESS)
"""The two halves of the definition of a proof; a method must pass both."""
_JUDGED = (*_PROOF, BEST_EFFORT)
"""The scores of a verdict: the two halves of the definition, and best effort if it was judged."""
ENOUGH = 20
"""The number of images that the grade ``is`` needs."""
_NAMED = 3

_FROM_BEST = ("is", "best", "none", "nothing", "unjudged")
_DOUBTS = {
    "images": ("Too few to be sure", "Judge {more} or more before you rely on it."),
    "interval": ("Not clearly above the bar", "Judge more {inputs}: intervals shrink with their number."),
    "control": ("No sounder than one map for all labels", "Judge more labels that the net does not believe, such as --labels top5+wrong."),
    "fill": ("Soundness explained by the fill alone", "Judge with another fill, such as --fills gray,blur."),
    "blur": ("Soundness explained by blur", "Compare with a method whose maps are as smooth."),
    "no control": ("Not compared with one map for all labels", "Add a control: --methods {names},random."),
}  # fmt: skip
"""The conditions for the grade ``is``, the gravest first: what a headline says if one of them does not hold, and what to do next."""


@dataclass(frozen=True)
class Verdict:
    """The verdict: its grade, its headline, the reasons (one sentence each), and the methods that the headline names.

    ``reasons[0]`` has the scores behind the headline. ``sure`` says how sure the verdict is, and ``action`` what to do next; both may be empty.
    """

    grade: Literal["is", "best", "none", "nothing", "unjudged"]
    headline: str
    reasons: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    sure: str = ""
    action: str = ""

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
        named = [r for r in views[fill].results if r.name in found[fill].methods] or views[fill].results
        least = min((s.value for r in named for s in _counted_scores(r)), default=0.0)
        return _FROM_BEST.index(found[fill].grade), -least

    worst = max(found, key=badness)
    others = [f"With the fill {fill}: {each.headline}." for fill, each in found.items() if fill != worst]
    return replace(
        found[worst],
        headline=f"{found[worst].headline} (fill {worst})",
        reasons=(*found[worst].reasons, f"The worst of {counted(len(found), 'fill')} counts.", *others),
    )


def weakest(result: MethodResult) -> Doubles:
    """For each image ``(N,)``, the least completeness or soundness of its judged labels, over all fills; NaN if the image does not count for
    both."""
    values, kinds = result.numpy("values"), [result.first_scores(half) for half in _PROOF]
    if not all(kinds):
        return np.full(len(result.image_names), np.nan)
    return doubles(np.min([doubles(values[s.name]) for scores in kinds for s in scores.values()], axis=0))


def fully_proved(result: MethodResult) -> tuple[int, int]:
    """The number of images that a method fully proves, and the number of images that count."""
    least = weakest(result)
    return int((least >= BAR).sum()), int((~np.isnan(least)).sum())


def _verdict(evaluation: Evaluation) -> Verdict:
    """The verdict by the first score of each kind."""
    results, inputs = evaluation.results, evaluation.inputs
    if any(r.first_score(half) is None for r in results for half in _PROOF):
        said = "Completeness and soundness were not both judged."
        return Verdict("unjudged", "What the methods scored", (said,))
    missing = _missing_words(evaluation)
    whole = [r for r in results if not any(math.isnan(_value(r, half)) for half in _PROOF)]
    if not whole:
        none = all(math.isnan(_value(r, half)) for r in results for half in _PROOF)
        headline = f"No {inputs.singular} counted" if none else "What the methods scored"
        return Verdict("unjudged", headline, tuple(missing))
    least = evaluation.f.masked_fill(evaluation.labels == NO_LABEL, math.inf).nan_to_num(math.inf).min(dim=1)
    images = int((least.values < BAR).sum())  # on others soundness cannot be below the bar
    context = [*missing, _coverage(evaluation)]
    noun = inputs.singular
    if images == 0:
        said = (
            f"Each judged label has f >= {number(BAR)}, so soundness cannot be below the bar. Judge labels that the net does not "
            "believe, such as --labels top5+wrong."
        )
        headline = "Nothing can be said: the net is sure of every label that was judged"
        sure = "Not at all: on these labels no map can fail."
        return Verdict(
            "nothing", headline, (said, *context), sure=sure, action="Judge again with --labels top5+wrong."
        )
    context.append(f"The bar, {number(BAR)}, is our choice; read the numbers too.")
    own = [r for r in whole if role_of(r, results) == "method"] or whole
    reaching = (r for r in own if all(s.value >= BAR for s in _counted_scores(r)))
    passing = sorted(reaching, key=lambda r: fully_proved(r)[0], reverse=True)
    few = f"{counted(images, noun)} {'counts' if images == 1 else 'count'}; a plain verdict needs {ENOUGH}."
    if not passing:
        best = max(own, key=lambda r: fully_proved(r)[0])
        action = "Do not show these maps as evidence of what the net believes."
        if not any(r.name.startswith("belief-mask") for r in own):
            action += " Try belief-mask."
        open_ = [r.name for r in own if all(s.high >= BAR for s in _counted_scores(r))]
        sure = (
            f"The 95 % intervals of {_joined(open_)} reach the bar, so more {inputs.noun} may change this."
            if open_
            else f"Each method has a 95 % interval that ends below the bar of {number(BAR)}, on {counted(images, noun)}."
        )
        reasons, sure = (_extremes(own), *context), few if images < ENOUGH else sure
        if not fully_proved(best)[0]:
            who = f"{own[0].name} fully proves none" if len(own) == 1 else "No method fully proves any"
            headline = (
                f"{who} of {counted(fully_proved(best)[1], noun)}{'. Too few to be sure' * (images < ENOUGH)}"
            )
            return Verdict("none", headline, reasons, (), sure, action)
        who = "It is not" if len(own) == 1 else "No method is"
        headline = f"{_proves(evaluation, [best])}. {who} both complete and sound on average"
        return Verdict("none", headline, reasons, (best.name,), sure, action)
    lacking = {r.name: _missing_conditions(evaluation, r, images) for r in passing}
    proved = [r for r in passing if not lacking[r.name]]
    named = proved or passing
    names = tuple(r.name for r in named)
    scored = [_scores_words(r) for r in named[:_NAMED]]
    headline = _proves(evaluation, named)
    if proved:
        headline += f". {'It is' if len(names) == 1 else 'They are'} both complete and sound"
        sure = f"{counted(images, noun)} count, the 95 % intervals are above the bar of {number(BAR)}, and no control is as sound."
        action = f"Use {_joined(names)} for this net, and judge again when the net changes."
        return Verdict("is", headline, (*scored, *context), names, sure, action)
    missing_one = next(each for each in _DOUBTS if any(each in lacking[name] for name in names))
    doubt, action = _DOUBTS[missing_one]
    sure = next(lacking[name][missing_one] for name in names if missing_one in lacking[name])
    action = action.format(
        more=counted(max(1, ENOUGH - images), f"more {noun}"), inputs=inputs.noun, names=",".join(names)
    )
    doubts = dict.fromkeys(words for r in passing[:_NAMED] for words in lacking[r.name].values())
    return Verdict(
        "best",
        f"{headline}. {doubt}",
        (*scored, sure, *(d for d in doubts if d != sure), *context),
        names,
        sure,
        action,
    )


def _proves(evaluation: Evaluation, named: Sequence[MethodResult]) -> str:
    """The numbers of images that the ``named`` methods fully prove, and those of the other rows, in words."""
    found = [fully_proved(r) for r in named]
    n = max(of for _, of in found)
    first, *more = [str(k or "none") + (f" of {of}" if of != n else "") for k, of in found]
    said = f"{named[0].name} fully proves {first} of {counted(n, evaluation.inputs.singular)}"
    said += "".join(f", {r.name} {words}" for r, words in zip(named[1:], more, strict=True))
    others = {r.name: fully_proved(r)[0] for r in evaluation.results if r not in named}
    most = max(others.values(), default=0)
    if len(others) > 1:
        return f"{said}; the others {f'at most {most}' if most else 'none'}"
    return said + "".join(f"; {name} {count or 'none'}" for name, count in others.items())


def _counted_scores(result: MethodResult) -> list[Score]:
    """The scores of a method that the verdict uses: the first of each kind, without those that are NaN."""
    found = (result.first_score(kind) for kind in _JUDGED)
    return [s for s in found if s is not None and not math.isnan(s.value)]


def _missing_conditions(evaluation: Evaluation, result: MethodResult, images: int) -> dict[str, str]:
    """The conditions for the grade ``is`` that a method does not meet, each with a sentence that explains it.

    ``images`` is the number of images with a judged label whose f is below the bar.
    """
    found: dict[str, str] = {}
    scores, noun = _counted_scores(result), evaluation.inputs.singular
    n = min(images, *(s.n for s in scores if s.kind in _PROOF))
    if n < ENOUGH:
        sure = (
            ""
            if images == len(evaluation)
            else f", on which a judged label has f < {number(BAR)} and soundness can fail"
        )
        verb = "counts" if n == 1 else "count"
        found["images"] = f"{counted(n, noun)} {verb}{sure}; a plain verdict needs {ENOUGH}."
    if below := [metric_words(s.kind) for s in scores if not s.low >= BAR]:
        found["interval"] = (
            f"The 95 % interval of {result.name} reaches below the bar of {number(BAR)} in {_joined(below)}."
        )
    controls = [r for r in evaluation.results if r.one_map and r is not result]
    explained = _explanations(evaluation, [result.name])
    if result.one_map:
        found["control"] = f"{result.name} has one map for all labels, so it is sound without effort."
    elif (best := _as_sound(result, controls)) is not None:
        found["control"] = (
            f"The soundness of {result.name} ({number(_value(result, SOUNDNESS))}) is not clearly above that of {best.name} "
            f"({number(_value(best, SOUNDNESS))}), which has one map for all labels."
        )
    elif why := next((why for why in ("blur", "fill") if why in explained), None):
        found[why] = f"{explained[why][:1].upper()}{explained[why][1:]}."
    elif not controls:
        found["no control"] = (
            "No row has one map for all labels. Add one, such as random: its soundness shows what is reached without effort."
        )
    return found


def _coverage(evaluation: Evaluation) -> str:
    """A sentence that says over how many labels soundness is the worst case, and which share of them the net does not believe."""
    judged = evaluation.labels != NO_LABEL
    share = int((judged & (evaluation.f < UNBELIEVED)).sum()) / int(judged.sum())
    tried = f"{100 * share:.0f} % of them are labels that the net does not believe (f < {UNBELIEVED:g})"
    hardly = "" if share else ", so soundness was hardly tested"
    return f"Soundness is the worst of {coverage_words(evaluation)} of each {evaluation.inputs.singular}; {tried}{hardly}."


def _scores_words(result: MethodResult) -> str:
    parts = [
        f"{metric_words(s.kind)} {with_interval(s.value, s.low, s.high, s.n)}"
        for s in _counted_scores(result)
    ]
    return f"{result.name}: {', '.join(parts)}."


def _missing_words(evaluation: Evaluation) -> list[str]:
    """Sentences that say which scores are missing, and what follows from that."""
    sentences, results = [], evaluation.results
    for kind in _JUDGED:
        unknown = [r.name for r in results if math.isnan(_value(r, kind))]
        if unknown and all(r.first_score(kind) is None for r in results):
            sentences.append(f"{metric_words(kind).capitalize()} was not judged.")
        elif unknown:
            follows = "which therefore cannot pass" if kind in _PROOF else "so the verdict leaves it out"
            sentences.append(
                f"No {evaluation.inputs.singular} counts for the {metric_words(kind)} of {_joined(unknown)}, {follows}."
            )
    return sentences


def _extremes(own: Sequence[MethodResult]) -> str:
    """A sentence that names the most complete and the soundest method."""
    first, second = (max(own, key=lambda r: _value(r, half)) for half in _PROOF)
    if first is second:
        return f"The most complete and soundest method is {first.name}: completeness {number(_value(first, COMPLETENESS))}, soundness {number(_value(first, SOUNDNESS))}."
    (a, b), (c, d) = ([number(_value(r, half)) for half in _PROOF] for r in (first, second))
    return f"The most complete method is {first.name} ({a}, with soundness {b}); the soundest is {second.name} ({d}, with completeness {c})."


def _value(result: MethodResult, kind: str) -> float:
    """The first score of this kind; NaN if there is none."""
    score = result.first_score(kind)
    return math.nan if score is None else score.value


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def role_of(result: MethodResult, results: Sequence[MethodResult]) -> Literal["method", "noise", "companion"]:
    """The role of the row ``result`` among all rows ``results``: maps that do not use the net are ``noise``; a blurred or top-label row is the
    ``companion`` of the method that it wraps, if this method is judged too.
    """
    method, inside = result.settings.get("method"), result.settings.get("of")
    if result.label_free and method in _NOISE:
        return "noise"
    if method not in _COMPANIONS or not isinstance(inside, Mapping):
        return "method"
    judged = any(inside.items() <= other.settings.items() for other in results if other is not result)
    return "companion" if judged else "method"


def soundness_notes(evaluation: Evaluation, methods: Sequence[str] | None = None) -> list[str]:
    """Notes on methods whose soundness is explained by something other than their maps: by blur, by one map for all labels, or by the fill
    alone.

    A control explains a method's soundness if two conditions hold. The control's mean soundness is at least nine tenths of the method's.
    And the 95 % interval of the paired differences, method minus control, does not lie above zero (for one image: the difference is not
    above zero).
    """
    return list(_explanations(evaluation, methods).values())


def _explanations(evaluation: Evaluation, methods: Sequence[str] | None) -> dict[str, str]:
    """The notes of :func:`soundness_notes` by what explains soundness: ``blur``, ``control`` or ``fill``."""
    results, notes = evaluation.results, dict[str, str]()
    own = [
        result
        for result in results
        if role_of(result, results) == "method"
        and not result.one_map
        and (methods is None or result.name in methods)
    ]
    smooth = [r for r in results if r.settings.get("method") == "blurred" and not r.one_map]
    for why, controls, words in (
        (
            "blur",
            smooth,
            "soundness is explained by blur: it is not clearly higher than that of blurred maps",
        ),
        (
            "control",
            [r for r in results if r.one_map],
            "soundness is not clearly higher than that of a method with one map for all labels",
        ),
    ):
        found = []
        for result in own:
            best, mean = _as_sound(result, controls), _value(result, SOUNDNESS)
            if best is not None and _value(best, SOUNDNESS) >= _NEARLY * mean:
                beside = f"{one_line(best.name)} {number(_value(best, SOUNDNESS))}"
                found.append(f"{one_line(result.name)} {number(mean)} ({beside})")
        if found:
            notes[why] = f"{words} (in brackets): {'; '.join(found)}"
    shares = {result.name: _share_of_fill(result) for result in own}
    filled = [
        f"{one_line(name)} ({100 * share:.0f} %)" for name, share in shares.items() if share > _FROM_FILL
    ]
    if filled:
        notes["fill"] = (
            f"soundness is explained by the fill alone, which gives this share of the least sound label's area, on {evaluation.inputs.noun} "
            f"whose soundness is below 1: {', '.join(filled)}; try another fill"
        )
    return notes


def _as_sound(result: MethodResult, controls: Sequence[MethodResult]) -> MethodResult | None:
    """The soundest control that the method is not clearly above; None if the method is above all of them, or no image counts."""
    values = _soundness(result)
    others = [c for c in controls if c is not result and values.size and _soundness(c).size]
    equals = [c for c in others if not _is_above(values, _soundness(c))]
    return max(equals, key=lambda control: _value(control, SOUNDNESS), default=None)


def _soundness(result: MethodResult) -> Doubles:
    """The soundness ``(N,)`` of a method on each image; empty if no image counts."""
    score = result.first_score(SOUNDNESS)
    return doubles([] if score is None or not score.n else result.numpy("values")[score.name])


@np.errstate(invalid="ignore")  # infinite values
def _is_above(values: Doubles, control: Doubles) -> bool:
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
