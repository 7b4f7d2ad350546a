"""The result of a validation: what share of cases with a known answer each metric gets right, and when not to trust it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from proofmap.core.errors import InputError
from proofmap.core.files import suggest_path
from proofmap.results.statistics import Limits, doubles, mean_interval
from proofmap.results.tables import Cells, Tables, number, with_interval

Verdict = Literal["passes", "weak", "chance", "reversed", "unknown"]
BAR = 0.8
"""A metric that passes orders at least this share of the pairs rightly."""
NOTICED = 0.95
"""A step is noticed if this share of images is ordered rightly."""
KNOWN = ("ladder", "blind spots", "code")
"""The tests of metrics whose answer is known."""
_MOST_COMPARED = 8
"""The most metrics whose agreement is printed; records have that of all."""
_WORDS: Mapping[Verdict, str] = {
    "passes": "passes",
    "weak": "better than chance, but below .8",
    "chance": "cannot be told from chance",
    "reversed": "prefers the worse map",
    "unknown": "too few images",
}


@dataclass(frozen=True)
class Measured:
    """A mean over n images with its 95 % interval, in one test: ``of`` is a metric, a method or a fill, and ``step`` what was changed or asked."""

    test: str
    of: str
    step: str
    value: float
    low: float
    high: float
    n: int

    @classmethod
    def over(cls, test: str, of: str, step: str, values: ArrayLike, limits: Limits | None = None) -> Measured:
        """The mean of ``values`` ``(N,)``, one for each image; NaN does not count. Without ``limits`` the values are shares: see
        :func:`share_interval`."""
        known = doubles(values)
        known = known[~np.isnan(known)]
        low, high = share_interval(known) if limits is None else mean_interval(known, limits=limits)
        mean = float(known.mean()) if len(known) else math.nan
        return cls(test, of, step, mean, low, high, len(known))

    @property
    def verdict(self) -> Verdict:
        """``passes``: at least .8, and the interval lies above .5. ``weak``: only the second. ``reversed``: the interval lies below .5."""
        if math.isnan(self.low):
            return "unknown"
        if self.high < 0.5:
            return "reversed"
        if self.low <= 0.5:
            return "chance"
        return "passes" if self.value >= BAR else "weak"

    def __str__(self) -> str:
        return with_interval(self.value, self.low, self.high, self.n)


def share_interval(values: ArrayLike) -> tuple[float, float]:
    """A 95 % interval of the mean of shares ``(N,)``, one for each image, each in [0, 1]. Of n images that are all at 0 or all at 1, the interval
    reaches as far as that of n independent trials: .025^(1/n).

    >>> [round(end, 3) for end in share_interval([1.0] * 24)]
    [0.858, 1.0]
    """
    shares = doubles(values)
    low, high = mean_interval(shares, limits=(0.0, 1.0))
    if len(shares) > 1 and low == high and low in (0.0, 1.0):
        reach = 0.025 ** (1 / len(shares))
        return (reach, 1.0) if low == 1.0 else (0.0, 1 - reach)
    return low, high


def rightly_ordered(better: ArrayLike, worse: ArrayLike, *, higher_is_better: bool) -> Any:
    """1 where a metric's value of the better map beats that of the worse one, 0 where it is beaten, .5 for equal values; NaN if one is NaN.

    >>> rightly_ordered([0.7, 0.2, 0.5], [0.4, 0.4, 0.5], higher_is_better=True)
    array([1. , 0. , 0.5])
    """
    ours, theirs = doubles(better), doubles(worse)
    gap = (ours - theirs) if higher_is_better else (theirs - ours)
    equal = np.abs(gap) <= 1e-6 * np.maximum(np.abs(ours), np.abs(theirs))
    return np.where(np.isnan(gap), np.nan, np.where(equal, 0.5, (gap > 0) * 1.0))


@dataclass(frozen=True)
class Validation(Tables):
    """How far metrics can be trusted on one net and data. Prints as tables; :meth:`sentences` say it in words.

    Attributes:
        lines: every number.
        metrics: the metrics that were tested, with the reason for each that was not.
        settings: the net, the number of images, labels, points, methods and the seed.
        notes: how to read the numbers.
    """

    lines: tuple[Measured, ...]
    metrics: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def find(self, test: str, of: str, step: str = "all") -> Measured | None:
        """The line of a test, or None if it was not made."""
        return next((x for x in self.lines if (x.test, x.of, x.step) == (test, of, step)), None)

    def known(self, metric: str) -> dict[str, Measured]:
        """The lines of the tests with a known answer."""
        found = {test: self.find(test, metric) for test in KNOWN}
        return {test: line for test, line in found.items() if line is not None}

    def verdict(self, metric: str) -> Verdict:
        """The worst verdict of the tests with a known answer."""
        order: tuple[Verdict, ...] = ("reversed", "chance", "unknown", "weak", "passes")
        found = [line.verdict for line in self.known(metric).values()]
        return min(found, key=order.index, default="unknown")

    def noticed(self, metric: str, kind: str = "shuffled") -> str:
        """The smallest step of a kind that is noticed in 95 % of images, such as ``20 %``; ``none``."""
        steps = [x for x in self.lines if (x.test, x.of) == ("ladder", metric) and x.step.startswith(kind)]
        return next((x.step.removeprefix(kind).strip() for x in steps if x.value >= NOTICED), "none")

    def short(self, metric: str) -> str:
        """One figure to stand beside a score: the share of pairs with a known answer that the metric orders rightly, such as ``94 % [91, 96]``."""
        line = self.find("all known", metric)
        if line is None or math.isnan(line.value):
            return ""
        return f"{100 * line.value:.0f} % [{100 * line.low:.0f}, {100 * line.high:.0f}]"

    def sentence(self, metric: str) -> str:
        """What to trust a metric with, in one sentence."""
        verdict, share = self.verdict(metric), self.short(metric)
        if not share:
            return f"{metric}: no pair has a known answer on these images."
        first = f"{metric} orders {share} of the pairs with a known answer rightly"
        failed = [test for test, line in self.known(metric).items() if line.verdict == verdict]
        where = ", ".join(failed[:-1]) + " and " * (len(failed) > 1) + "".join(failed[-1:])
        ending = {
            "passes": "it passes every test",
            "weak": f"do not read small differences into it: it is weak on {where}",
            "chance": f"do not trust it alone: on {where} it cannot be told from chance",
            "reversed": f"do not trust it alone: on {where} it prefers the worse map",
            "unknown": "there are too few images to say more",
        }[verdict]
        return f"{first}; {ending}."

    @property
    def tested(self) -> list[str]:
        return [name for name, reason in self.metrics.items() if not reason]

    def sentences(self) -> list[str]:
        """One sentence for each metric, those that fail first."""
        order = ("reversed", "chance", "unknown", "weak", "passes")
        found = sorted(self.tested, key=lambda name: order.index(self.verdict(name)))
        return [self.sentence(name) for name in found]

    def fill_advice(self) -> str:
        """Which fill to judge with on this net, and why: the first one, unless another gets more blind spots right and their intervals are apart.
        Empty if fills were not compared."""
        found = [x for x in self.lines if x.test == "fills and blind spots" and not math.isnan(x.low)]
        if len(found) < 2:
            return ""
        usual, best = found[0], max(found, key=lambda x: x.value)
        shares = f"{best.of} gets {best} of the blind spots right, and {usual.of} {usual}"
        if best.low > usual.high:
            return f"judge with the fill {best.of}: {shares}."
        return f"keep the fill {usual.of}: no other gets surely more blind spots right ({usual.of} {usual}; best {best.of} {best})."

    def tables(self) -> list[Cells]:
        """Metrics; methods; fills; agreement of metrics. Tables without rows are left out."""
        made = [self._metrics(), self._methods(), self._fills(), self._agreement()]
        return [(header, rows) for header, rows in made if rows and len(header) > 1]

    def _metrics(self) -> Cells:
        tests = [test for test in KNOWN if any(self.find(test, name) for name in self.tested)]
        header = ["metric", *tests, "shuffle noticed", "least difference", "images for .05", "verdict"]
        rows = []
        for name in self.tested:
            noise = self.find("noise", name, "least difference"), self.find("noise", name, "images for .05")
            known = [self._cell(test, name) for test in tests]
            numbers = [
                "" if x is None else f"{x.value:.2g}" if k == 0 else f"{x.value:.0f}"
                for k, x in enumerate(noise)
            ]
            rows.append([name, *known, self.noticed(name), *numbers, _WORDS[self.verdict(name)]])
        return header, rows

    def _methods(self) -> Cells:
        tests = ("blind spots of methods", "outline", "off the data")
        columns = list(dict.fromkeys((x.test, x.step) for x in self.lines if x.test in tests[:2]))
        names = list(dict.fromkeys(x.of for x in self.lines if x.test in tests[:2]))
        header = ["method", *(f"{step} blind" if test == tests[0] else "outline" for test, step in columns)]
        return header, [[name, *(self._cell(test, name, step) for test, step in columns)] for name in names]

    def _fills(self) -> Cells:
        orders = [x for x in self.lines if x.test == "fills"]
        names = list(dict.fromkeys(x.of for x in orders))
        rows = []
        for name in names:
            cells = [
                self._cell("fills", name, f"against {other}") if other != name else "" for other in names
            ]
            rows.append(
                [name, *cells, self._cell("fills and blind spots", name), self._cell("off the data", name)]
            )
        return ["fill", *(f"opposite to {name}" for name in names), "blind spots", "off the data"], rows

    def _agreement(self) -> Cells:
        lines = {(x.of, x.step): number(x.value) for x in self.lines if x.test == "agreement"}
        rows = [[a, *(lines.get((a, b), "") for b in self.tested)] for a in self.tested]
        return ["agreement", *self.tested], rows if lines and len(rows) <= _MOST_COMPARED else []

    def _cell(self, test: str, of: str, step: str = "all") -> str:
        line = self.find(test, of, step)
        return "" if line is None else str(line)

    def footer(self) -> list[str]:
        untested = [f"not tested: {name} ({reason})" for name, reason in self.metrics.items() if reason]
        return [*self.sentences(), *filter(None, [self.fill_advice()]), *untested]

    def records(self) -> list[dict[str, object]]:
        return [asdict(line) for line in self.lines]

    def record(self) -> dict[str, object]:
        verdicts = {name: {"verdict": self.verdict(name), "share": self.short(name)} for name in self.tested}
        return {
            **asdict(self),
            "verdicts": verdicts,
            "sentences": self.sentences(),
            "fill": self.fill_advice(),
        }

    @classmethod
    def load(cls, path: str | Path) -> Validation:
        """The validation that :meth:`json` was written of."""
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
            lines = tuple(_read(line) for line in record["lines"])
            return cls(lines, dict(record["metrics"]), dict(record["settings"]), tuple(record["notes"]))
        except FileNotFoundError:
            raise InputError(f"there is no validation at {path}.{suggest_path(Path(path))}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not the JSON file of a validation: {error}") from None


def pooled(test: str, of: str, step: str, columns: Sequence[ArrayLike]) -> Measured:
    """The share over several columns of outcomes ``(N,)``: the mean of each image's outcomes, then over images."""
    table = np.stack([doubles(column) for column in columns], axis=1)
    counted = ~np.isnan(table)
    total = np.where(counted, table, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return Measured.over(test, of, step, total / counted.sum(axis=1))


def _read(record: Mapping[str, Any]) -> Measured:
    """A line from its record, in which null stands for NaN."""
    known: dict[str, Any] = {key: math.nan if value is None else value for key, value in record.items()}
    return Measured(**known)
