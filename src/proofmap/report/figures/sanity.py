"""Figures of sanity checks, which randomise layers of the net: similarity curves of each method's maps, and the maps themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from proofmap.classifier import Classifier
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
from proofmap.report.figures.grid import GridCell, GridFigure
from proofmap.report.pictures import overlay
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


def randomised_maps(
    classifier: Classifier,
    images: Tensor,
    labels: Tensor,
    maps: Mapping[str, tuple[Tensor, Tensor]],
    *,
    layers: str,
    settings: str,
) -> GridFigure:
    """The figure of maps before and after layers of the net were randomised. The maps are given.

    Args:
        labels: the label of each image, ``(N,)``.
        maps: for each method its maps ``(N, *positions)`` before and after the layers were randomised.
        layers: the randomised layers, in words.
        settings: the end of the caption.
    """
    inputs = classifier.inputs
    f = classifier.frozen().probabilities(images).gather(1, labels[:, None])[:, 0].tolist()
    rows = []
    for i, (label, p) in enumerate(zip(labels.tolist(), f, strict=True)):
        pictures = [
            GridCell.of(overlay(images[i], both[k][i], inputs)) for both in maps.values() for k in (0, 1)
        ]
        rows.append((GridCell.photo(images[i], inputs, classifier.names[label], p), *pictures))
    first, noun = tuple(1 + 2 * k for k in range(len(maps))), inputs.singular
    return GridFigure(
        name="randomised-maps",
        about=f"Maps of the top label of each {noun}: of the net as it is, and after {layers} was randomised. Maps that come from "
        f"what the net has learned fall apart. Below each {noun}: its top label and f.",
        headings=(noun, *(["trained", "randomised"] * len(maps))),
        rows=tuple(rows),
        settings=settings,
        gaps=first,
        spans=tuple((column, column + 1, name) for column, name in zip(first, maps, strict=True)),
    )
