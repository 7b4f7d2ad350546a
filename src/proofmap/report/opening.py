"""The most telling failure, for the top of the report, and the sentences of the page of ``explain``.

The failure is the drawn map, of a method with a map for each label, whose proof exceeds the belief in its label by the most: AUC - f. If no map is
too strong, it is the one that falls short by the most. Beside it stands the same label by the method that does best: the first one that the
verdict names, or else the one that fully proves most. A proof that exceeds the belief by less than 5 % is a trifle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proofmap.core.labels import LabelRule
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import BAR, TRIFLE, percent, shape_of
from proofmap.results.verdict import fully_proved, role_of


def opening(
    evaluation: Evaluation, pictured: Sequence[Mapping[str, Any]], named: Sequence[str]
) -> dict[str, Any] | None:
    """The most telling failure among the images ``pictured``, as data for the page: which picture, which of its labels, and the methods, the
    failing one first. ``named`` are the methods that the verdict names. None if no map of a method with a map for each label fails.
    """
    results = evaluation.results
    own = [k for k, r in enumerate(results) if not r.one_map and role_of(r, results) == "method"]
    if not own:
        return None
    by_name = {results[k].name: k for k in own}
    first = next((by_name[name] for name in named if name in by_name), None)
    best = max(own, key=lambda k: fully_proved(results[k])[0]) if first is None else first
    found = [
        (
            facts["strength"] == "strong" and facts["proof"] - facts["belief"] >= TRIFLE,
            abs(facts["proof"] - facts["belief"]),
            -p,
            -place,
            -k,
        )
        for p, picture in enumerate(pictured)
        for k in own
        if k != best or len(own) == 1
        for place, facts in enumerate(picture["methods"][k]["labels"])
        if facts["strength"] in ("strong", "weak") and facts["proof"] is not None
    ]
    if not found:
        return None
    too_strong, _, p, place, k = max(found)
    picture, k = pictured[-p], -k
    label = picture["labels"][-place]["name"]
    said, other = (picture["methods"][m]["labels"][-place] for m in (k, best))
    belief, proof, peak = (percent(said[key]) for key in ("belief", "proof", "peak"))
    noun, positions = evaluation.inputs.singular, evaluation.inputs.position_noun
    whole = f"The net gives {label} {belief} for the whole {noun}."
    words = (
        f"{whole} Shown only {positions} that {results[k].name} ranks first for {label}, it says {proof} on average and {peak} at the peak."
        if too_strong
        else f"{whole} While {positions} appear in the order of {results[k].name}, it says {proof} on average."
    )
    if k != best:
        words += f" With {results[best].name}, asked for the same label, it says {percent(other['proof'])} on average and {percent(other['peak'])} at the peak."
    verb = (
        f"“proves” {label}, which the net does not believe"
        if said["reach"] is None
        else f"{'overstates' if too_strong else 'does not prove'} {label}"
    )
    top = max(picture["labels"], key=lambda each: each["f"] or 0)
    says = dict.fromkeys(
        f"{each['name']} {percent(each['f'] or 0)}" for each in (top, picture["labels"][-place])
    )
    return {
        "title": f"The most telling failure: {results[k].name} {verb}",
        "words": words,
        "says": [", ".join(says)],
        "picture": -p,
        "place": -place,
        "methods": list(dict.fromkeys((k, best))),
    }


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
        shapes = {evaluation.label_name(0, j): shape_of(evaluation, result, 0, j) for j in places}
        labels = [name for name, each in shapes.items() if min(each.completeness, each.soundness) >= BAR]
        found = f"{len(labels)} ({', '.join(labels)})" if labels else "none"
        parts.append(f"{result.name} {found}")
    detail = f"Proved on average by each method, of {counted(len(places), 'label')}: {'; '.join(parts)}."
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
