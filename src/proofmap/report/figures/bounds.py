"""The figure of the areas that maps can reach: for every (image, label) pair the weakest and strongest proof found, f, and each method's area.

An area is the area under the insertion curve (AUC) of a map. f is the net's probability of the label. See :mod:`proofmap.results.bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from proofmap.core.text import counted, short_names
from proofmap.report.figures.drawing import (
    COLOURS,
    INK,
    MARKERS,
    WIDTH,
    Figure,
    escaped,
    evaluation_settings,
    legend_below,
    legend_height,
)
from proofmap.report.figures.scatter import LONGEST
from proofmap.results.bounds import reach
from proofmap.results.evaluation import Evaluation
from proofmap.results.tables import number

MOST_COLUMNS, MOST_METHODS = 30, 7
_LEAST_FLOOR = 1e-4
_WIDE, _ROOM = 0.86, 0.72
"""The width of a gray bar, and the width over which the methods' marks are spread, as shares of a column."""


@dataclass(frozen=True)
class Marks:
    """The marks of one method: its median area in each column, with the lower and upper quartile if a column has several pairs."""

    method: str
    label_free: bool
    areas: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class BoundsFigure(Figure):
    """The figure's columns in the order of f. A column shows one pair, or the medians of several pairs. Values below ``floor`` are drawn at the
    floor."""

    name = "bounds"
    f: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    marks: tuple[Marks, ...]
    pairs: int
    floor: float
    left_out: str
    settings: str

    @property
    def is_grouped(self) -> bool:
        """Whether columns show several pairs each."""
        return self.pairs > len(self.f)

    def caption(self) -> str:
        column = (
            f"{counted(self.pairs, 'pair')} in {len(self.f)} columns of equal numbers by growing f; everything is a median "
            "over a column, thin coloured lines span the middle half"
            if self.is_grouped
            else f"{counted(self.pairs, 'pair')} by growing f"
        )
        hollow = " Hollow: one map for all labels." if any(m.label_free for m in self.marks) else ""
        return (
            f"Insertion areas (AUC) of each pair of an image and a label: {column}. Gray bars go from the weakest to the "
            "strongest proof that was found, which is no proof that none goes farther; dashes are f. A mark above its dash is "
            f"unsound, below it incomplete; a dash outside its bar could not be matched by any map that was tried.{self._edge()}"
            f"{hollow} {self.left_out}{self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(WIDTH, 2.6 + legend_height(2 + len(self.marks))))
        x = np.arange(len(self.f))
        low, high = self._shown(self.low), self._shown(self.high)
        reached = axis.bar(x, high - low, bottom=low, width=_WIDE, color="0.91")
        believed = axis.hlines(self._shown(self.f), x - _WIDE / 2, x + _WIDE / 2, color=INK, linewidth=1.0)
        places = _places(len(self.marks))
        drawn = [self._mark(axis, k, x + places[k]) for k in range(len(self.marks))]
        axis.set_yscale("log")
        axis.set(xlim=(-0.7, len(self.f) - 0.3), ylim=(0.8 * self._bottom(), 1.25), ylabel="area (AUC)")
        ticks = _ticks(self._bottom())
        axis.set_yticks(ticks, [f"{tick:g}".removeprefix("0") for tick in ticks])
        axis.minorticks_off()
        axis.set_xticks([])
        axis.set_xlabel("pairs of an image and a label, by growing f")
        names = ["from the weakest to the strongest proof found", "f, what the net believes"]
        legend_below(
            figure,
            [reached, believed, *drawn],
            [*names, *map(escaped, short_names([m.method for m in self.marks], LONGEST))],
        )
        return figure

    def _mark(self, axis: Any, k: int, x: np.ndarray) -> Any:
        marks, colour = self.marks[k], COLOURS[k % len(COLOURS)]
        if self.is_grouped:
            axis.vlines(
                x, self._shown(marks.low), self._shown(marks.high), color=(colour, 0.45), linewidth=0.8
            )
        (line,) = axis.plot(
            x,
            self._shown(marks.areas),
            linestyle="none",
            marker=MARKERS[k % len(MARKERS)],
            markersize=3.2,
            markeredgewidth=0.7,
            markerfacecolor="white" if marks.label_free else colour,
            color=colour,
            zorder=4,
        )
        return line

    def _edge(self) -> str:
        """A sentence for the caption if some values are below the floor; otherwise empty."""
        cut = self._least() < self.floor
        return f" Values below {number(self.floor)} stand at the lower edge." if cut else ""

    def _bottom(self) -> float:
        """The smallest value that is drawn."""
        return max(self._least(), self.floor)

    def _least(self) -> float:
        smallest = [self.f, self.low, *(values for m in self.marks for values in (m.areas, m.low))]
        return float(np.nanmin(smallest))

    def _shown(self, values: tuple[float, ...]) -> np.ndarray:
        """The values as they are drawn, with values below the floor raised to it."""
        shown: np.ndarray = np.maximum(np.array(values), self.floor)
        return shown


def bounds_figure(evaluation: Evaluation) -> BoundsFigure:
    """The figure of all pairs with both bounds, in the order of f. More than 30 pairs are drawn as medians of 30 groups."""
    found = reach(evaluation)
    there = ~found.low.isnan()
    f = found.f[there]
    order = f.argsort(stable=True)
    groups = order.tensor_split(min(MOST_COLUMNS, len(order)))

    def quantiles(values: Tensor, share: float = 0.5) -> tuple[float, ...]:
        chosen = values[there]
        return tuple(float(chosen[group].nanquantile(share)) for group in groups)

    shown = found.others[:MOST_METHODS]
    marks = []
    for result in shown:
        areas = found.areas(result)
        spread = quantiles(areas), quantiles(areas, 0.25), quantiles(areas, 0.75)
        marks.append(Marks(result.name, result.label_free, *spread))
    return BoundsFigure(
        f=quantiles(found.f),
        low=quantiles(found.low),
        high=quantiles(found.high),
        marks=tuple(marks),
        pairs=len(f),
        floor=max(min(found.e1, found.e2) / 2, _LEAST_FLOOR),
        left_out=f"Shown: {len(shown)} of {counted(len(found.others), 'method')}. "
        if len(shown) < len(found.others)
        else "",
        settings=evaluation_settings(evaluation),
    )


def _places(n: int) -> np.ndarray:
    """The horizontal offsets ``(n,)`` of the marks of n methods from the middle of their column."""
    places: np.ndarray = _ROOM * ((np.arange(n) + 0.5) / n - 0.5)
    return places


def _ticks(bottom: float) -> list[float]:
    """The ticks of the vertical axis: powers of ten from 1 down to ``bottom``, with 2 and 5 between them if there are few."""
    few = bottom > 0.03
    steps = [step * 10.0**-k for k in range(5) for step in ((1, 0.5, 0.2) if few else (1,))]
    return [tick for tick in steps if tick >= 0.99 * bottom]
