"""Results of sanity checks, as records and tables: how similar maps are before and after layers of the net are randomised, and a verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from proofmap.core.errors import InputError
from proofmap.results import tables
from proofmap.results.tables import Cells, Tables

Order = Literal["cascading", "bottom-up", "independent", "last", "labels"]
Verdict = Literal["passes", "fails", "undecided"]

BAR = 0.5
"""If maps correlate more than this with the maps of a randomised net, they hardly depend on what the net has learned."""
_DECISIVE = ("rank", "abs-rank")
"""The similarities that decide the verdict. SSIM is not among them: SSIM of smooth maps is high whatever they show."""
FLOOR = "other image"


@dataclass(frozen=True)
class SanityLine:
    """One similarity between a method's maps before and after some layers were randomised: the mean over n images with its 95 % interval.

    Attributes:
        order: the order in which layers are randomised. ``labels`` means a second net that was trained on shuffled labels.
        step: the number of groups of layers that were randomised, from 1.
        layers: the randomised layers, in words.
        drawn, of: the number of randomised layers, and the number of all layers.
        measure: ``rank``, ``abs-rank`` or ``ssim``.
    """

    method: str
    order: Order
    step: int
    layers: str
    drawn: int
    of: int
    measure: str
    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return tables.with_interval(self.value, self.low, self.high, self.n)


@dataclass(frozen=True)
class SanityChecks(Tables):
    """The results of sanity checks of several methods. Prints as two tables.

    Attributes:
        lines: one similarity per method, order, step and measure.
        floors: the same similarities between maps of two different images, on the unchanged net. They show how similar any two maps of a
            method are. ``order`` has no meaning here.
        notes: how to read the numbers.
    """

    lines: tuple[SanityLine, ...]
    floors: tuple[SanityLine, ...]
    notes: tuple[str, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.method for line in self.lines))

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.measure for line in self.lines))

    def find(self, method: str, order: Order, step: int, measure: str) -> SanityLine:
        for line in self.lines:
            if (line.method, line.order, line.step, line.measure) == (method, order, step, measure):
                return line
        raise InputError(f"there is no {measure} of {method!r} at step {step} of {order}")

    def verdicts(self) -> dict[str, tuple[Verdict, str]]:
        """The verdict on each method and its reason: do the method's maps depend on what the net has learned?

        A verdict uses the lines with the most layers randomised, and those of a net trained on shuffled labels. It is ``passes`` if the
        interval of every rank correlation lies below .5, ``fails`` if the interval of at least one lies above .5, and otherwise
        ``undecided``. A single image has no interval: its value is compared.
        """
        return {method: self._verdict(method) for method in self.methods}

    def _verdict(self, method: str) -> tuple[Verdict, str]:
        own = [line for line in self.lines if line.method == method and line.measure in _DECISIVE]
        most = max((line.drawn for line in own), default=0)
        deciding = [line for line in own if line.drawn == most or line.order == "labels"]
        deciding = [line for line in deciding if not math.isnan(line.value)]
        if not deciding:
            return "undecided", "no rank correlation was measured"
        highest = max(deciding, key=lambda line: line.value)
        what = f"{highest.measure} {highest} after {highest.layers}"
        if any((line.value if math.isnan(line.low) else line.low) > BAR for line in deciding):
            return "fails", f"the maps hardly depend on what was learned: {what}"
        if all((line.value if math.isnan(line.high) else line.high) < BAR for line in deciding):
            return "passes", what
        return "undecided", f"{what}; more of them may tell"

    def tables(self) -> list[Cells]:
        """Header and rows of two tables: the similarities of every step, with the floors; and the verdicts."""
        rows = []
        for method in self.methods:
            steps = dict.fromkeys((a.order, a.step, a.layers) for a in self.lines if a.method == method)
            for order, step, layers in steps:
                cells = [str(self.find(method, order, step, measure)) for measure in self.measures]
                rows.append([method, order, layers, *cells])
            floor = {line.measure: str(line) for line in self.floors if line.method == method}
            if floor:
                rows.append([method, FLOOR, "nothing", *(floor.get(m, "") for m in self.measures)])
        verdicts = [[method, *found] for method, found in self.verdicts().items()]
        return [
            (["method", "order", "what was randomised", *self.measures], rows),
            (["method", "verdict", "why"], verdicts),
        ]

    def records(self) -> list[dict[str, object]]:
        return [*map(asdict, self.lines), *({**asdict(f), "order": FLOOR} for f in self.floors)]

    def record(self) -> dict[str, object]:
        keys = ("method", "verdict", "reason")
        verdicts = [dict(zip(keys, (name, *found), strict=True)) for name, found in self.verdicts().items()]
        return {"verdicts": verdicts, **asdict(self)}
