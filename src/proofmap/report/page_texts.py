"""Texts of a page as data: the words, and for each map the shade and the place of each word, and the belief after each.

The slider of a page of texts shows words one by one: at step k a text shows the first k words of a map, or all if it has fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proofmap.report.word_proof import word_proof
from proofmap.results.evaluation import Evaluation


def word_counts(evaluation: Evaluation, shown: Sequence[int]) -> list[int]:
    """The counts of the slider: 0 to the number of words of the longest text."""
    return list(range(1 + max(evaluation.count_of(i) for i in shown)))


def word_maps(evaluation: Evaluation, index: int, places: Sequence[int]) -> list[dict[str, Any]]:
    """For each method: for each label the shade 0..255 of each word, its place in the map (0 first), how many words give the belief, and
    the probability of the label while 0, 1, 2, ... words are shown."""
    found = []
    for result in evaluation.results:
        proofs = [word_proof(evaluation, result, index, j) for j in places]
        found.append(
            {
                "heat": [[round(255 * value) for value in proof.heat] for proof in proofs],
                "order": [list(proof.places) for proof in proofs],
                "enough": [proof.enough for proof in proofs],
                "curve": [[float(f"{p:.9g}") for p in proof.along] for proof in proofs],
            }
        )
    return found
