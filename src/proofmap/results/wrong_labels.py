"""Wrong labels: labels that the net does not believe and that were judged to test soundness (rules such as ``top3+wrong``)."""

from __future__ import annotations

from typing import Literal

from proofmap.core.labels import NO_LABEL, WRONG, first_wrong
from proofmap.results.evaluation import Evaluation

WRONG_WORDS = "a wrong one, to test"
"""What stands next to the name of a wrong label."""
Kind = Literal["", "near", "far"]


def wrong_kind(evaluation: Evaluation, index: int, place: int) -> Kind:
    """``near`` or ``far`` for a wrong label that ``+wrong`` added; empty for other labels."""
    first = first_wrong(str(evaluation.settings.get("labels", "")))
    if first is None or place < first or int(evaluation.labels[index, place]) == NO_LABEL:
        return ""
    return "near" if place == first else "far"


def place_names(evaluation: Evaluation) -> list[str]:
    """A name for each column of the label table, the same for all images: ``label 1``, ..., ``near wrong``, ``far wrong``."""
    width = evaluation.labels.shape[1]
    first = first_wrong(str(evaluation.settings.get("labels", "")))
    names = [f"label {k + 1}" for k in range(width)]
    return names if first is None else [*names[:first], *["near wrong", "far wrong"][: width - first]]


def rule_words(rule: str) -> str:
    """A label rule in words.

    >>> rule_words("top3+wrong"), rule_words("all")
    ('top3 and two wrong ones (near, far)', 'all')
    """
    assert WRONG == 2
    return rule if first_wrong(rule) is None else f"top{first_wrong(rule)} and two wrong ones (near, far)"
