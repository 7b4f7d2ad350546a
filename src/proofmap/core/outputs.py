"""What the settings of a classifier say about its outputs; :mod:`proofmap.classifier.outputs` computes with them."""

from __future__ import annotations

from collections.abc import Mapping


def is_independent(outputs: object) -> bool:
    """Whether every label has its own sigmoid, so that f does not sum to one over the labels."""
    return outputs in ("sigmoid", "sigmoid-probabilities")


def in_words(settings: Mapping[str, object]) -> str:
    """A phrase for captions that says how f was computed, from the settings of a classifier.

    >>> [in_words({"outputs": given, "renormalise": False}) for given in ("logits", "probabilities")]
    ['softmax over all outputs', "the model's own probabilities"]
    """
    if is_independent(settings.get("outputs")):
        return "independent labels (sigmoid)"
    if settings["renormalise"]:
        return "renormalised over the label set"
    return (
        "the model's own probabilities"
        if settings.get("outputs") == "probabilities"
        else "softmax over all outputs"
    )
