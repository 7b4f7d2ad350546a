"""Is a method good enough? Compares scores with bars (thresholds), and with those of another run, for pipelines that must fail when a map
proves nothing.

Controls are methods whose maps do not use the net. They are compared with the same bars. If a control reaches every bar, then the bars
distinguish nothing, or the net ignores its input; the audit fails, whatever the other methods score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.results.compare import Difference, compare
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult
from proofmap.results.tables import Cells, Tables, metric_words
from proofmap.results.verdict import ENOUGH, role_of, soundness_notes

_ROUNDING = 1e-6
"""Tolerance for float32: a drop of exactly the limit passes."""

Use = Literal["mean", "interval"]
"""What is compared with a bar: the ``mean`` over images, or the whole 95 % ``interval`` (the worse of its two ends)."""


@dataclass(frozen=True)
class AuditLine:
    """One score of one method, compared with its bar or with another run."""

    method: str
    metric: str
    higher_is_better: bool
    bar: float
    """The bar; against another run, the largest drop allowed."""
    value: float
    low: float
    high: float
    """The 95 % interval: of the value, or of the difference from the other run."""
    n: int
    reason: str
    """Why it fails; empty if it passes."""
    passes: bool
    is_drop: bool = False
    """Whether it is compared with another run: ``value_against`` is that run's mean over the same images."""
    value_against: float = math.nan
    difference: float = math.nan

    @property
    def what(self) -> str:
        """The bar as text, such as ``>= 0.8``, or the allowed change, such as ``-0.05 at most``."""
        if not self.is_drop:
            return f"{'>=' if self.higher_is_better else '<='} {self.bar:g}"
        return f"{'-' if self.higher_is_better else '+'}{self.bar:g} at most"

    @property
    def verdict(self) -> str:
        if not self.passes:
            return f"fails: {self.reason}"
        return f"passes{'' if self.n else ': it counted nothing before'}"


@dataclass(frozen=True)
class AuditResult(Tables):
    """The result of :func:`audit`. The audit passes if every line and every drop passes and no control reaches all bars. Prints as
    tables."""

    lines: tuple[AuditLine, ...]
    use: Use
    notes: tuple[str, ...]
    """Whether controls reach the bars, why soundness may not come from maps, and how the other run differs."""
    controls: tuple[AuditLine, ...] = ()
    """Comparisons of the controls (maps that do not use the net) with the same bars. Each control must miss at least one bar."""
    drops: tuple[AuditLine, ...] = ()
    """Comparisons of scores with those of another run."""

    @property
    def passes(self) -> bool:
        return all(line.passes for line in self.held) and not self.too_good

    @property
    def held(self) -> list[AuditLine]:
        """The comparisons that must pass: those of methods with bars, and the drops. Those of controls are not included."""
        return [*self.lines, *self.drops]

    @property
    def too_good(self) -> tuple[str, ...]:
        """The controls that reach every bar."""
        missed = {line.method for line in self.controls if not line.passes}
        return tuple(dict.fromkeys(line.method for line in self.controls if line.method not in missed))

    def footer(self) -> list[str]:
        """The verdict in one line, such as ``audit passed (the mean counts)``."""
        failed = sum(not line.passes for line in self.held)
        missed = [f"{failed} of {counted(len(self.held), 'bar')} missed"] if failed else []
        verb = "passes, which knows" if len(self.too_good) == 1 else "pass, which know"
        noise = [f"{' and '.join(self.too_good)} {verb} nothing of the net"] if self.too_good else []
        verdict = "passed" if self.passes else f"failed: {', and '.join([*missed, *noise])}"
        rule = "the mean counts" if self.use == "mean" else "the whole 95 % interval counts"
        return [f"audit {verdict} ({rule})"]

    def tables(self) -> list[Cells]:
        """Header and rows of up to two tables: the comparisons with bars (methods, then controls), and the drops."""
        bars = tables.cells_of(
            (*self.lines, *self.controls),
            ("method", lambda line: line.method),
            ("metric", lambda line: metric_words(line.metric)),
            ("mean", lambda line: tables.number(line.value)),
            ("95 % interval", lambda line: tables.interval(line.low, line.high, line.n)),
            ("n", lambda line: str(line.n)),
            ("bar", lambda line: line.what),
            ("verdict", self._verdict),
        )
        drops = tables.cells_of(
            self.drops,
            ("method", lambda line: line.method),
            ("metric", lambda line: tables.metric_with_arrow(line.metric, line.higher_is_better)),
            ("mean", lambda line: tables.number(line.value)),
            ("before", lambda line: tables.number(line.value_against)),
            ("difference", lambda line: tables.signed(line.difference)),
            ("95 % interval", lambda line: tables.interval(line.low, line.high, line.n, tables.signed)),
            ("n", lambda line: str(line.n)),
            ("allowed", lambda line: line.what),
            ("verdict", lambda line: line.verdict),
        )
        return [table for table, lines in ((bars, self.lines), (drops, self.drops)) if lines]

    def _verdict(self, line: AuditLine) -> str:
        if line in self.lines:
            return line.verdict
        return f"control: {'reaches' if line.passes else 'misses'} it"

    def records(self) -> list[dict[str, object]]:
        return [asdict(line) for line in (*self.lines, *self.controls, *self.drops)]

    def record(self) -> dict[str, object]:
        return {"passes": self.passes, **asdict(self)}


def audit(
    results: Results,
    *,
    min_completeness: float | None = None,
    min_soundness: float | None = None,
    min_best_effort: float | None = None,
    bars: Mapping[str, float] | None = None,
    methods: str | Sequence[str] | None = None,
    use: Use = "mean",
    against: Results | None = None,
    max_drop: float | Mapping[str, float] | None = None,
) -> AuditResult:
    """Compare the scores of methods with bars, with another evaluation, or with both. Every control must miss at least one bar.

    The controls are the noise in the evaluation: ``random``, ``centered-gaussian`` and ``edges``. A control that ``methods`` names,
    or that was judged without other methods, must reach the bars like any other method. The rows ``blurred:METHOD`` and
    ``top-label:METHOD`` are left out, unless ``methods`` names them.

    Args:
        min_completeness, min_soundness, min_best_effort: bars of the first score of this kind, whatever its name. If the methods were
            judged with several fills, the score of every fill must reach the bar.
        bars: more bars by the name of a score, such as ``"soundness (gray)"``: a minimum if higher is better, a maximum if lower is better.
        methods: names of the methods to audit; by default all methods that are not controls.
        use: ``"mean"`` compares the mean over images with the bar; ``"interval"`` requires that the whole 95 % interval
            is on the good side, so that few images cannot pass by luck. Equal values of fewer than 20 images have no interval and fail. A score
            that counts no image fails.
        against: another evaluation of the same images, such as that of yesterday's net. A drop is the mean difference over the images
            that both evaluations count.
        max_drop: how much any score may get worse; or a limit for each named score, in which case only these scores are checked.
    """
    evaluation, before = evaluation_of(results), None if against is None else evaluation_of(against)
    if use not in get_args(Use):
        raise InputError(f"use must be one of {', '.join(get_args(Use))}, not {use!r}")
    kinds = {COMPLETENESS: min_completeness, SOUNDNESS: min_soundness, BEST_EFFORT: min_best_effort}
    asked = {**{kind: bar for kind, bar in kinds.items() if bar is not None}, **(bars or {})}
    if (before is None) != (max_drop is None):
        raise InputError(
            "against (another evaluation) and max_drop (how much a score may fall) belong together: give both, or neither"
        )
    if not asked and before is None:
        raise InputError(
            "an audit needs a bar, such as min_completeness=0.8, or another evaluation: against, max_drop"
        )
    for what, bar in asked.items():
        if not math.isfinite(bar):
            raise InputError(f"the bar of {what} must be a number, not {bar}")
    roles = {result.name: role_of(result, evaluation.results) for result in evaluation.results}
    named = methods is not None
    methods = [methods] if isinstance(methods, str) else methods
    if methods is None:
        methods = [name for name, role in roles.items() if role == "method"] or list(roles)
    chosen = [evaluation[name] for name in methods]
    held = [result.name for result in chosen]
    noise = [r for r in evaluation.results if roles[r.name] == "noise" and r.name not in held]

    def lines(of: Sequence[MethodResult]) -> tuple[AuditLine, ...]:
        found: list[AuditLine] = []
        for result in of:  # a bar of a score goes before that of its kind
            own = {name: bar for what, bar in asked.items() for name in _score_names(result, what, bars)}
            found += [_line(result, metric, bar, use) for metric, bar in own.items()]
        return tuple(found)

    result = AuditResult(lines(chosen), use, (), lines(noise))
    notes = [*_control_notes(result), *(_explained(evaluation, held) if asked else [])]
    if before is not None and max_drop is not None:
        # by default the methods of both evaluations: a method that is missing in one must not pass
        if not named:
            held += [
                r.name
                for r in before.results
                if role_of(r, before.results) == "method" and r.name not in held
            ]
        result = replace(result, drops=tuple(_drops(evaluation, before, max_drop, held, use)))
        notes += _how_runs_differ(evaluation, before)
    return replace(result, notes=tuple(notes))


def _control_notes(result: AuditResult) -> list[str]:
    """A note on whether controls reach the bars."""
    if too_good := result.too_good:
        reach = "the controls {} reach" if len(too_good) > 1 else "the control {} reaches"
        return [
            f"{reach.format(' and '.join(too_good))} every bar: maps that know nothing of the net pass, so these bars prove nothing. Ask for "
            "completeness and best effort as well as soundness, raise the bars, and check the net's mean, std and weights"
        ]
    if result.controls:
        return ["a control knows nothing of the net, so it must miss at least one bar; each does"]
    unknown = "no control was judged, so it is not known whether noise would pass; judge controls too: evaluate --controls"
    return [unknown] if result.lines else []


def _score_names(result: MethodResult, asked: str, named: Mapping[str, float] | None) -> list[str]:
    """The scores to compare with a bar: the one that is ``named``, or that of each fill of the kind that is asked for."""
    if asked in (named or {}):
        return [asked]
    if found := result.first_scores(asked):
        return [score.name for score in found.values()]
    there = ", ".join(s.name for s in result.scores)
    raise InputError(f"{result.name} was not judged by {asked}; there are {there}")


def _explained(evaluation: Evaluation, methods: Sequence[str]) -> list[str]:
    """Notes on soundness, for each fill."""
    views = evaluation.by_fill()
    if len(views) < 2:
        return soundness_notes(evaluation, methods)
    return [
        f"with the fill {fill}, {note}"
        for fill, view in views.items()
        for note in soundness_notes(view, methods)
    ]


def _line(result: MethodResult, metric: str, bar: float, use: Use) -> AuditLine:
    score = result.score(metric)
    up = 1 if score.higher_is_better else -1
    judged = score.value if use == "mean" else score.low if score.higher_is_better else score.high
    reason = ""
    if math.isnan(score.value):
        reason = "no image counts"
    elif math.isnan(judged):
        reason = "one image has no interval"
    elif up * judged < up * bar:
        what = "the mean" if use == "mean" else "the interval's end"
        reason = f"{what} is {judged:.4f}"
    elif use == "interval" and score.low == score.high and score.n < ENOUGH:
        reason = f"{counted(score.n, 'equal value')} give no interval; {ENOUGH} are needed"
    numbers = (bar, score.value, score.low, score.high, score.n)
    return AuditLine(result.name, metric, score.higher_is_better, *numbers, reason, not reason)


# ---- drops ---------------------------------------------------------------------------------------------------


def _drops(
    evaluation: Evaluation,
    against: Evaluation,
    max_drop: float | Mapping[str, float],
    methods: Sequence[str],
    use: Use,
) -> Iterator[AuditLine]:
    """One :class:`AuditLine` per method and metric, for methods that were judged in both evaluations by the same metrics and settings."""
    limits = dict(max_drop) if isinstance(max_drop, Mapping) else {"": float(max_drop)}
    for what, limit in limits.items():
        if not (math.isfinite(limit) and limit >= 0):
            raise InputError(
                f"the allowed drop of {what or 'a score'} must be a number of at least 0, not {limit}"
            )
    runs = {"the other run": against, "this run": evaluation}
    for name in methods:
        for where, run in runs.items():
            if name not in (there := [result.name for result in run.results]):
                raise InputError(
                    f"{where} has no method {name!r}, only {', '.join(there)}; judge it there too, or name the methods to check: "
                    "--methods METHOD"
                )
        pair = {where: run.replaced(results=(run[name],)) for where, run in runs.items()}
        scores = [score.name for run in runs.values() for score in run[name].scores]
        metrics = [metric for metric in limits if metric] or list(dict.fromkeys(scores))
        for d in compare(pair, metrics=metrics, allow_mismatch="net").differences:
            limit = limits.get(d.metric, limits.get("", 0.0))
            yield _drop(name, d, limit, use, counted_before=against[name].score(d.metric).n > 0)


def _drop(method: str, d: Difference, limit: float, use: Use, *, counted_before: bool) -> AuditLine:
    """The line of one difference. A score that counted no image in the other run cannot drop, so it passes."""
    up = 1 if d.higher_is_better else -1
    judged = up * (d.difference if use == "mean" else d.low if d.higher_is_better else d.high)
    reason = ""
    if d.n == 0:
        reason = "no image counts in both runs" if counted_before else ""
    elif math.isnan(judged):
        reason = "one image has no interval"
    elif judged < -limit - _ROUNDING:
        by = "" if use == "mean" else "by the interval's end it is "
        reason = f"{by}worse by {-judged:.4f}"
    numbers = (limit, d.value, d.low, d.high, d.n, reason, not reason, True, d.baseline_value, d.difference)
    return AuditLine(method, d.metric, d.higher_is_better, *numbers)


def _how_runs_differ(evaluation: Evaluation, against: Evaluation) -> list[str]:
    """Notes on how the two runs differ."""
    ours, theirs, notes = evaluation.settings, against.settings, []
    if ours.get("fingerprint") != theirs.get("fingerprint"):
        notes.append(
            f"the nets differ: {ours.get('model')} now, {theirs.get('model')} before, by weights or code"
        )
    n, m = len(evaluation), len(against)
    both = len({*evaluation.image_names} & {*against.image_names})
    if not both == n == m:
        notes.append(
            f"{counted(both, evaluation.inputs.singular)} in both runs, of {n} now and {m} before; only these count"
        )
    return notes
