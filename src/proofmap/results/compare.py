"""Which of two methods is better, and how certain is the answer? Paired differences over the images that both methods share.

Tests say how likely a mean difference is by chance, and how many images are needed to decide. Images differ far more than methods, so
differences are taken image by image before they are averaged.

Scores of two runs are compared only if the runs have the same net, inputs, labels and settings of metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.records import MethodResult, setting_text
from proofmap.results.statistics import Doubles, doubles, fewest_images, mean_interval, mean_intervals
from proofmap.results.tables import Cells, Tables, cells_of, interval, metric_with_arrow, signed

_BLOCK = 2_000_000  # numbers drawn at once
_EXACT = 12
"""Up to this many images, all sign patterns are tried. For more images, ``resamples`` random patterns are tried."""
_LEVEL = 0.05
"""A verdict needs a corrected p below this and an interval without zero."""
_NUMERICAL_ERROR = 0.001
"""The numerical error of an area under a curve. A smaller difference of a metric that reads curves is never decided."""
_OF_THE_LABELS = ("outputs", "label_set", "renormalise", "labels")
_OF_THE_NET = [
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
]
"""Settings of an evaluation that must be equal in two runs. A setting that one of the runs does not record is not checked."""
_SAME_F = 0.01
"""If f (the net's probability of a label) differs by more than this, the nets or images differ. The difference between devices, or between
half and full precision, is well below."""


@dataclass(frozen=True)
class Difference:
    """The mean difference of one metric, method minus baseline, over the n images that count for both, with its 95 % interval and test."""

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
    """Two-sided p-value of the sign-flip test: the share of random sign patterns whose mean difference is at least as far from zero."""
    wins: float
    """Share of images on which the method is better; a tie counts as half."""
    corrected_p: float
    """p corrected for the number of comparisons in the table (Holm)."""
    images_needed: int | None
    """Number of images with which a difference of this size is decided in four of five cases; None if no number is enough."""
    least: float = 0.0
    """Smaller differences are never decided: the numerical error of the metric."""

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"]:
        """Better or worse if the interval excludes zero, the corrected p is below .05, and the difference is not below the numerical error;
        otherwise undecided."""
        if not self._is_significant or abs(self.difference) < self.least:
            return "undecided"
        return "better" if (self.low > 0) == self.higher_is_better else "worse"

    @property
    def _is_significant(self) -> bool:
        return (self.low > 0 or self.high < 0) and self.corrected_p < _LEVEL

    def record(self) -> dict[str, object]:
        """The difference as plain data."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Comparison(Tables):
    """Paired differences with notes. Prints as a table."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    noun: str = "images"
    """What was judged, in the plural: images, series, rows."""

    def find(self, metric: str, method: str, baseline: str) -> Difference:
        for d in self.differences:
            if (d.metric, d.method, d.baseline) == (metric, method, baseline):
                return d
        raise InputError(f"{method!r} was not compared with {baseline!r} by {metric!r}")

    def tables(self) -> list[Cells]:
        """Header and one row of cells per difference."""
        cells = cells_of(
            self.differences,
            ("metric", lambda d: metric_with_arrow(d.metric, d.higher_is_better)),
            ("method", lambda d: d.method),
            ("mean", lambda d: signed(d.value).removeprefix("+")),
            ("against", lambda d: d.baseline),
            ("mean", lambda d: signed(d.baseline_value).removeprefix("+")),
            ("difference", lambda d: signed(d.difference)),
            ("95 % interval", lambda d: interval(d.low, d.high, d.n, signed)),
            ("n", lambda d: str(d.n)),
            ("wins", lambda d: "-" if math.isnan(d.wins) else f"{d.wins:.0%}"),
            ("p", lambda d: _p_text(d.p)),
            ("Holm p", lambda d: _p_text(d.corrected_p)),
            (f"{self.noun} needed", lambda d: "-" if d.images_needed is None else f"{d.images_needed:,}"),
            ("verdict", lambda d: d.verdict),
        )
        return [cells]

    def records(self) -> list[dict[str, object]]:
        return [d.record() for d in self.differences]

    def record(self) -> dict[str, object]:
        return {"differences": self.records(), "notes": self.notes}


@dataclass(frozen=True, eq=False)
class _Entry:
    """One method of one run. ``name`` is the method's name in messages, such as ``run/method``."""

    run: str
    evaluation: Evaluation
    result: MethodResult
    name: str


def compare(
    results: Results | Mapping[str, Results],
    *,
    baseline: str | None = None,
    methods: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    allow_mismatch: bool | Literal["net"] = False,
    detect: float | None = None,
    seed: int = 0,
) -> Comparison:
    """Paired differences between methods, for every metric that two methods share, over the images that count for both.

    With one evaluation, all pairs of its methods are compared, or all methods with ``baseline``. With a mapping of names to evaluations
    (runs), each method is compared with the same method of the first run that has it, or every method with ``baseline`` (``method`` or
    ``run/method``). Images of different runs are matched by name.

    Args:
        methods: compare only these (``method`` or ``run/method``), with one another or with ``baseline``.
        metrics: names of the scores to compare; by default all that two methods share.
        allow_mismatch: also compare runs with different nets, label rules or metric settings, and add a note on what differs. By default
            such runs are refused. With ``"net"``, runs with different nets are compared, and other differences are refused.
        detect: report the number of images needed for a difference of this size, instead of the difference that was found.
        seed: seed of the random sign patterns of the test.
    """
    if detect is not None and not (math.isfinite(detect) and detect > 0):
        raise InputError(f"detect must be a difference above 0, not {detect}")
    methods, metrics = ([given] if isinstance(given, str) else given for given in (methods, metrics))
    several = dict(results) if isinstance(results, Mapping) else {"": results}
    runs = {name: evaluation_of(each) for name, each in several.items()}
    if not runs:
        raise InputError("there is nothing to compare; give at least one evaluation")
    entries = [
        _Entry(run, e, r, f"{run}/{r.name}" if len(runs) > 1 else r.name)
        for run, e in runs.items()
        for r in e.results
    ]
    pairs = _pairs(entries, baseline, methods, several=len(runs) > 1)
    notes: list[str] = []
    found: list[tuple[Difference, Doubles]] = []
    for method, against in pairs:
        complaints = _what_differs(method, against, metrics, other_net=allow_mismatch == "net")
        if complaints and allow_mismatch is not True:
            or_not = "" if allow_mismatch else ", or compare them with --allow-mismatch (allow_mismatch=True)"
            raise InputError(
                f"{method.name} and {against.name} cannot be compared: {'; '.join(complaints)}. Use the same settings for both{or_not}"
            )
        notes += [f"{method.name} and {against.name} differ: {c}" for c in complaints]
        notes += _image_notes(method, against)
        found += _differences(method, against, metrics)
    if not found:
        own = (f"{each.name} by {', '.join(score.name for score in each.result.scores)}" for each in entries)
        raise InputError(f"the methods share no metric to compare them by: {'; '.join(own)}")
    order = list(dict.fromkeys(line.metric for line, _ in found))
    found.sort(key=lambda pair: order.index(pair[0].metric))
    differences = _tested(found, detect, seed)
    tested = _test_notes(differences, detect, entries[0].evaluation.inputs)
    return Comparison(tuple(differences), (*tested, *dict.fromkeys(notes)), entries[0].evaluation.inputs.noun)


def _test_notes(differences: Sequence[Difference], detect: float | None, inputs: Inputs) -> list[str]:
    """Notes on how the lines were tested, and a warning if this number of images can never decide a line."""
    lines = len(differences)
    one_of = "a difference of its size" if detect is None else f"a difference of {detect:g}"
    notes = [
        f"differences are taken {inputs.singular} by {inputs.singular}; 95 % intervals over {inputs.noun}; a verdict needs a p below .05, "
        f"corrected for the {counted(lines, 'line')} (Holm): of twenty tables without any difference one has a decided line",
        f"{inputs.noun} needed: the number that decides a line in four of five cases, for {one_of} and the spread that was found",
    ]
    if any(d._is_significant and abs(d.difference) < d.least for d in differences):
        notes.append(
            f"a difference below {signed(_NUMERICAL_ERROR)[1:]} is never decided: it is smaller than the numerical error of an AUC"
        )
    most = max(d.n for d in differences)
    floor = min(1.0, _smallest_p(most, _resamples_for(lines)) * lines)
    if most and floor >= _LEVEL:
        notes.append(
            f"{counted(most, inputs.singular)} can never decide one of {counted(lines, 'line')}: the smallest possible corrected p is "
            f"{_p_text(floor)}. Judge {fewest_images(lines)} {inputs.noun} or more, or compare fewer methods and metrics"
        )
    return notes


def _resamples_for(lines: int) -> int:
    """The number of random sign patterns for a table of ``lines`` lines, so large that the smallest possible corrected p is at most .01."""
    return max(10_000, 100 * lines)


def decided_signs(differences: Doubles) -> list[int]:
    """Which of several mean differences of areas under curves are decided: 1 if it is above zero, -1 if below, 0 if it is undecided.

    ``differences`` ``(N, pairs)`` has the differences of each image; NaN if an image does not count.
    """
    lines = differences.shape[1]
    p = _holm(_sign_flip_p(differences, resamples=_resamples_for(lines)))
    low, high = mean_intervals(differences).T
    large = np.abs(np.nanmean(differences, axis=0)) >= _NUMERICAL_ERROR
    found: list[int] = np.where(large & (p < _LEVEL), (low > 0) * 1 - (high < 0) * 1, 0).tolist()
    return found


def _pairs(
    entries: Sequence[_Entry], baseline: str | None, methods: Sequence[str] | None, *, several: bool
) -> list[tuple[_Entry, _Entry]]:
    """The (method, baseline) pairs to compare, chosen as :func:`compare` describes. ``several`` is True if there are several runs."""

    def named(name: str) -> list[_Entry]:
        if not (found := [e for e in entries if name in (e.name, e.result.name)]):
            raise InputError(f"no method {name!r} to compare; there are {', '.join(e.name for e in entries)}")
        return found

    fixed = None if baseline is None else named(baseline)[0]
    if methods is not None:
        chosen = [entry for name in methods for entry in named(name)]
        entries = [entry for entry in entries if entry in chosen]
    firsts: dict[str, _Entry] = {}
    if fixed is not None:
        pairs = [(e, fixed) for e in entries if e is not fixed]
    elif several:
        pairs = [(e, first) for e in entries if (first := firsts.setdefault(e.result.name, e)) is not e]
    else:
        pairs = [(b, a) for a, b in combinations(entries, 2)]
    if not pairs:
        raise InputError(
            "there are no two methods to compare; judge a second method, or name a baseline (a method, or run/method) or more methods"
        )
    return pairs


def _differences(
    method: _Entry, against: _Entry, metrics: Sequence[str] | None
) -> Iterator[tuple[Difference, Doubles]]:
    """For each shared metric, the :class:`Difference` without its test, and the differences ``(n,)`` of the shared images; NaN if an image
    does not count for both."""
    rows, others = _shared_images(method, against)
    for name in _shared_metrics(method, against, metrics):
        ours = doubles(method.result.numpy("values")[name][rows])
        theirs = doubles(against.result.numpy("values")[name][others])
        score, other = method.result.score(name), against.result.score(name)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values
            d = ours - theirs
            counts = ~(np.isnan(ours) | np.isnan(theirs))
            known = d[~np.isnan(d)]
            better = known if score.higher_is_better else -known
            limits = score.limits[0] - other.limits[1], score.limits[1] - other.limits[0]
            low, high = mean_interval(known, limits=limits)
            line = Difference(
                metric=name,
                higher_is_better=score.higher_is_better,
                method=method.name,
                baseline=against.name,
                value=_mean(ours[counts]),
                baseline_value=_mean(theirs[counts]),
                difference=_mean(known),
                low=low,
                high=high,
                n=len(known),
                p=math.nan,
                wins=_mean((better > 0) + 0.5 * (better == 0)),
                corrected_p=math.nan,
                images_needed=None,
                least=_NUMERICAL_ERROR if "points" in score.settings else 0.0,
            )
        yield line, d


@np.errstate(over="ignore", invalid="ignore")  # infinite values
def _tested(found: Sequence[tuple[Difference, Doubles]], detect: float | None, seed: int) -> list[Difference]:
    """The differences with their tests. Columns of the same length are tested in one pass with the same random signs."""
    p = np.full(len(found), np.nan)
    for n in {len(d) for _, d in found}:
        same = [k for k, (_, d) in enumerate(found) if len(d) == n]
        columns = np.stack([found[k][1] for k in same], axis=1)
        p[same] = _sign_flip_p(columns, resamples=_resamples_for(len(found)), seed=seed)
    tested = []
    for (line, d), own, corrected in zip(found, p.tolist(), _holm(p).tolist(), strict=True):
        known = d[~np.isnan(d)]
        spread = float(known.std(ddof=1)) if len(known) > 1 else math.nan
        size = line.difference if detect is None else detect
        needed = None if abs(size) < line.least else images_needed(size, spread, comparisons=len(found))
        tested.append(replace(line, p=own, corrected_p=corrected, images_needed=needed))
    return tested


def _mean(values: Doubles) -> float:
    """The mean of the values that count; NaN if none does."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _image_notes(method: _Entry, against: _Entry) -> list[str]:
    rows, _ = _shared_images(method, against)
    n, m = len(method.evaluation), len(against.evaluation)
    if len(rows) == n == m:
        return []
    return [
        f"{method.run} and {against.run} share {counted(len(rows), method.evaluation.inputs.singular)}, of {n} and {m}; only these count"
    ]


# ---- can two runs be compared? ------------------------------------------------------------


def _shared_metrics(method: _Entry, against: _Entry, metrics: Sequence[str] | None) -> list[str]:
    """The names of the metrics that both methods have. If ``metrics`` is given, only these are returned, and both methods must have them."""
    names = [s.name for s in method.result.scores if s.name in against.result.numpy("values")]
    for asked in metrics or ():
        if asked not in names:
            raise InputError(
                f"{method.name} and {against.name} do not share a metric {asked!r}; they share {', '.join(names)}"
            )
    return [name for name in names if metrics is None or name in metrics]


def _shared_images(method: _Entry, against: _Entry) -> tuple[list[int], list[int]]:
    """The images that both evaluations have, matched by name: their row indices in ``method`` and in ``against``, in the order of
    ``method``."""
    if method.evaluation is against.evaluation:
        rows = list(range(len(method.evaluation)))
        return rows, rows
    place = {name: i for i, name in enumerate(against.evaluation.image_names)}
    rows = [i for i, name in enumerate(method.evaluation.image_names) if name in place]
    if not rows:
        raise InputError(
            f"{method.name} and {against.name} cannot be compared: no {method.evaluation.inputs.singular} of the same name was judged for both"
        )
    return rows, [place[method.evaluation.image_names[i]] for i in rows]


def _what_differs(
    method: _Entry, against: _Entry, metrics: Sequence[str] | None, *, other_net: bool
) -> list[str]:
    """The reasons why the scores of two runs cannot be compared; empty if they can be compared. With ``other_net``, their nets may differ."""
    if method.evaluation is against.evaluation:
        return []
    ours, theirs = method.evaluation.settings, against.evaluation.settings
    complaints = [
        f"{key} is {ours[key]} and {theirs[key]}"
        for key in (*(() if other_net else _OF_THE_NET), *_OF_THE_LABELS)
        if key in ours and key in theirs and setting_text(ours[key]) != setting_text(theirs[key])
    ]
    for name in _shared_metrics(method, against, metrics):
        a, b = method.result.score(name), against.result.score(name)
        if a.higher_is_better != b.higher_is_better:
            complaints.append(f"{name} is better higher in one and lower in the other")
        of_the_gray = {"color"} if other_net else set[str]()
        for key in sorted({*a.settings, *b.settings} - {*_OF_THE_LABELS} - of_the_gray):
            mine, other = a.settings.get(key), b.settings.get(key)
            if setting_text(mine) != setting_text(other):
                complaints.append(f"{name} has {key} = {mine} and {other}")
    return complaints or ([] if other_net else _different_images(method, against))


def _different_images(method: _Entry, against: _Entry) -> list[str]:
    """A list with one sentence on the first image whose labels or f differ between the runs; empty if there is none. This check is needed
    because equal settings and names do not imply equal weights and pictures."""
    evaluations = method.evaluation, against.evaluation
    for at in zip(*_shared_images(method, against), strict=True):
        name, item = evaluations[0].image_names[at[0]], evaluations[0].inputs.singular
        ours, theirs = (
            {
                a: f
                for a, f in zip(e.numpy("labels")[i].tolist(), e.numpy("f")[i].tolist(), strict=True)
                if a != NO_LABEL
            }
            for e, i in zip(evaluations, at, strict=True)
        )
        if list(ours) != list(theirs):
            return [f"{item} {name!r} has labels {list(ours)} and {list(theirs)}"]
        gap = max(abs(f - theirs[a]) for a, f in ours.items())
        if gap > _SAME_F:
            return [f"f of {item} {name!r} differs by {gap:.2f}: other weights, or another {item}"]
    return []


# ---- numbers as text ------------------------------------------------------------


def _p_text(value: float) -> str:
    """A p-value as text with three decimals, or ``<.001``."""
    if math.isnan(value):
        return "-"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


@np.errstate(over="ignore", invalid="ignore")  # sums of infinite values
def _sign_flip_p(differences: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Doubles:
    """Two-sided p-values ``(K,)`` of the sign-flip test, one for each column of ``differences`` ``(N, K)``.

    A p-value is the share of sign patterns with which the mean is at least as far from zero as the observed mean. If two methods were
    equally good, each image's difference would have either sign with equal probability. For up to 12 images, all sign patterns are tried;
    for more, the observed one and ``resamples`` random ones. NaN entries do not count.

    >>> _sign_flip_p([[1.0], [2.0], [3.0]])  # 2 of the 8 patterns
    array([0.25])
    """
    values = doubles(differences)
    nothing = np.isnan(values).all(axis=0)
    values = np.nan_to_num(values, nan=0.0)
    observed = np.abs(values.sum(axis=0)) * (1 - 1e-9)  # sums that differ by rounding alone are equal
    n, reached, tried = len(values), np.zeros(values.shape[1]), 0
    for signs in _sign_patterns(n, resamples, seed):
        reached += (np.abs(signs @ values) >= observed).sum(axis=0)
        tried += len(signs)
    sampled = int(n > _EXACT)
    return np.where(nothing, np.nan, (reached + sampled) / (tried + sampled))


def _holm(p: ArrayLike) -> Doubles:
    """The p-values ``(K,)`` corrected for multiple comparisons by Holm's step-down rule. NaN entries stay NaN and do not count.

        corrected_(i) = max over j <= i of min(1, (K - j + 1) p_(j))        with p_(1) <= ... <= p_(K)

    If every comparison with a corrected p below .05 is called decided, the probability of at least one false call among all comparisons is
    at most 5 %, however the comparisons depend on one another.

    >>> _holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    corrected = doubles(p).copy()
    counted = np.flatnonzero(~np.isnan(corrected))
    order = counted[corrected[counted].argsort(kind="stable")]
    times = np.arange(len(order), 0, -1)
    corrected[order] = np.maximum.accumulate(np.minimum(times * corrected[order], 1.0))
    return corrected


def _smallest_p(n: int, resamples: int = 10_000) -> float:
    """The smallest p-value that :func:`_sign_flip_p` can give for ``n`` images. Two of the 2^n sign patterns are always as extreme as the data:
    the observed one and its opposite.

    >>> _smallest_p(5), _smallest_p(6)
    (0.0625, 0.03125)
    """
    return min(1.0, 2.0 ** (1 - n)) if n <= _EXACT else max(2.0 ** (1 - n), 1 / (resamples + 1))


def images_needed(
    difference: float, spread: float, *, comparisons: int = 1, level: float = 0.05, power: float = 0.8
) -> int | None:
    """The number of images needed to tell two methods apart with probability ``power``; None if no number is enough.

    The methods' means differ by ``difference``, and the differences on single images have the standard deviation ``spread``.

        n = (z_{1 - a/2} + z_power)^2 (spread / difference)^2 + z_{1 - a/2}^2 / 2,      a = level / comparisons

    z_p is the normal quantile at p. This is the usual normal formula with Guenther's term for few images. The result is never below
    :func:`fewest_images`.

    >>> images_needed(0.5, 1.0), images_needed(0.05, 1.0), images_needed(0.0, 1.0)
    (34, 3142, None)
    """
    if math.isnan(difference) or math.isnan(spread) or difference == 0:
        return None
    z = NormalDist().inv_cdf(1 - level / comparisons / 2)
    both = z + NormalDist().inv_cdf(power)
    n = (both * spread / difference) ** 2 + z**2 / 2
    return max(math.ceil(n), fewest_images(comparisons, level=level))


def _sign_patterns(n: int, resamples: int, seed: int) -> Iterator[Doubles]:
    """Blocks ``(R, n)`` of sign patterns, one row of +1 and -1 per pattern. Random signs are the lowest bits of a Mersenne Twister, as in
    ``torch.randint(2, ...)``."""
    if n <= _EXACT:
        numbers = np.arange(2**n)[:, None]
        yield 2.0 * doubles((numbers >> np.arange(n)) & 1) - 1
        return
    generator = np.random.RandomState(seed & 0xFFFFFFFF)
    block = max(1, min(resamples, _BLOCK // n))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        words: NDArray[np.uint32] = generator.randint(0, 2**32, (rows, n), dtype=np.uint32)
        yield 2.0 * doubles(words & 1) - 1
