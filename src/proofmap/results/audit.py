"""Is a method good enough? Scores against bars, for pipelines that must stop when a proof is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from proofmap.core.errors import InputError
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.html_tables import table_html
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult

Use = Literal["mean", "interval"]
"""What must reach the bar: the ``mean`` over images, or the whole 95 % ``interval`` (its end nearer to failing)."""


@dataclass(frozen=True)
class AuditLine:
    """One method, one metric, one bar."""

    method: str
    metric: str
    higher_is_better: bool
    bar: float
    value: float
    low: float
    high: float
    n: int
    passes: bool
    reason: str

    def record(self) -> dict[str, object]:
        """The line as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class AuditResult:
    """Passes when every line does. Prints as a table."""

    lines: tuple[AuditLine, ...]
    use: Use

    @property
    def passes(self) -> bool:
        return all(line.passes for line in self.lines)

    @property
    def rule(self) -> str:
        """What was compared with the bars, in words."""
        return "the mean counts" if self.use == "mean" else "the whole 95 % interval counts"

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and one row of cells per method and bar."""
        rows = [
            [
                line.method,
                line.metric,
                tables.number(line.value),
                "-" if math.isnan(line.low) else f"[{tables.number(line.low)}, {tables.number(line.high)}]",
                str(line.n),
                f"{'>=' if line.higher_is_better else '<='} {line.bar:g}",
                "passes" if line.passes else f"fails: {line.reason}",
            ]
            for line in self.lines
        ]
        return ["method", "metric", "mean", "95 % interval", "n", "bar", "verdict"], rows

    def table(self) -> str:
        """Aligned text, ending in one line that says it all."""
        failed = sum(not line.passes for line in self.lines)
        verdict = "passed" if self.passes else f"failed: {failed} of {len(self.lines)} bars missed"
        return "\n".join([tables.aligned(*self.cells()), f"audit {verdict} ({self.rule})"])

    def markdown(self) -> str:
        return tables.markdown(*self.cells())

    def csv(self) -> str:
        return tables.records_csv([line.record() for line in self.lines])

    def json(self) -> str:
        """The verdict and every line; NaN becomes null."""
        record = {"passes": self.passes, "use": self.use, "lines": [line.record() for line in self.lines]}
        return tables.json_text(record)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return table_html(*self.cells(), [self.rule])


def audit(
    evaluation: Evaluation,
    *,
    min_completeness: float | None = None,
    min_soundness: float | None = None,
    min_best_effort: float | None = None,
    bars: Mapping[str, float] | None = None,
    method: str | Sequence[str] | None = None,
    use: Use = "mean",
) -> AuditResult:
    """Hold every method, or the named ones, against bars.

    Args:
        min_completeness, min_soundness, min_best_effort: for the first score of this kind, whatever its name.
        bars: more bars by the name of a score: a least value where higher is better, a greatest value where lower is.
        use: ``"mean"`` compares the mean over images with the bar; ``"interval"`` asks that the whole 95 % interval
            lies on the good side, so few images cannot pass by luck. A score that no image counts for fails.
    """
    if use not in get_args(Use):
        raise InputError(f"use must be one of {', '.join(get_args(Use))}, not {use!r}")
    asked = {COMPLETENESS: min_completeness, SOUNDNESS: min_soundness, BEST_EFFORT: min_best_effort}
    by_kind = {kind: bar for kind, bar in asked.items() if bar is not None}
    by_name = dict(bars or {})
    if not by_kind and not by_name:
        raise InputError("an audit needs a bar, such as min_completeness=0.8")
    for what, bar in [*by_kind.items(), *by_name.items()]:
        if not math.isfinite(bar):
            raise InputError(f"the bar of {what} must be a number, not {bar}")
    methods = [method] if isinstance(method, str) else method
    results = evaluation.results if methods is None else [evaluation[name] for name in methods]
    lines = []
    for result in results:
        own = {**{_score_name(result, kind): bar for kind, bar in by_kind.items()}, **by_name}
        lines += [_line(result, metric, bar, use) for metric, bar in own.items()]
    return AuditResult(tuple(lines), use)


def _score_name(result: MethodResult, kind: str) -> str:
    score = result.first_score(kind)
    if score is None:
        there = ", ".join(s.name for s in result.scores)
        raise InputError(f"{result.name} was not judged by {kind}; there are {there}")
    return score.name


def _line(result: MethodResult, metric: str, bar: float, use: Use) -> AuditLine:
    score = result.score(metric)
    nearer = score.low if score.higher_is_better else score.high
    judged = score.value if use == "mean" else nearer
    if math.isnan(score.value):
        reason = "no image counts"
    elif math.isnan(judged):
        reason = "one image has no interval"
    elif (judged < bar) if score.higher_is_better else (judged > bar):
        what = "the mean" if use == "mean" else "the interval's end"
        reason = f"{what} is {judged:.4f}"
    else:
        reason = ""
    numbers = (bar, score.value, score.low, score.high, score.n)
    return AuditLine(result.name, metric, score.higher_is_better, *numbers, not reason, reason)
