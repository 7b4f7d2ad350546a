"""What is left of maps when layers are drawn anew: similarity against layers, a line for each method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from proofmap.core.errors import InputError
from proofmap.core.text import one_line
from proofmap.report.figures.drawing import COLOURS, MARKERS, SOFT, WIDTH, Figure, escaped, legend_below
from proofmap.results.randomisation import BAR, SanityChecks


@dataclass(frozen=True)
class SanityCurve:
    """One method and one order: how many layers were drawn anew, and the similarity with its interval."""

    method: str
    order: str
    drawn: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class SanityFigure(Figure):
    """A panel for each order."""

    name: ClassVar[str] = "sanity"
    measure: str
    of: int
    curves: tuple[SanityCurve, ...]
    settings: str

    @property
    def orders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(curve.order for curve in self.curves))

    def caption(self) -> str:
        return (
            f"Similarity ({self.measure}) of maps with those of the net after layers were drawn anew; bands are 95 % intervals over "
            "images. A line that stays up belongs to maps that do not depend on what the net has learned; the dotted line is the bar "
            f"of the verdict, {BAR:g}. In a panel of independent layers each mark is one group of layers alone, from the output to the "
            f"input. {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        methods = list(dict.fromkeys(curve.method for curve in self.curves))
        height = 2.3 + 0.16 * -(-len(methods) // 2)
        figure, axes = plt.subplots(1, len(self.orders), figsize=(WIDTH, height), sharey=True, squeeze=False)
        handles: dict[str, Any] = {}
        for axis, order in zip(axes[0], self.orders, strict=True):
            alone = order == "independent"
            for curve in (c for c in self.curves if c.order == order):
                k = methods.index(curve.method)
                start = () if alone else (1.0,)  # nothing drawn anew: the maps are themselves
                x = list(range(1, len(curve.drawn) + 1)) if alone else [0, *curve.drawn]
                values, low, high = ((*start, *v) for v in (curve.values, curve.low, curve.high))
                colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
                (handles[curve.method],) = axis.plot(x, values, color=colour, marker=marker, markersize=3.5)
                axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axis.axhline(BAR, color=SOFT, linewidth=0.6, linestyle=":")
            axis.axhline(0.0, color=SOFT, linewidth=0.4)
            axis.set_title(escaped(order))
            axis.set_xlabel("group, from the output" if alone else f"layers drawn anew, of {self.of}")
        axes[0][0].set(ylabel=f"similarity ({self.measure})", ylim=(-1.05 if self._falls() else -0.3, 1.05))
        legend_below(figure, list(handles.values()), [escaped(name) for name in handles])
        return figure

    def _falls(self) -> bool:
        """Whether a value is far below zero."""
        return any(v < -0.3 for curve in self.curves for v in (*curve.values, *curve.low))


def sanity_figure(checks: SanityChecks, *, measure: str = "rank") -> SanityFigure:
    """The record of a figure of one similarity."""
    own = [line for line in checks.lines if line.measure == measure and line.order != "labels"]
    if not own:
        known = ", ".join(checks.measures)
        raise InputError(f"there is no {measure!r} of layers drawn anew to draw; there are {known}")
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
