"""Which method is better, and is it sure? Paired differences over the images that two methods share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.html_tables import table_html
from proofmap.results.paired import paired_intervals, sign_flip_p
from proofmap.results.records import MethodResult, setting_text

Verdict = Literal["better", "worse", "undecided"]

MUST_AGREE = (
    "model",
    "fingerprint",
    "inputs",
    "size",
    "length",
    "columns",
    "mean",
    "std",
    "resize",
    "interpolation",
    "outputs",
    "label_set",
    "renormalise",
    "labels",
)
"""Settings of an evaluation without which numbers of two runs do not compare; one that a run does not state passes."""
LEVEL = 0.05
"""A verdict needs a p below this, besides an interval without zero: with few images the two may disagree."""
SAME_F = 0.01
"""Two runs saw the same net and picture if f agrees to this; half precision and other devices stay well below."""


@dataclass(frozen=True)
class Difference:
    """One metric: a method minus a baseline, image by image, over the images that both count."""

    metric: str
    higher_is_better: bool
    method: str
    baseline: str
    value: float
    """The method's mean over the shared images."""
    baseline_value: float
    difference: float
    low: float
    high: float
    n: int
    p: float
    """How often random signs give a mean difference as far from zero (sign-flip test, two-sided)."""
    wins: float
    """Share of images on which the method is better; half a win for a tie."""

    @property
    def verdict(self) -> Verdict:
        """Better or worse when the interval leaves zero out and random signs agree (p < .05), else undecided."""
        if not (self.low > 0 or self.high < 0) or not self.p < LEVEL:
            return "undecided"
        return "better" if (self.low > 0) == self.higher_is_better else "worse"

    def record(self) -> dict[str, object]:
        """The difference as plain data."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Comparison:
    """Paired differences, and what to know about them. Prints as a table."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    def find(self, metric: str, method: str, baseline: str) -> Difference:
        for d in self.differences:
            if (d.metric, d.method, d.baseline) == (metric, method, baseline):
                return d
        raise InputError(f"{method!r} was not compared with {baseline!r} by {metric!r}")

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and one row of cells per difference."""
        header = [
            "metric",
            "method",
            "mean",
            "against",
            "mean",
            "difference",
            "95 % interval",
            "n",
            "wins",
            "p",
            "verdict",
        ]
        rows = [
            [
                f"{d.metric} {'↑' if d.higher_is_better else '↓'}",
                d.method,
                _places(d.value),
                d.baseline,
                _places(d.baseline_value),
                signed(d.difference),
                "-" if math.isnan(d.low) else f"[{signed(d.low)}, {signed(d.high)}]",
                str(d.n),
                "-" if math.isnan(d.wins) else f"{d.wins:.0%}",
                _p(d.p),
                d.verdict,
            ]
            for d in self.differences
        ]
        return header, rows

    def table(self) -> str:
        """Aligned text with the notes below."""
        return "\n".join([tables.aligned(*self.cells()), *self.notes])

    def markdown(self) -> str:
        return tables.markdown(*self.cells(), self.notes)

    def csv(self) -> str:
        """One line per difference, all decimals."""
        return tables.records_csv([d.record() for d in self.differences])

    def json(self) -> str:
        """Differences and notes; NaN becomes null."""
        record = {"differences": [d.record() for d in self.differences], "notes": list(self.notes)}
        return tables.json_text(record)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return table_html(*self.cells(), self.notes)


@dataclass(frozen=True)
class _Entry:
    """One method of one run."""

    run: str
    evaluation: Evaluation
    result: MethodResult
    name: str


def compare(
    evaluations: Evaluation | Mapping[str, Evaluation],
    *,
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    anyway: bool = False,
    seed: int = 0,
) -> Comparison:
    """Paired differences of methods for every metric they share, over the images both count.

    One evaluation: all pairs of its methods, or all methods against ``baseline``. Several, by name: each method against
    the same method of the first run that has it, or everything against ``baseline`` (``method``, or ``run/method``);
    images are matched by name.

    Args:
        metrics: names of scores; all that two methods share when left out.
        anyway: runs whose numbers do not compare (other nets, label rules or metric settings) are refused; this
            compares them nevertheless and notes what differs.
    """
    runs = {"": evaluations} if isinstance(evaluations, Evaluation) else dict(evaluations)
    if not runs:
        raise InputError("there is nothing to compare; give at least one evaluation")
    entries = [
        _Entry(run, e, r, f"{run}/{r.name}" if len(runs) > 1 else r.name)
        for run, e in runs.items()
        for r in e.results
    ]
    pairs = _pairs(entries, baseline, several=len(runs) > 1)
    notes: list[str] = []
    found: list[_Column] = []
    for method, against in pairs:
        complaints = _what_differs(method, against, metrics)
        if complaints and not anyway:
            raise InputError(
                f"{method.name} and {against.name} do not compare: {'; '.join(complaints)}. "
                "Judge both alike, or compare them nevertheless with --anyway (anyway=True)"
            )
        notes += [f"{method.name} and {against.name} differ: {c}" for c in complaints]
        notes += _image_notes(method, against)
        found += _columns(method, against, metrics)
    if not found:
        raise InputError("the methods share no metric to compare them by")
    order = list(dict.fromkeys(column.metric for column in found))
    found.sort(key=lambda column: order.index(column.metric))
    how = (
        "differences are taken image by image; 95 % bootstrap intervals over images; a verdict needs p < .05 too. "
        f"Each of the {len(found)} lines stands for itself: of twenty true ties one looks decided"
    )
    return Comparison(tuple(_differences(found, seed)), (how, *dict.fromkeys(notes)))


def _pairs(entries: Sequence[_Entry], baseline: str | None, *, several: bool) -> list[tuple[_Entry, _Entry]]:
    """(method, baseline) pairs as :func:`compare` describes them."""
    if baseline is not None:
        fixed = next((e for e in entries if baseline in (e.name, e.result.name)), None)
        if fixed is None:
            known = ", ".join(e.name for e in entries)
            raise InputError(f"no method {baseline!r} to compare with; there are {known}")
        pairs = [(e, fixed) for e in entries if e is not fixed]
    elif several:
        firsts: dict[str, _Entry] = {}
        pairs = []
        for entry in entries:
            first = firsts.setdefault(entry.result.name, entry)
            if first is not entry:
                pairs.append((entry, first))
    else:
        pairs = [(b, a) for a, b in combinations(entries, 2)]
    if not pairs:
        mend = "name a baseline (run/method)" if several else "judge a second method"
        raise InputError(f"there are no two methods to compare; {mend}")
    return pairs


@dataclass(frozen=True)
class _Column:
    """One metric of two methods on the images they share, ``(n,)`` each; NaN where either does not count."""

    metric: str
    higher_is_better: bool
    method: str
    baseline: str
    values: Tensor
    baseline_values: Tensor


def _columns(method: _Entry, against: _Entry, metrics: Sequence[str] | None) -> list[_Column]:
    rows, others = _shared_images(method, against)
    columns = []
    for name in _shared_metrics(method, against, metrics):
        a = method.result.values[name][rows].double().cpu()
        b = against.result.values[name][others].double().cpu()
        neither = a.isnan() | b.isnan()
        a, b = a.masked_fill(neither, torch.nan), b.masked_fill(neither, torch.nan)
        higher = method.result.score(name).higher_is_better
        columns.append(_Column(name, higher, method.name, against.name, a, b))
    return columns


def _differences(columns: Sequence[_Column], seed: int) -> list[Difference]:
    """Columns of equal length are resampled together, which costs little more than one."""
    tested: dict[int, tuple[float, float, float]] = {}
    for n in {len(column.values) for column in columns}:
        alike = [k for k, column in enumerate(columns) if len(column.values) == n]
        d = torch.stack([columns[k].values - columns[k].baseline_values for k in alike], dim=1)
        ends, p = paired_intervals(d, seed=seed).tolist(), sign_flip_p(d, seed=seed).tolist()
        tested |= {k: (*ends[i], p[i]) for i, k in enumerate(alike)}
    return [_difference(column, *tested[k]) for k, column in enumerate(columns)]


def _difference(column: _Column, low: float, high: float, p: float) -> Difference:
    d = column.values - column.baseline_values
    counted = d[~d.isnan()] if column.higher_is_better else -d[~d.isnan()]
    return Difference(
        metric=column.metric,
        higher_is_better=column.higher_is_better,
        method=column.method,
        baseline=column.baseline,
        value=float(column.values.nanmean()),
        baseline_value=float(column.baseline_values.nanmean()),
        difference=float(d.nanmean()),
        low=low,
        high=high,
        n=len(counted),
        p=p,
        wins=((counted > 0).double() + 0.5 * (counted == 0).double()).mean().item(),
    )


def _shared_metrics(method: _Entry, against: _Entry, metrics: Sequence[str] | None) -> list[str]:
    names = [s.name for s in method.result.scores if s.name in against.result.values]
    for asked in metrics or ():
        if asked not in names:
            raise InputError(
                f"{method.name} and {against.name} do not share a metric {asked!r}; they share {', '.join(names)}"
            )
    return [name for name in names if metrics is None or name in metrics]


def _shared_images(method: _Entry, against: _Entry) -> tuple[list[int], list[int]]:
    """Rows of the images that both judged, in the method's order; matched by name."""
    if method.evaluation is against.evaluation:
        rows = list(range(len(method.evaluation)))
        return rows, rows
    place = {name: i for i, name in enumerate(against.evaluation.image_names)}
    rows = [i for i, name in enumerate(method.evaluation.image_names) if name in place]
    if not rows:
        raise InputError(f"{method.name} and {against.name} were judged on no image of the same name")
    return rows, [place[method.evaluation.image_names[i]] for i in rows]


def _image_notes(method: _Entry, against: _Entry) -> list[str]:
    rows, _ = _shared_images(method, against)
    n, m = len(method.evaluation), len(against.evaluation)
    if len(rows) == n == m:
        return []
    return [
        f"{method.run} and {against.run} share {counted(len(rows), 'image')}, of {n} and {m}; only these count"
    ]


def _what_differs(method: _Entry, against: _Entry, metrics: Sequence[str] | None) -> list[str]:
    """Why the numbers of two runs do not compare; empty when they do."""
    if method.evaluation is against.evaluation:
        return []
    ours, theirs = method.evaluation.settings, against.evaluation.settings
    complaints = [
        f"{key} is {ours[key]} and {theirs[key]}"
        for key in MUST_AGREE
        if key in ours and key in theirs and setting_text(ours[key]) != setting_text(theirs[key])
    ]
    for name in _shared_metrics(method, against, metrics):
        a, b = method.result.score(name), against.result.score(name)
        if a.higher_is_better != b.higher_is_better:
            complaints.append(f"{name} is better higher in one and lower in the other")
        for key in sorted({*a.settings, *b.settings} - set(MUST_AGREE)):
            mine, other = a.settings.get(key), b.settings.get(key)
            if setting_text(mine) != setting_text(other):
                complaints.append(f"{name} has {key} = {mine} and {other}")
    return complaints or _different_images(method, against)


def _different_images(method: _Entry, against: _Entry) -> list[str]:
    """Equal settings and names do not make equal weights and pictures: the labels and f of each image must agree."""
    rows, others = _shared_images(method, against)
    ours, theirs = method.evaluation, against.evaluation
    for i, j in zip(rows, others, strict=True):
        labels, others_labels = _real(ours.labels[i]), _real(theirs.labels[j])
        name = ours.image_names[i]
        if labels != others_labels:
            return [f"image {name!r} has labels {labels} and {others_labels}"]
        gap = (ours.f[i][: len(labels)].cpu() - theirs.f[j][: len(labels)].cpu()).abs().max()
        if float(gap) > SAME_F:
            return [f"f of image {name!r} differs by {float(gap):.2f}: other weights, or another picture"]
    return []


def _real(labels: Tensor) -> list[int]:
    return [a for a in labels.tolist() if a != NO_LABEL]


def _places(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def signed(value: float) -> str:
    """Three decimals with a sign, without the leading zero.

    >>> signed(0.0412), signed(-0.5), signed(1.25)
    ('+.041', '-.500', '+1.250')
    """
    return "-" if math.isnan(value) else f"{value:+.3f}".replace("+0.", "+.").replace("-0.", "-.")


def _p(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")
