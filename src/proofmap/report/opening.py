"""The opening of the report: one image, the top pixels of a method's map for a label that the net believes, and the top pixels of its map for
a label that the net does not believe.

The method is the first one that the verdict names, or else the first one with a map for each label. Candidates are the images with kept maps
that have a judged label with f < .01, where f is the net's probability of a label. The opening shows the first candidate on which the method
proves the top label; if there is none, the first candidate. The label that the net does not believe is the one with f < .01 that the
method proves most. The page of ``explain`` opens with sentences instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proofmap.core.inputs import Inputs
from proofmap.core.labels import UNBELIEVED, LabelRule
from proofmap.core.text import counted
from proofmap.report.listed import words_of
from proofmap.report.page_pictures import photo_uri
from proofmap.report.pictures import KEPT_SHARE, data_uri, hidden_of, masked_photo, view_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import fill_words
from proofmap.results.proof_shape import (
    ProofShape,
    percent,
    positions_in_order,
    shape_of,
)
from proofmap.results.records import MethodResult
from proofmap.results.verdict import role_of


def opening(evaluation: Evaluation, named: Sequence[str]) -> dict[str, Any] | None:
    """The opening as data for the page; ``named`` are the methods that the verdict names. None if no method has a map for each label, or if no label with f < .01 was judged."""
    result = _method(evaluation, named)
    found = None if result is None else _choice(evaluation, result)
    if result is None or found is None:
        return None
    index, believed, wrong = found
    inputs = view_of(evaluation, index)
    noun = inputs.singular
    proof, attempt = (shape_of(evaluation, result, index, place) for place in (believed, wrong))
    names = [evaluation.label_name(index, place) for place in (believed, wrong)]
    share = KEPT_SHARE if proof.reach is None or proof.reach == 1 else proof.reach
    too_much = attempt.word == "strong"
    shown = attempt.peak_share if too_much or attempt.is_noticed else share
    height, width = inputs.picture_size()
    worded = inputs.shown_as == "words"

    def picture(place: int, share: float) -> dict[str, Any]:
        """The top ``share`` of the input's positions, as a picture or, for texts, as indices of words."""
        if not worded:
            return {"picture": _kept(evaluation, result, index, place, share, inputs)}
        order = positions_in_order(evaluation, result, index, place)
        return {"shown": sorted(order[: round(share * len(order))])}

    return {
        "image": evaluation.image_names[index],
        "method": result.name,
        "height": height,
        "width": width,
        "words": list(words_of(evaluation, index)) if worded else None,
        "photo": "" if worded else photo_uri(evaluation.image_of(index), inputs),
        "whole": f"The net sees the whole {noun} and says {names[0]}: {percent(proof.belief)}.",
        "believed": {
            "label": names[0],
            **picture(believed, share),
            "words": believed_words(proof, names[0], evaluation, share)
            + _fill_sentence(result, index, believed),
        },
        "wrong": {
            "label": names[1],
            **picture(wrong, shown),
            "asked": f"Asked for {names[1]}, which the net does not believe ({percent(attempt.belief)}), {result.name} should fail. Does it?",
            "words": wrong_words(attempt, names[1], evaluation, shown),
            "grade": "strong" if too_much else "" if attempt.is_noticed else "match",
        },
    }


def believed_words(proof: ProofShape, name: str, evaluation: Evaluation, share: float) -> str:
    """A sentence that says whether the shown ``share`` of positions makes the net say the believed label ``name``."""
    noun, positions = evaluation.inputs.singular, evaluation.inputs.position_noun
    if proof.reach is not None and proof.reach < 1:
        return f"These {positions} alone, {percent(share)} of the {noun}, make the net say {name} about as strongly as the whole {noun} does."
    return f"No part of the {noun} makes the net say {name} as strongly as the whole {noun} does; shown are the top {percent(share)}."


def _fill_sentence(result: MethodResult, index: int, place: int) -> str:
    """A sentence with a leading space if the fill alone gives the label, that is, if the net believes it with nothing shown; otherwise
    empty."""
    fill = fill_words(result, index, place)
    if not fill:
        return ""
    return (
        f" With nothing shown the net already believes it ({fill}): this is due to the fill, not to the map."
    )


def wrong_words(attempt: ProofShape, name: str, evaluation: Evaluation, share: float) -> str:
    """A sentence that says whether the method fails, as it should, to prove a label that the net does not believe."""
    positions = evaluation.inputs.position_noun
    if attempt.word == "strong":
        return (
            f"It does not fail: these {positions}, {percent(share)}, make the net say {name} with {percent(attempt.peak)}, and "
            f"{percent(attempt.proof)} on average. The method is not sound here."
        )
    if attempt.is_noticed:
        return (
            f"On average it fails ({percent(attempt.proof)}), but {percent(share)} of the {positions} make the net say {name} with "
            f"{percent(attempt.peak)}."
        )
    most = "less than 1 %" if attempt.peak < 0.005 else f"at most {percent(attempt.peak)}"
    return f"It fails, as it should: its {positions} make the net say {name} with {most}."


def _method(evaluation: Evaluation, named: Sequence[str]) -> MethodResult | None:
    own = [r for r in evaluation.results if role_of(r, evaluation.results) == "method"]
    return next((r for r in (*map(evaluation.__getitem__, named), *own) if not r.label_free), None)


def _choice(evaluation: Evaluation, result: MethodResult) -> tuple[int, int, int] | None:
    """The index of the chosen image, and the indices in its row of labels of the top label and of a label that the net does not believe. None
    if no image has such a label."""
    found = []
    for index in evaluation.pictured:
        f = evaluation.f[index].tolist()
        places = evaluation.places_of(index)
        unbelieved = [j for j in places if f[j] < UNBELIEVED]
        if unbelieved:
            top = max(places, key=lambda j: f[j])
            worst = max(unbelieved, key=lambda j: float(result.insertion.auc[index, j]))
            proves = shape_of(evaluation, result, index, top).word == "match"
            found.append((not proves, index, top, worst))
    return min(found)[1:] if found else None


def _kept(
    evaluation: Evaluation, result: MethodResult, index: int, place: int, share: float, inputs: Inputs
) -> str:
    heat = evaluation.map_of(result, index, place)
    hidden = hidden_of(evaluation)[0]
    kept = masked_photo(evaluation.image_of(index), heat, inputs, share, hidden)
    return data_uri(kept, "PNG", optimize=True)


# ---- the page of explain ------------------------------------------------------------------------------------


def headline(evaluation: Evaluation, shown: Sequence[int]) -> dict[str, Any]:
    """The ``headline`` of the page, the ``detail`` below it, and what the net ``says`` of each of the images ``shown``. For one image, they say what the net believes and what the maps prove. For
    several images, they say what the page shows."""
    says = [belief_sentence(evaluation, index) for index in shown]
    if len(evaluation) > 1:
        maps = "the map" if len(evaluation.results) == 1 else "each method's map"
        detail = f"Below, for each {evaluation.inputs.singular}: the net's probabilities, {maps} of each label, and what that map proves."
        return {
            "headline": f"What the net says of {counted(len(evaluation), evaluation.inputs.singular)}, and why",
            "detail": detail,
            "says": says,
        }
    places, parts = evaluation.places_of(0), []
    for result in evaluation.results:
        labels = [
            evaluation.label_name(0, j) for j in places if shape_of(evaluation, result, 0, j).word == "match"
        ]
        found = f"{len(labels)} ({', '.join(labels)})" if labels else "none"
        parts.append(f"{result.name} {found}")
    detail = f"Proved by each method, of {counted(len(places), 'label')}: {'; '.join(parts)}."
    return {"headline": belief_sentence(evaluation, 0), "detail": detail, "says": says}


def belief_sentence(evaluation: Evaluation, index: int) -> str:
    """A sentence with the net's most probable label for an image. If the user listed labels, the sentence has the most probable of these."""
    places = evaluation.places_of(index)
    first = max(places, key=lambda j: float(evaluation.f[index, j]))
    name, f = evaluation.label_name(index, first), percent(float(evaluation.f[index, first]))
    if LabelRule.is_by_probability(str(evaluation.settings.get("labels", ""))):
        label_set = evaluation.settings.get("label_set", "all")
        among = "" if isinstance(label_set, str) else " among the labels of its label set"
        return f"The net says {name}, {f}{among}"
    if len(places) == 1:
        return f"The net believes {name} with {f}"
    return f"Of the {len(places)} labels asked for, the net believes {name} most, {f}"
