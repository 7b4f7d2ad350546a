"""Figures of sanity checks, which randomise layers of the net: similarity curves of each method's maps, and the maps themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import one_line
from proofmap.report.figures.drawing import (
    COLOURS,
    MARKERS,
    SOFT,
    WIDTH,
    Figure,
    escaped,
    legend_below,
    legend_height,
)
from proofmap.results.randomisation import BAR, SanityChecks


@dataclass(frozen=True)
class SanityCurve:
    """The similarity curve of one method for one order in which layers are randomised.

    ``values`` are the similarities after the numbers ``drawn`` of layers were randomised; ``low`` and ``high`` are the ends of their 95 %
    intervals.
    """

    method: str
    order: str
    drawn: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class SanityFigure(Figure):
    """The figure of similarity curves, with one panel for each order in which layers are randomised. ``of`` is the number of all layers."""

    name = "sanity"
    measure: str
    of: int
    curves: tuple[SanityCurve, ...]
    settings: str

    @property
    def orders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(curve.order for curve in self.curves))

    def caption(self) -> str:
        return (
            f"Similarity ({self.measure}) of maps with those of the net after layers were randomised; bands are 95 % intervals over "
            "images. A line that stays up belongs to maps that do not depend on what the net has learned; the dotted line is the bar "
            f"of the verdict, {BAR:g}. In a panel of independent layers each mark is one group of layers alone, from the output to the "
            f"input. {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        methods = list(dict.fromkeys(curve.method for curve in self.curves))
        height = 2.3 + legend_height(len(methods))
        figure, axes = plt.subplots(1, len(self.orders), figsize=(WIDTH, height), sharey=True, squeeze=False)
        handles: dict[str, Any] = {}
        for axis, order in zip(axes[0], self.orders, strict=True):
            alone = order == "independent"
            for curve in (c for c in self.curves if c.order == order):
                k = methods.index(curve.method)
                start = () if alone else (1.0,)  # nothing randomised: the maps are themselves
                x = list(range(1, len(curve.drawn) + 1)) if alone else [0, *curve.drawn]
                values, low, high = ((*start, *v) for v in (curve.values, curve.low, curve.high))
                colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
                (handles[curve.method],) = axis.plot(x, values, color=colour, marker=marker, markersize=3.5)
                axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axis.axhline(BAR, color=SOFT, linewidth=0.6, linestyle=":")
            axis.axhline(0.0, color=SOFT, linewidth=0.4)
            axis.set_title(escaped(order))
            axis.set_xlabel("group, from the output" if alone else f"layers randomised, of {self.of}")
        axes[0][0].set(ylabel=f"similarity ({self.measure})", ylim=(-1.05 if self._falls() else -0.3, 1.05))
        legend_below(figure, list(handles.values()), [escaped(name) for name in handles])
        return figure

    def _falls(self) -> bool:
        """Whether some value is below -.3, so that the vertical axis must reach down to -1."""
        return any(v < -0.3 for curve in self.curves for v in (*curve.values, *curve.low))


def sanity_figure(checks: SanityChecks, *, measure: str = "rank") -> SanityFigure:
    """The figure of one similarity, ``measure``, from the results of sanity checks."""
    own = [line for line in checks.lines if line.measure == measure and line.order != "labels"]
    if not own:
        known = ", ".join(checks.measures)
        raise InputError(f"there is no {measure!r} of layers randomised to draw; there are {known}")
    curves = []
    for method, order in dict.fromkeys((line.method, line.order) for line in own):
        some = [line for line in own if (line.method, line.order) == (method, order)]
        curves.append(
            SanityCurve(
                method,
                order,
                tuple(line.drawn for line in some),
                tuple(line.value for line in some),
                tuple(line.low for line in some),
                tuple(line.high for line in some),
            )
        )
    return SanityFigure(measure, own[0].of, tuple(curves), one_line(f"Settings: {checks.notes[0]}."))
