"""Four numbers that summarise one proof: the net's belief, the average and the peak of the insertion curve, and how few positions
are enough.

A proof is a map of an image x for a label a. F(s) is the label's probability while the share s of the positions is shown, best first.
The small picture of a proof, and the words next to it, use the same four numbers in reports, sheets and the terminal:

    belief    f(x, a), the probability of the label on the whole image
    average   the AUC: the mean of the insertion curve F(s)
    peak      the largest F(s) with s > 0
    reach     the least share s with F(s) >= .9 f; None if the net does not believe the label (f < e1)

The names of the positions that prove a label, for tables and files. A position is, for example, a column of a table or a segment of time.

In this module, f is the net's probability of a label, and a label *reaches the belief* when its probability is at least .9 f. ``index`` is the
index of an input, and ``place`` the index of a label in the input's row of labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from proofmap.core.deferred import torch
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import COMPLETENESS, SOUNDNESS, MethodResult, setting_text

BAR = 0.8
"""The bar: a map whose completeness and soundness are both at least this matches the net's belief."""
Word = Literal["weak", "match", "strong", "unknown"]


def strength(completeness: float, soundness: float) -> Word:
    """The strength of a proof in one word: too ``weak`` (incomplete, also if it is unsound), too ``strong`` (unsound), a ``match``, or
    ``unknown``.

    >>> strength(0.2, 0.1), strength(1.0, 0.798), strength(1.0, 0.9)
    ('weak', 'strong', 'match')
    """
    if math.isnan(completeness) or math.isnan(soundness):
        return "unknown"
    if completeness < BAR:
        return "weak"
    return "strong" if soundness < BAR else "match"


def proof_values(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> tuple[float, float]:
    """The completeness and soundness of the map for the label at ``place`` of an image, from the first score of each kind. A missing value
    is computed from the stored insertion curve."""
    from proofmap.metrics import scores

    f, auc = evaluation.f[index, place].cpu(), result.insertion.auc[index, place].cpu()
    found = []
    for kind, of, floor in ((COMPLETENESS, scores.completeness, "e1"), (SOUNDNESS, scores.soundness, "e2")):
        pairs = result.pairs_of_kind(kind)
        value = math.nan if pairs is None else float(pairs[index, place])
        found.append(float(of(auc, f, result.threshold(floor))) if math.isnan(value) else value)
    return found[0], found[1]


def other_curve_note(evaluation: Evaluation) -> str:
    """A note if completeness or soundness was scored on an insertion curve with other settings than the one drawn; otherwise empty."""
    result = evaluation.results[0]
    drawn = result.curve_settings
    for kind in (COMPLETENESS, SOUNDNESS):
        score = result.first_score(kind)
        used = {} if score is None else score.settings
        if any(setting_text(used[key]) != setting_text(drawn[key]) for key in used.keys() & drawn.keys()):
            return "Completeness and soundness were scored on another insertion curve than the one whose AUC is shown."
    return ""


_NOTICED = 0.1
"""If a label that the net does not believe reaches this probability at the peak, the summary says so, even if the average is low."""
BAR_WIDTH = 20
"""Width in characters of the picture of a proof in a terminal."""


@dataclass(frozen=True)
class ProofShape:
    """The numbers that summarise one proof; the docstring of the module defines them."""

    belief: float
    average: float
    peak: float
    reach: float | None
    completeness: float
    soundness: float
    overshoot: float
    """The peak divided by max(f, e2), as in the metric ``peak``."""
    enough: int = 0
    """Number of top positions that must be shown until the label reaches the belief (.9 f); 0 if the net does not believe the label."""

    @property
    def word(self) -> Word:
        """The strength of the proof."""
        return strength(self.completeness, self.soundness)

    @property
    def is_noticed(self) -> bool:
        """Whether the peak is so high that pages mention it, even if the net does not believe the label and the average is low."""
        return self.peak >= _NOTICED

    @property
    def summary(self) -> str:
        """A phrase that compares the curve with the belief: ``on average as strong as the belief, peak 1.9 times``."""
        peak = f", peak {times(self.overshoot)}" if self.overshoot > 1 / BAR else ""
        if self.word == "unknown":
            return "not judged"
        if self.word == "weak":  # .798 is never rounded up to the bar
            share = min(float(f"{self.completeness:.2f}"), BAR - 0.01)
            return f"too weak: on average {100 * share:.0f} % of the belief{peak}"
        if self.reach is None:  # the net does not believe the label
            if self.word == "strong":
                return f"proves too much: {percent(self.average)} on average, {_at_most(self.peak)}"
            if self.is_noticed:
                return f"no proof on average, but {percent(self.peak)} at its peak"
            most = "always below 1 %" if self.peak < 0.005 else _at_most(self.peak)
            return f"no proof, as it should be: {most}"
        if self.word == "strong":
            return f"too strong: on average {times(max(1 / BAR, _inverse(self.soundness)))} the belief{peak}"
        return f"on average as strong as the belief{peak}"

    def text(self, width: int = BAR_WIDTH) -> str:
        """The picture of the proof in ``width`` characters: a bar up to the average, ``│`` at the belief, a line up to the peak.

        >>> shape = ProofShape(0.4, 0.45, 0.75, 0.05, 1.0, 0.9, 1.9)
        >>> shape.text(20)
        '████████│──────·····'
        """
        average, peak = (_cells(p, width) for p in (self.average, self.peak))
        cells = ["█" if k < average else "─" if k < peak else "·" for k in range(width)]
        if math.isfinite(self.belief):
            cells[min(_cells(self.belief, width), width - 1)] = "│"
        return "".join(cells)


def shape_of(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> ProofShape:
    """The :class:`ProofShape` of the map for the label at ``place`` of an image, computed from the stored insertion curve.

    If the input was not kept, its own length is unknown, and ``reach`` is a share of the longest text's positions.
    """
    from proofmap.metrics.scores import peak_of, reach_of

    curves = result.insertion
    own = evaluation.count_of(index) if index in evaluation.pictured else curves.positions
    counts = curves.counts_of(own)
    some = counts > 0
    values = (
        curves.probabilities[index, place, some.to(curves.probabilities.device)].cpu().double()[None, None]
    )
    f = evaluation.f[index, place].cpu().double()
    shares = counts[some].double() / own
    highest = float(peak_of(values, torch.full_like(shares, 1 / len(shares))))
    alpha, beta = proof_values(evaluation, result, index, place)
    believed = float(f) >= result.threshold("e1")
    reach = float(reach_of(values, shares, f.reshape(1, 1))) if believed else None
    return ProofShape(
        belief=float(f),
        average=float(curves.auc[index, place]),
        peak=highest,
        reach=reach,
        completeness=alpha,
        soundness=beta,
        overshoot=highest * _inverse(max(float(f), result.threshold("e2"))),
        enough=0 if reach is None else max(1, round(reach * own)),
    )


def percent(probability: float) -> str:
    """A probability as text in percent.

    >>> percent(0.364), percent(0.004), percent(0.0), percent(0.9999)
    ('36 %', 'less than 1 %', '0 %', 'more than 99 %')
    """
    if 0 < probability < 0.005:
        return "less than 1 %"
    if 0.995 <= probability < 1:
        return "more than 99 %"
    return "-" if math.isnan(probability) else f"{100 * probability:.0f} %"


def _at_most(peak: float) -> str:
    """The peak in words: ``at most 52 %``, or ``more than 99 % at its peak``."""
    said = percent(peak)
    return f"{said} at its peak" if said.startswith("more") else f"at most {said}"


def times(ratio: float) -> str:
    """A ratio in words.

    >>> times(1.9), times(23.4), times(4000)
    ('1.9 times', '23 times', 'more than 1,000 times')
    """
    if ratio > 1000:
        return "more than 1,000 times"
    return f"{ratio:.1f} times" if ratio < 9.95 else f"{ratio:.0f} times"


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf


def _cells(probability: float, width: int) -> int:
    return 0 if math.isnan(probability) else round(probability * width)


def positions_in_order(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> list[int]:
    """The indices of an input's positions, sorted by the map, best first. Positions with equal values keep their order. Padding is left
    out."""
    from proofmap.core.ranking import rank

    heat = evaluation.map_of(result, index, place)
    if evaluation.count_of(index) < evaluation.inputs.count:
        heat = heat[: evaluation.count_of(index)]
    order: list[int] = (
        rank(heat[None], ties="index", keys=torch.zeros(1, dtype=torch.int64))[0].argsort().tolist()
    )
    return order


def curve_of(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> np.ndarray:
    """The probability of the label while 0, 1, ..., n positions are shown, as an array ``(n + 1,)``. Values between the points of the
    insertion curve are interpolated."""
    points = result.insertion.probabilities[index, place].cpu().double().numpy()
    count = evaluation.count_of(index)
    own, first = np.unique(result.insertion.counts_of(count).numpy(), return_index=True)
    found: np.ndarray = np.interp(np.arange(count + 1), own, points[first])
    return found
