"""Compares a method's areas with the strongest and the weakest proof found for each pair.

A pair (x, a) is an image and a label. A is the area under the insertion curve of a method's map for the pair, and f = f(x, a) is the net's
probability of the label. A method with ``target=weakest`` searches for the map with the smallest area, and one with ``target=strongest`` for
the map with the largest. If a run judged both, these areas are known for each pair:

    lo = the smallest area of all methods       hi = the largest area of all methods

Usually they are the areas of the two searching methods, but another method may go beyond them. Completeness alpha, soundness beta and their
floors e1 and e2 are defined in :mod:`proofmap.metrics.scores`:

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
from proofmap.metrics import scores
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.notes import distractor_notes, subject_words
from proofmap.results.proof_shape import other_curve_note
from proofmap.results.records import MethodResult, setting_text
from proofmap.results.statistics import Limits, pooled_interval
from proofmap.results.tables import Cells, Table

TARGETS = ("weakest", "strongest")
"""Values of a method's setting ``target`` with which the method searches for a bound."""


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
    by_target = {t: [r for r in evaluation.results if _target(r) == t] for t in (*TARGETS, None)}
    _check(evaluation, by_target)
    weakest, strongest = (_farthest(by_target[target], target) for target in TARGETS)
    f = evaluation.f.double().cpu()
    known = ~(weakest.isnan() | strongest.isnan() | f.isnan())
    if not bool(known.any()):
        raise InputError("no pair has both bounds yet; continue the run with: proofmap evaluate")
    low, high = (_farthest(evaluation.results, target).where(known, torch.nan) for target in TARGETS)
    first = evaluation.results[0]
    e1, e2 = first.threshold("e1"), first.threshold("e2")
    methods = []
    for result in by_target[None]:
        areas = _areas(result).where(known, torch.nan)
        over = [-scores.soundness(areas, target, e2).log() for target in (f, f.maximum(low))]
        short = [
            (-scores.completeness(areas, target, e1).log()).masked_fill(f < e1, torch.nan)
            for target in (f, f.minimum(high))
        ]
        means = [_pair_mean(values) for values in (*over, *short)]
        beaten = [int((areas < weakest).sum()), int((areas > strongest).sum())]
        methods.append(
            MethodBounds(result.name, means[0], means[1], means[2], means[3], beaten[0], beaten[1])
        )
    forced_over, forced_under = low > f.clamp_min(e2), (high < f) & (f >= e1)
    matchable = _pair_mean((~(forced_over | forced_under)).double().where(known, torch.nan), (0.0, 1.0))
    forced = int(forced_over.sum()), int(forced_under.sum())
    curve = by_target[None][0].insertion.settings
    pairs = int((evaluation.labels != NO_LABEL).sum())
    searches = "; ".join(_search_words(result) for target in TARGETS for result in by_target[target])
    notes = (
        f"f can be matched on {matchable.cell} of {counted(matchable.n, 'pair')}; even the weakest proof is too strong on {forced[0]}, "
        f"even the strongest too weak on {forced[1]}",
        *_beaten_note("weakest", low < weakest, {m.method: m.below_weakest for m in methods}),
        *_beaten_note("strongest", high > strongest, {m.method: m.above_strongest for m in methods}),
        "overshoot: -log soundness of a pair; shortfall: -log completeness, where f >= e1; natural logarithms, .69 is a "
        "factor of two. By choice: the part that a map at the bound would have avoided",
        f"bounds of {searches}: found, not proven. Further searches can only widen "
        "them, so the parts by choice and the share that can be matched can only grow",
        f"{subject_words(evaluation)}; means over pairs, 95 % intervals over images",
        f"thresholds e1 = {e1:g}, e2 = {e2:g}; insertion curve: fill {curve.get('fill')}, {curve.get('points')} points",
        *distractor_notes(evaluation),
        *(
            [f"{pairs - int(known.sum())} of {counted(pairs, 'pair')} lack a bound and do not count"]
            if pairs > int(known.sum())
            else []
        ),
        *filter(None, [other_curve_note(evaluation)]),
    )
    return Bounds(tuple(methods), matchable, *forced, notes)


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


def _farthest(results: Sequence[MethodResult], target: str) -> Tensor:
    """The smallest areas ``(N, L)`` of several methods, or the largest for the target ``strongest``; NaN only where all of them are NaN."""
    stacked = torch.stack([_areas(result) for result in results])
    sign = 1 if target == "weakest" else -1
    least = sign * (sign * stacked).nan_to_num(nan=torch.inf, neginf=-torch.inf).amin(dim=0)
    return least.masked_fill(stacked.isnan().all(dim=0), torch.nan)


def _pair_mean(values: Tensor, limits: Limits = (0.0, math.inf)) -> PairMean:
    there = values[~values.isnan()] + 0.0  # -log 1 is -0.0
    mean = float(there.mean()) if len(there) else math.nan
    return PairMean(mean, *pooled_interval(values, limits=limits), len(there))


def _beaten_note(which: str, wider: Tensor, beaten: Mapping[str, int]) -> list[str]:
    """A list with a note that names the methods that go beyond a bound found by the search, with the number of pairs on which each does."""
    who = ", ".join(f"{name} on {n}" for name, n in beaten.items() if n)
    return (
        [
            f"the {which} proof was beaten on {counted(int(wider.sum()), 'pair')}, whose bound was widened: {who}"
        ]
        if who
        else []
    )


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
