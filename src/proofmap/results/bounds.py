"""Compares a method's areas with the strongest and the weakest proof found for each pair.

A pair (x, a) is an image and a label. A is the area under the insertion curve of a method's map for the pair, and f = f(x, a) is the net's
probability of the label. A method with ``target=weakest`` searches for the map with the smallest area, and one with ``target=strongest`` for
the map with the largest. If a run judged both, these areas are known for each pair:

    lo = the smallest area of all methods       hi = the largest area of all methods

Usually they are the areas of the two searching methods, but another method may go beyond them. Completeness alpha, soundness beta and their
floors e1 and e2 are defined in :mod:`proofmap.metrics.proof`:

    overshoot = -log beta(A, f)                 = log A - log max(f, e2), or 0 where that is negative
    of it by choice = -log beta(A, max(f, lo))  = log A - log max(f, e2, lo), or 0
    shortfall = -log alpha(A, f)                = log f - log max(A, e1), or 0;  for labels with f >= e1
    of it by choice = -log alpha(A, min(f, hi)) = log min(f, hi) - log max(A, e1), or 0

The part *by choice* is what a map at the bound would have avoided. If even the weakest proof exceeds f, an overshoot up to lo is
forced. Some map can match f if lo <= max(f, e2), and hi >= f or f < e1. The reason: an order of the positions that reaches one bound can be
turned into an order that reaches the other by swaps of two neighbours, and each swap changes a single term of the area. The tables show means
of these numbers over pairs, in natural logarithms.

lo and hi come from a search, not from a proof. A longer search can only widen the interval [lo, hi]. So the parts by choice, and the share
of pairs that can be matched, are lower bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.metrics import proof
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.intervals import Limits, pooled_interval
from proofmap.results.notes import distractor_notes, subject_words
from proofmap.results.proof_shape import OTHER_CURVE, judged_on_another_curve
from proofmap.results.records import MethodResult, setting_text
from proofmap.results.tables import Cells, Table

TARGETS = ("weakest", "strongest")
"""Values of a method's setting ``target`` with which the method searches for a bound."""


@dataclass(frozen=True, eq=False)
class Reach:
    """f and the bounds of the area for every (image, label) pair, as float64 tensors ``(N, L)``; NaN if a bound is not known.

    ``bounding`` are the methods that search for a bound, ``others`` all other methods.
    """

    f: Tensor
    low: Tensor
    high: Tensor
    weakest: Tensor
    """The smallest area of the methods with ``target=weakest``. ``low`` is smaller if another method has a smaller area."""
    strongest: Tensor
    e1: float
    e2: float
    bounding: tuple[MethodResult, ...]
    others: tuple[MethodResult, ...]

    def areas(self, result: MethodResult) -> Tensor:
        """The insertion areas A ``(N, L)`` of a method, NaN for pairs without bounds."""
        return _areas(result).masked_fill(self.low.isnan(), torch.nan)

    def matchable(self) -> Tensor:
        """``(N, L)``: 1 if f lies between the bounds (with the floors e1 and e2), else 0; NaN if the bounds are not known."""
        yes = ~(self.forced_over() | self.forced_under())
        return yes.double().masked_fill(self.low.isnan(), torch.nan)

    def forced_over(self) -> Tensor:
        """A mask ``(N, L)`` of the pairs for which even the weakest proof is too strong."""
        return self.low > self.f.clamp_min(self.e2)

    def forced_under(self) -> Tensor:
        """A mask ``(N, L)`` of the pairs for which even the strongest proof is too weak."""
        return (self.high < self.f) & (self.f >= self.e1)


def has_bounds(evaluation: Evaluation) -> bool:
    """Whether the evaluation has a method for each of the two bounds, and at least one other method."""
    targets = [_target(result) for result in evaluation.results]
    return {*TARGETS, None} <= set(targets)


def reach(evaluation: Evaluation) -> Reach:
    """The bounds of the area for every pair. Raises :class:`InputError` unless the evaluation has both bounds and another method."""
    by_target = {t: [r for r in evaluation.results if _target(r) == t] for t in (*TARGETS, None)}
    _check(evaluation, by_target)
    weakest = _smallest([_areas(r) for r in by_target["weakest"]])
    strongest = -_smallest([-_areas(r) for r in by_target["strongest"]])
    everything = [_areas(r) for r in evaluation.results]
    f = evaluation.f.double().cpu()
    unknown = weakest.isnan() | strongest.isnan() | f.isnan()
    if bool(unknown.all()):
        raise InputError("no pair has both bounds yet; continue the run with: proofmap evaluate")
    f, low, high, weakest, strongest = (
        values.masked_fill(unknown, torch.nan)
        for values in (
            f,
            _smallest(everything),
            -_smallest([-areas for areas in everything]),
            weakest,
            strongest,
        )
    )
    first = evaluation.results[0]
    return Reach(
        f,
        low,
        high,
        weakest,
        strongest,
        first.threshold("e1"),
        first.threshold("e2"),
        bounding=(*by_target["weakest"], *by_target["strongest"]),
        others=tuple(by_target[None]),
    )


def _target(result: MethodResult) -> str | None:
    """The bound that a method searches for, from its recorded settings; None for other methods."""
    target = result.settings.get("target")
    return str(target) if target in TARGETS else None


def _check(evaluation: Evaluation, by_target: Mapping[str | None, Sequence[MethodResult]]) -> None:
    missing = [f"belief-mask:target={target}" for target in TARGETS if not by_target[target]]
    if missing:
        raise InputError(
            f"bounds need {' and '.join(missing)} as well as other methods; run the same evaluate command with "
            f"--methods {','.join(missing)} to add {'it' if len(missing) == 1 else 'them'}"
        )
    if not by_target[None]:
        raise InputError(
            "only the bounds were judged; run the same evaluate command with --methods grad-cam to add a method"
        )
    if len({setting_text(result.insertion.settings) for result in evaluation.results}) > 1:
        raise InputError("the methods were judged on different insertion curves; judge them all on one")


def _areas(result: MethodResult) -> Tensor:
    return result.insertion.auc.double().cpu()


def _smallest(areas: Sequence[Tensor]) -> Tensor:
    """The elementwise minimum of several tensors ``(N, L)``; NaN only where all of them are NaN."""
    stacked = torch.stack(list(areas))
    least = stacked.nan_to_num(nan=torch.inf, neginf=-torch.inf).amin(dim=0)
    return least.masked_fill(stacked.isnan().all(dim=0), torch.nan)


# ---- the table ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairMean:
    """A mean over n pairs, with its 95 % interval over images."""

    value: float
    low: float
    high: float
    n: int

    @property
    def cell(self) -> str:
        if self.low == self.high:
            return f"{tables.number(self.value)} (equal on all images)"
        return tables.with_interval(self.value, self.low, self.high, self.n)


@dataclass(frozen=True)
class MethodBounds:
    """How far the proofs of one method are too strong and too weak, and which part of each a map at the bound would have avoided."""

    method: str
    overshoot: PairMean
    overshoot_by_choice: PairMean
    shortfall: PairMean
    shortfall_by_choice: PairMean
    below_weakest: int
    """Number of pairs on which the method's proof is weaker than the weakest one found by the search. These pairs get a lower bound."""
    above_strongest: int


@dataclass(frozen=True)
class Bounds(Table):
    """The comparison of every method with the bounds, and the share of pairs whose f can be matched. Prints as a table."""

    methods: tuple[MethodBounds, ...]
    matchable: PairMean
    """Share of pairs whose f lies between the bounds, with the floors e1 and e2."""
    forced_over: int
    """Number of pairs on which even the weakest proof is too strong."""
    forced_under: int
    notes: tuple[str, ...]

    def find(self, method: str) -> MethodBounds:
        for found in self.methods:
            if found.method == method:
                return found
        raise InputError(
            f"no method {method!r} other than the bounds; there are {', '.join(m.method for m in self.methods)}"
        )

    def cells(self) -> Cells:
        """Header and one row of cells per method."""
        return tables.cells_of(
            self.methods,
            ("method", lambda m: m.method),
            ("overshoot ↓", lambda m: m.overshoot.cell),
            ("by choice", lambda m: m.overshoot_by_choice.cell),
            ("shortfall ↓", lambda m: m.shortfall.cell),
            ("by choice", lambda m: m.shortfall_by_choice.cell),
        )

    def records(self) -> list[dict[str, object]]:
        shared = _flat_record({"matchable": asdict(self.matchable)})
        return [{**_flat_record(asdict(m)), **shared} for m in self.methods]


def bounds(results: Results) -> Bounds:
    """The overshoot and shortfall of every method, and the part of each *by choice*. The docstring of this module defines these numbers.

    The evaluation must have judged ``belief-mask:target=weakest`` and ``belief-mask:target=strongest``, which are not in the result. If
    there are several methods for a bound, the most extreme area counts. A pair does not count if a bound or the method's area is missing.
    """
    evaluation = evaluation_of(results)
    found = reach(evaluation)
    methods = tuple(_method(found, result) for result in found.others)
    matchable = _pair_mean(found.matchable(), (0.0, 1.0))
    over, under = int(found.forced_over().sum()), int(found.forced_under().sum())
    notes = (
        _matchable_note(matchable, over, under),
        *_beaten_notes(found, methods),
        *_meaning_notes(evaluation, found),
    )
    return Bounds(methods, matchable, over, under, notes)


def _method(found: Reach, result: MethodResult) -> MethodBounds:
    areas, f, e1, e2 = found.areas(result), found.f, found.e1, found.e2
    disbelieved = f < e1

    def overshoot(target: Tensor) -> PairMean:
        return _pair_mean(-proof.soundness(areas, target, e2).log())

    def shortfall(target: Tensor) -> PairMean:
        lost = -proof.completeness(areas, target, e1).log()
        return _pair_mean(lost.masked_fill(disbelieved, torch.nan))

    return MethodBounds(
        result.name,
        overshoot(f),
        overshoot(f.maximum(found.low)),
        shortfall(f),
        shortfall(f.minimum(found.high)),
        below_weakest=int((areas < found.weakest).sum()),
        above_strongest=int((areas > found.strongest).sum()),
    )


def _pair_mean(values: Tensor, limits: Limits = (0.0, math.inf)) -> PairMean:
    there = values[~values.isnan()] + 0.0  # -log 1 is -0.0
    mean = float(there.mean()) if len(there) else math.nan
    return PairMean(mean, *pooled_interval(values, limits=limits), len(there))


# ---- what it depends on, in words --------------------------------------------------------------------------------


def _matchable_note(matchable: PairMean, over: int, under: int) -> str:
    found = f"f can be matched on {matchable.cell} of {counted(matchable.n, 'pair')}"
    return f"{found}; even the weakest proof is too strong on {over}, even the strongest too weak on {under}"


def _beaten_notes(found: Reach, methods: Sequence[MethodBounds]) -> list[str]:
    """Notes that name the methods that go beyond the bounds found by the search, with the number of pairs on which each does."""
    below = {m.method: m.below_weakest for m in methods if m.below_weakest}
    above = {m.method: m.above_strongest for m in methods if m.above_strongest}
    notes = []
    for beaten, which, wider in (
        (below, "weakest", found.low < found.weakest),
        (above, "strongest", found.high > found.strongest),
    ):
        if beaten:
            who = ", ".join(f"{name} on {n}" for name, n in beaten.items())
            notes.append(
                f"the {which} proof was beaten on {counted(int(wider.sum()), 'pair')}, whose bound was widened: {who}"
            )
    return notes


def _meaning_notes(evaluation: Evaluation, found: Reach) -> list[str]:
    curve = found.others[0].insertion.settings
    pairs, known = int((evaluation.labels != NO_LABEL).sum()), int((~found.low.isnan()).sum())
    lacking = [f"{pairs - known} of {counted(pairs, 'pair')} lack a bound and do not count"]
    return [
        "overshoot: -log soundness of a pair; shortfall: -log completeness, where f >= e1; natural logarithms, .69 is a "
        "factor of two. By choice: the part that a map at the bound would have avoided",
        f"bounds of {'; '.join(map(_search_words, found.bounding))}: found, not proven. Further searches can only widen "
        "them, so the parts by choice and the share that can be matched can only grow",
        f"{subject_words(evaluation)}; means over pairs, 95 % intervals over images",
        f"thresholds e1 = {found.e1:g}, e2 = {found.e2:g}; insertion curve: fill {curve.get('fill')}, "
        f"{curve.get('points')} points",
        *distractor_notes(evaluation),
        *(lacking if known < pairs else []),
        *([OTHER_CURVE] if judged_on_another_curve(evaluation) else []),
    ]


def _search_words(result: MethodResult) -> str:
    """The name of a bounding method with its search effort: ``belief-mask:target=weakest (passes 200, grid 56, fills gray, blur)``."""
    settings = result.settings
    words = [f"{key} {settings[key]}" for key in ("passes", "grid") if key in settings]
    fills = settings.get("fills")
    if isinstance(fills, Sequence) and not isinstance(fills, str):
        names = [str(fill.get("fill")) if isinstance(fill, Mapping) else str(fill) for fill in fills]
        words.append(f"fills {', '.join(names)}")
    return f"{result.name} ({', '.join(words)})" if words else result.name


def _flat_record(record: Mapping[str, object]) -> dict[str, object]:
    """The record with each mean split into columns: ``overshoot``, ``overshoot_low``, ``overshoot_high``, ``overshoot_n``."""
    flat: dict[str, object] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= {key if name == "value" else f"{key}_{name}": part for name, part in value.items()}
        else:
            flat[key] = value
    return flat
