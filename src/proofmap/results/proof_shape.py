"""The description of one proof: three numbers, one word, and the share at which its picture is cut.

A proof is a map of an image x for a label a. F(s) is the label's probability while the share s of the positions is shown, best first.
Sheets, reports, pages and the terminal show the same numbers:

    belief      f(x, a), the probability of the label on the whole image
    proof       the AUC: the mean of the insertion curve F(s)
    peak        the largest F(s) with s > 0
    reach       the least share s with F(s) >= .9 f; None if the net does not believe the label (f < e1)
    steadiness  the share of the curve from s = .1 on that is within a factor 1.5 of f

The word is *proof* only if completeness, soundness and steadiness all reach the bar. A curve that is near 0 and then 2 f is right on average,
but *overshoots*. The picture of a proof shows the positions up to the *cut*: where the proof reaches the belief, or its peak.

The names of the positions that prove a label, for tables and files. A position is, for example, a column of a table or a segment of time.

In this module, f is the net's probability of a label, and a label *reaches the belief* when its probability is at least .9 f. ``index`` is the
index of an input, and ``place`` the index of a label in the input's row of labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from proofmap.core.deferred import torch
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import COMPLETENESS, SOUNDNESS, MethodResult, setting_text

BAR = 0.8
"""The bar: a map whose completeness and soundness are both at least this matches the net's belief."""
TRIFLE = 0.05
"""A label that no part of an image, and not the whole, brings to this probability is a trifle: pictures show it in gray."""
REACHED = 0.9
"""A label reaches the belief f at this share of it."""
Word = Literal["weak", "match", "over", "strong", "trifle", "unknown"]


def strength(completeness: float, soundness: float, steadiness: float = 1.0) -> Word:
    """The strength of a proof in one word: too ``weak`` (incomplete, also if it is unsound), too ``strong`` (unsound), ``over`` (right on
    average, but not along the curve), a ``match``, or ``unknown``.

    >>> strength(0.2, 0.1), strength(1.0, 0.798), strength(1.0, 0.9), strength(1.0, 0.9, 0.5)
    ('weak', 'strong', 'match', 'over')
    """
    if math.isnan(completeness) or math.isnan(soundness):
        return "unknown"
    if completeness < BAR:
        return "weak"
    if soundness < BAR:
        return "strong"
    return "match" if steadiness >= BAR else "over"


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
"""If a label that the net does not believe reaches this probability at the peak, pages mention it, even if the average is low."""
_MUCH, _WORTH_SAYING = 0.25, 0.05
"""Pictures say what the net believes with nothing shown if this is at least a quarter of the belief, and at least 5 %."""
BAR_WIDTH = 20
"""Width in characters of the picture of a proof in a terminal."""


@dataclass(frozen=True)
class ProofShape:
    """What the picture of one proof shows; the docstring of the module defines the numbers."""

    belief: float
    proof: float
    peak: float
    reach: float | None
    completeness: float
    soundness: float
    overshoot: float
    """The peak divided by max(f, e2), as in the metric ``peak``."""
    steadiness: float = 1.0
    peak_share: float = 1.0
    """The least share of the positions at which the curve has its peak."""
    empty: float = math.nan
    """The label's probability while nothing is shown; NaN if the curve does not say."""
    enough: int = 0
    """Number of top positions that must be shown until the label reaches the belief (.9 f); 0 if the net does not believe the label, or
    believes it as much with nothing shown."""

    @property
    def word(self) -> Word:
        """The strength of the proof; ``trifle`` if the label never reaches 5 %, with a part of the image or the whole."""
        if max(self.belief, self.peak) < TRIFLE:
            return "trifle"
        return strength(self.completeness, self.soundness, self.steadiness)

    @property
    def verdict(self) -> str:
        """The word that stands in a picture: ``proof``, ``overshoots 1.8 x``, ``too weak``, ``too strong``, ``trifle``; ``unsteady`` for a curve
        that is right on average, never far above the belief, and too low for a part of its way."""
        if self.word == "over":
            return f"overshoots {_factor(self.overshoot)} x" if self.overshoot > 1 / BAR else "unsteady"
        return {"match": "proof", "weak": "too weak", "strong": "too strong"}.get(
            self.word, self.word if self.word == "trifle" else "not judged"
        )

    @property
    def is_noticed(self) -> bool:
        """Whether the peak is so high that pages mention it, even if the net does not believe the label and the average is low."""
        return self.peak >= _NOTICED

    @property
    def is_given(self) -> bool:
        """Whether a believed label reaches the belief with nothing shown."""
        return self.reach is not None and self.empty >= REACHED * self.belief

    @property
    def cuts_at_peak(self) -> bool:
        """Whether the picture shows the positions up to the peak: the proof is too strong, or there is no belief that it reaches."""
        return self.word == "strong" or self.reach is None or self.peak < REACHED * self.belief

    @property
    def cut(self) -> float:
        """The share of the positions that the picture of the proof shows."""
        if self.cuts_at_peak:
            return self.peak_share
        return 0.0 if self.is_given else self.reach or 0.0

    @property
    def numbers(self) -> str:
        """The three numbers in one line: ``belief 27 % → proof 28 % · peak 52 %``."""
        said = (short_percent(p) for p in (self.belief, self.proof, self.peak))
        return "belief {} → proof {} · peak {}".format(*said)

    def cut_words(self, positions: str = "pixels", of: int = 0) -> str:
        """What the picture shows: ``18 % of the pixels reach the belief``, or ``cut at the peak: 20 % of the pixels``. With ``of``, the number of
        all positions, they are counted: ``2 of 8 words reach the belief``."""
        share = (
            f"{round(self.cut * of)} of {of} {positions}"
            if of
            else f"{short_percent(self.cut)} of the {positions}"
        )
        if self.word == "unknown":
            return ""
        if self.cuts_at_peak:
            never = self.reach is not None and self.word != "strong"
            return f"{'never reaches the belief, ' if never else ''}cut at the peak: {share}"
        if self.is_given:
            return f"0 {positions} needed"
        return f"only all {positions} reach the belief" if self.cut >= 1 else f"{share} reach the belief"

    @property
    def empty_words(self) -> str:
        """``nothing shown 36 %`` if the net believes the label to a good part with nothing shown; otherwise empty."""
        is_much = self.empty >= max(_WORTH_SAYING, _MUCH * self.belief)
        return f"nothing shown {short_percent(self.empty)}" if is_much else ""

    @property
    def summary(self) -> str:
        """A phrase that compares the proof with the belief: ``right on average, overshoots 1.8 x``."""
        if self.word == "weak":  # .798 is never rounded up to the bar
            share = min(float(f"{self.completeness:.2f}"), BAR - 0.01)
            return f"too weak: {100 * share:.0f} % of the belief"
        if self.word == "trifle":
            return f"trifle: never above {percent(max(0.01, math.ceil(100 * max(self.peak, self.belief)) / 100))}"
        if self.word == "strong":
            if self.reach is None:  # the net does not believe the label
                return f"too strong: {percent(self.proof)} for a label that the net does not believe"
            return f"too strong: {times(max(1 / BAR, _inverse(self.soundness)))} the belief"
        return f"right on average, {self.verdict}" if self.word == "over" else self.verdict

    def record(self, positions: str = "pixels", of: int = 0) -> dict[str, object]:
        """The description as data for a page; a missing number is None. The arguments are those of :meth:`cut_words`."""
        numbers = ("belief", "proof", "peak", "peak_share", "cut", "steadiness", "overshoot", "empty")
        return {
            **{name: _finite(getattr(self, name)) for name in numbers},
            "reach": self.reach,
            "strength": self.word,
            "verdict": self.verdict,
            "numbers": self.numbers,
            "cut_words": self.cut_words(positions, of),
            "empty_words": self.empty_words,
            "words": self.summary,
        }

    def text(self, width: int = BAR_WIDTH) -> str:
        """The picture of the proof in ``width`` characters: a bar up to the proof, ``│`` at the belief, a line up to the peak.

        >>> shape = ProofShape(0.4, 0.45, 0.75, 0.05, 1.0, 0.9, 1.9)
        >>> shape.text(20)
        '████████│──────·····'
        """
        proof, peak = (_cells(p, width) for p in (self.proof, self.peak))
        cells = ["█" if k < proof else "─" if k < peak else "·" for k in range(width)]
        if math.isfinite(self.belief):
            cells[min(_cells(self.belief, width), width - 1)] = "│"
        return "".join(cells)


def shape_of(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> ProofShape:
    """The :class:`ProofShape` of the map for the label at ``place`` of an image, computed from the stored insertion curve.

    If the input was not kept, its own length is unknown, and ``reach`` is a share of the longest text's positions.
    """
    from proofmap.metrics.proof_scores import steady_share
    from proofmap.metrics.scores import reach_of

    curves, e1, e2 = result.insertion, result.threshold("e1"), result.threshold("e2")
    own = evaluation.count_of(index) if index in evaluation.pictured else curves.positions
    counts, points = curves.counts_of(own), curves.probabilities[index, place].cpu().double()
    some = counts > 0
    values, shares = points[some], counts[some].double() / own
    f = evaluation.f[index, place].cpu().double()
    alpha, beta = proof_values(evaluation, result, index, place)
    highest = float(values.max())
    believed = float(f) >= e1
    reach = float(reach_of(values[None, None], shares, f.reshape(1, 1), REACHED)) if believed else None
    steps = counts[some].double().diff(prepend=torch.zeros(1))
    steady = steady_share(
        values[None, None],
        shares,
        (steps + 1) / 2 + torch.cat([(steps[1:] - 1) / 2, torch.zeros(1)]),  # as in the paper's AUC
        f.reshape(1, 1),
        e1=e1,
        e2=e2,
        s0=min(0.1, float(shares[-1])),
    )
    found = ProofShape(
        belief=float(f),
        proof=float(curves.auc[index, place]),
        peak=highest,
        reach=reach,
        completeness=alpha,
        soundness=beta,
        overshoot=highest * _inverse(max(float(f), e2)),
        steadiness=float(steady),
        peak_share=float(shares[int(values.argmax())]),
        empty=float(points[0]) if int(counts[0]) == 0 else math.nan,
        enough=0 if reach is None else max(1, round(reach * own)),
    )
    return replace(found, enough=0) if found.is_given else found


def short_percent(probability: float) -> str:
    """:func:`percent` with signs for words: ``<1 %``."""
    return percent(probability).replace("less than ", "<").replace("more than ", ">")


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


def times(ratio: float) -> str:
    """A ratio in words.

    >>> times(1.9), times(23.4), times(4000)
    ('1.9 times', '23 times', 'more than 1,000 times')
    """
    return "more than 1,000 times" if ratio > 1000 else f"{_factor(ratio)} times"


def _factor(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def _finite(value: float) -> float | None:
    return float(f"{value:.9g}") if math.isfinite(value) else None


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
