"""The sentences on the page of ``explain``: what the net says about a photo, and what each map proves."""

from __future__ import annotations

from proofmap.core.labels import is_by_probability
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import fill_words
from proofmap.results.proof_shape import percent
from proofmap.results.records import MethodResult
from proofmap.results.strength import Word, proof_values, strength

_GROUPS: dict[Word, str] = {
    "match": "proves what the net believes of {labels}",
    "weak": "is too weak for {labels}",
    "strong": "is too strong for {labels}",
    "unknown": "was not judged for {labels}",
}


def headline(evaluation: Evaluation) -> dict[str, str]:
    """The page's first lines: for one image what the net says and what the maps prove, otherwise what the page shows."""
    if len(evaluation) > 1:
        maps = "the map" if len(evaluation.results) == 1 else "each method's map"
        detail = f"Below: what the net says of each, {maps} of each label, and what that map proves."
        return {
            "headline": f"What the net says of {counted(len(evaluation), evaluation.inputs.singular)}, and why",
            "detail": detail,
        }
    several = len(evaluation.results) > 1
    detail = (
        proved_sentence(evaluation, 0) if several else method_sentence(evaluation, 0, evaluation.results[0])
    )
    return {"headline": belief_sentence(evaluation, 0), "detail": detail}


def belief_sentence(evaluation: Evaluation, index: int) -> str:
    """The net's first choice and its probability, among the labels of the request if those are a list."""
    places = evaluation.places_of(index)
    first = max(places, key=lambda j: float(evaluation.f[index, j]))
    name, f = evaluation.label_name(index, first), percent(float(evaluation.f[index, first]))
    if is_by_probability(str(evaluation.settings.get("labels", ""))):
        label_set = evaluation.settings.get("label_set", "all")
        among = "" if isinstance(label_set, str) else " among the labels of its label set"
        return f"The net says {name}, {f}{among}"
    if len(places) == 1:
        return f"The net believes {name} with {f}"
    return f"Of the {len(places)} labels asked for, the net believes {name} most, {f}"


def method_sentence(evaluation: Evaluation, index: int, result: MethodResult) -> str:
    """For which labels the maps of a method are proofs, and for which they are too weak or too strong."""
    found: dict[Word, list[str]] = {word: [] for word in _GROUPS}
    for j in evaluation.places_of(index):
        found[_word(evaluation, result, index, j)].append(evaluation.label_name(index, j))
    parts = [words.format(labels=", ".join(found[word])) for word, words in _GROUPS.items() if found[word]]
    return f"The map of {result.name} {'; it '.join(parts)}."


def proved_sentence(evaluation: Evaluation, index: int) -> str:
    """A sentence that lists, for each method, the labels that its maps prove."""
    places, parts = evaluation.places_of(index), []
    for result in evaluation.results:
        labels = [
            evaluation.label_name(index, j) for j in places if _word(evaluation, result, index, j) == "match"
        ]
        found = f"{len(labels)} ({', '.join(labels)})" if labels else "none"
        parts.append(f"{result.name} {found}")
    return f"Proved by each method, of {counted(len(places), 'label')}: {'; '.join(parts)}."


def map_sentence(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> str:
    """What one map of a method proves, and whether the fill alone explains it."""
    words = _verdict_sentence(evaluation, result, index, place)
    fill = fill_words(result, index, place)
    cause = (
        f" With nothing shown the net already believes it ({fill}): this is due to the fill, not to the map."
    )
    return words + cause if fill else words


def _verdict_sentence(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> str:
    noun, positions = evaluation.inputs.singular, evaluation.inputs.position_noun
    name = evaluation.label_name(index, place)
    f = percent(float(evaluation.f[index, place]))
    auc = percent(float(result.insertion.auc[index, place]))
    shown = (
        f"While the map's {positions} are shown, best first, the net believes {name} with {auc} on average"
    )
    match _word(evaluation, result, index, place):
        case "match":
            return f"A proof. {shown}, about as much as on the whole {noun} ({f})."
        case "weak":
            return f"Too weak. {shown}, and with {f} on the whole {noun}: the map does not show why."
        case "strong":
            return f"Too strong. {shown}, and only with {f} on the whole {noun}: the map argues for more than the net believes."
        case _:
            return f"Not judged. The net believes {name} with {f} on the whole {noun}."


def _word(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> Word:
    return strength(*proof_values(evaluation, result, index, place)).word
