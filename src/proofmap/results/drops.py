"""Did scores drop since another run? Compares paired differences, over the images of both runs, with the largest drop allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.results import tables
from proofmap.results.compare import Difference, compare, signed
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult, setting_text

SAME_IN_BOTH = ("labels", "label_set", "renormalise", "outputs")
"""Settings of an evaluation that must be equal in both runs. The net and its preprocessing may differ."""
OF_THE_NET = ("color",)
"""Settings of a score that depend on the net and may therefore differ, such as the gray of a fill."""
ROUNDING = 1e-6
"""Tolerance for float32: a drop of exactly the limit passes."""

Use = Literal["mean", "interval"]
"""What is compared with a bar: the ``mean`` over images, or the whole 95 % ``interval`` (the worse of its two ends)."""


@dataclass(frozen=True)
class DropLine:
    """The paired change of one score since another run, and whether it stays within the largest drop allowed."""

    method: str
    metric: str
    higher_is_better: bool
    max_drop: float
    value: float
    """The mean over the images that both runs count."""
    value_against: float
    """The other run's mean over the same images."""
    difference: float
    low: float
    high: float
    n: int
    passes: bool
    reason: str

    @property
    def bar(self) -> str:
        """The allowed change as text, such as ``-0.05 at most``."""
        return f"{'-' if self.higher_is_better else '+'}{self.max_drop:g} at most"

    @property
    def verdict(self) -> str:
        if self.passes:
            return f"passes{'' if self.n else ': it counted nothing before'}"
        return f"fails: {self.reason}"


def drop_cells(lines: Sequence[DropLine]) -> tables.Cells:
    """Header and one row of cells per :class:`DropLine`."""
    return tables.cells_of(
        lines,
        ("method", lambda d: d.method),
        ("metric", lambda d: tables.metric_with_arrow(d.metric, d.higher_is_better)),
        ("mean", lambda d: tables.number(d.value)),
        ("before", lambda d: tables.number(d.value_against)),
        ("difference", lambda d: signed(d.difference)),
        ("95 % interval", lambda d: tables.interval(d.low, d.high, d.n, signed)),
        ("n", lambda d: str(d.n)),
        ("allowed", lambda d: d.bar),
        ("verdict", lambda d: d.verdict),
    )


def find_drops(
    evaluation: Evaluation,
    against: Evaluation,
    max_drop: float | Mapping[str, float],
    methods: Sequence[str],
    use: Use = "mean",
) -> tuple[tuple[DropLine, ...], tuple[str, ...]]:
    """One :class:`DropLine` per method and metric, and notes on how the two runs differ.

    Args:
        against: the earlier evaluation.
        max_drop: how much any score may get worse; or a limit for each named score, in which case only these scores are checked.
        methods: names of methods in both evaluations, judged by the same metrics with the same settings.
        use: whether the mean or the whole 95 % interval of the change is compared with the limit.
    """
    limits = dict(max_drop) if isinstance(max_drop, Mapping) else {"": float(max_drop)}
    for what, limit in limits.items():
        if not (math.isfinite(limit) and limit >= 0):
            raise InputError(
                f"the allowed drop of {what or 'a score'} must be a number of at least 0, not {limit}"
            )
    if not (methods and limits):
        raise InputError("there is nothing to compare with the other run: no method, or no score")
    _check_same_settings(evaluation, against)
    lines = []
    for name in methods:
        now, before = _result(evaluation, name, "this run"), _result(against, name, "the other run")
        pair = {"before": against.replaced(results=(before,)), "now": evaluation.replaced(results=(now,))}
        metrics = _metrics(now, before, [metric for metric in limits if metric])
        for d in compare(pair, metrics=metrics, allow_mismatch=True).differences:
            counted_before = not np.isnan(before.arrays("values")[d.metric]).all()
            lines.append(_line(name, d, limits.get(d.metric, limits.get("", 0.0)), use, counted_before))
    return tuple(lines), tuple(_notes(evaluation, against, methods))


def _line(method: str, d: Difference, limit: float, use: Use, counted_before: bool) -> DropLine:
    """The :class:`DropLine` of one difference. A score that counted no image in the other run cannot drop, so it passes."""
    up = 1 if d.higher_is_better else -1
    end = d.low if d.higher_is_better else d.high
    judged = up * (d.difference if use == "mean" else end)
    if d.n == 0:
        reason = "no image counts in both runs" if counted_before else ""
    elif math.isnan(judged):
        reason = "one image has no interval"
    elif judged < -limit - ROUNDING:
        reason = (
            f"worse by {tables.decimals(-judged, 4)}"
            if use == "mean"
            else f"by the interval's end it is worse by {tables.decimals(-judged, 4)}"
        )
    else:
        reason = ""
    numbers = (limit, d.value, d.baseline_value, d.difference, d.low, d.high, d.n)
    return DropLine(method, d.metric, d.higher_is_better, *numbers, not reason, reason)


def _check_same_settings(evaluation: Evaluation, against: Evaluation) -> None:
    ours, theirs = evaluation.settings, against.settings
    for key in SAME_IN_BOTH:
        if key in ours and key in theirs and setting_text(ours[key]) != setting_text(theirs[key]):
            raise _other_settings(key, ours[key], theirs[key])


def _result(evaluation: Evaluation, name: str, where: str) -> MethodResult:
    found = next((result for result in evaluation.results if result.name == name), None)
    if found is None:
        there = ", ".join(result.name for result in evaluation.results)
        raise InputError(
            f"{where} has no method {name!r}, only {there}; judge it there too, or name the methods to check: --method METHOD"
        )
    return found


def _metrics(now: MethodResult, before: MethodResult, named: Sequence[str]) -> list[str]:
    """The metrics to check: the named ones, or all. Raises :class:`InputError` unless both runs have them with the same settings."""
    scores = {"this run": now.scores, "the other run": before.scores}
    wanted = list(named) or list(dict.fromkeys(s.name for there in scores.values() for s in there))
    for name in wanted:
        for where, there in scores.items():
            if name not in {score.name for score in there}:
                raise InputError(
                    f"{now.name} was not judged by {name} in {where}; judge it there too, or name the scores to check: "
                    "--max-drop METRIC=NUMBER"
                )
        a, b = now.score(name), before.score(name)
        if a.higher_is_better != b.higher_is_better:
            raise _other_settings(f"{name}, higher is better,", a.higher_is_better, b.higher_is_better)
        for key in sorted({*a.settings, *b.settings} - {*SAME_IN_BOTH, *OF_THE_NET}):
            if setting_text(a.settings.get(key)) != setting_text(b.settings.get(key)):
                raise _other_settings(f"{key} of {name}", a.settings.get(key), b.settings.get(key))
    return wanted


def _other_settings(what: str, here: object, there: object) -> InputError:
    return InputError(
        f"the two runs cannot be compared: {what} is {here} in this run and {there} in the other; use the same settings for both"
    )


def _notes(evaluation: Evaluation, against: Evaluation, methods: Sequence[str]) -> list[str]:
    """Notes on how the two runs differ."""
    ours, theirs = evaluation.settings, against.settings
    notes = []
    if ours.get("fingerprint") != theirs.get("fingerprint"):
        now, then = ours.get("model"), theirs.get("model")
        notes.append(
            f"the nets differ: {now} now, {then} before" + (", by weights or code" if now == then else "")
        )
    for name in methods:
        if setting_text(evaluation[name].settings) != setting_text(against[name].settings):
            notes.append(f"{name} has other settings or other code than before")
    n, m = len(evaluation), len(against)
    both = len({*evaluation.image_names} & {*against.image_names})
    if not both == n == m:
        notes.append(
            f"{counted(both, evaluation.inputs.singular)} in both runs, of {n} now and {m} before; only these count"
        )
    return notes
