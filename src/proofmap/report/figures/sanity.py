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
from proofmap.results.randomisation import BAR, SanityChecks, SanityLine


@dataclass(frozen=True)
class SanityFigure(Figure):
    """The figure of similarity curves, with one panel for each order in which layers are randomised. ``lines`` are the similarities by one
    measure."""

    name = "sanity"
    lines: tuple[SanityLine, ...]
    settings: str

    def caption(self) -> str:
        return (
            f"Similarity ({self.lines[0].measure}) of maps with those of the net after layers were randomised; bands are 95 % intervals over "
            "images. A line that stays up belongs to maps that do not depend on what the net has learned; the dotted line is the bar "
            f"of the verdict, {BAR:g}. In a panel of independent layers each mark is one group of layers alone, from the output to the "
            f"input. {self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        methods = list(dict.fromkeys(line.method for line in self.lines))
        orders = list(dict.fromkeys(line.order for line in self.lines))
        height = 2.3 + legend_height(len(methods))
        figure, axes = plt.subplots(1, len(orders), figsize=(WIDTH, height), sharey=True, squeeze=False)
        handles: dict[str, Any] = {}
        for axis, order in zip(axes[0], orders, strict=True):
            alone = order == "independent"
            for k, method in enumerate(methods):
                own = [line for line in self.lines if (line.method, line.order) == (method, order)]
                numbers = [(line.value, line.low, line.high) for line in own]
                start = [] if alone else [(1.0, 1.0, 1.0)]  # nothing randomised: the maps are themselves
                x = list(range(1, len(own) + 1)) if alone else [0, *(line.drawn for line in own)]
                values, low, high = zip(*start, *numbers, strict=True)
                colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
                (handles[method],) = axis.plot(x, values, color=colour, marker=marker, markersize=3.5)
                axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axis.axhline(BAR, color=SOFT, linewidth=0.6, linestyle=":")
            axis.axhline(0.0, color=SOFT, linewidth=0.4)
            axis.set_title(escaped(order))
            axis.set_xlabel(
                "group, from the output" if alone else f"layers randomised, of {self.lines[0].of}"
            )
        falls = any(v < -0.3 for line in self.lines for v in (line.value, line.low, line.high))
        axes[0][0].set(ylabel=f"similarity ({self.lines[0].measure})", ylim=(-1.05 if falls else -0.3, 1.05))
        legend_below(figure, list(handles.values()), [escaped(name) for name in handles])
        return figure


def sanity_figure(checks: SanityChecks, *, measure: str = "rank") -> SanityFigure:
    """The figure of one similarity, ``measure``, from the results of sanity checks."""
    own = [line for line in checks.lines if line.measure == measure and line.order != "labels"]
    if not own:
        known = ", ".join(checks.measures)
        raise InputError(f"there is no {measure!r} of layers randomised to draw; there are {known}")
    return SanityFigure(tuple(own), one_line(f"Settings: {checks.notes[0]}."))
