"""Grids of pictures for papers: photos and masked photos with text above and below each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from proofmap.core.inputs import Inputs
from proofmap.core.text import one_line, wrapped
from proofmap.report.figures.drawing import INK, SMALL, SOFT, WIDTH, Figure, escaped
from proofmap.report.pictures import photo
from proofmap.results.proof_shape import Word, strength
from proofmap.results.tables import number

SIGNS: dict[Word, tuple[str, str]] = {
    "weak": ("↓", "#0064AA"),
    "strong": ("↑", "#BE4600"),
    "match": ("=", "#006E4B"),
    "over": ("~", "#966800"),
    "trifle": ("", SOFT),
    "unknown": ("", SOFT),
}
"""The sign and the colour for each strength of a proof."""
MOST_COLUMN = 1.1
"""The largest width of a picture in inches."""
READING = (
    "Below each picture: the AUC of its map. ↓ (blue) is too weak, completeness below .8; ↑ (orange) too strong, "
    "soundness below .8; = (green) as strong as f."
)


@dataclass(frozen=True, eq=False)
class GridCell:
    """A cell of a grid: a picture as bytes ``(H, W, 3)``, with text above and below it. ``colour`` is the colour of the text below."""

    pixels: np.ndarray
    below: str = ""
    colour: str = INK
    above: str = ""

    @classmethod
    def of(cls, picture: Image.Image, below: str = "") -> GridCell:
        """A cell with a picture and text in the usual colour."""
        return cls(np.asarray(picture.convert("RGB")), below)

    @classmethod
    def photo(cls, image: Tensor, inputs: Inputs, label: str, f: float | None = None) -> GridCell:
        """A cell with a photo and, below it, a label and f, the net's probability of the label."""
        belief = "" if f is None else f"\nf = {short_probability(f)}".replace("= <", "< ")
        return cls.of(photo(image, inputs), one_line(label) + belief)

    @classmethod
    def proof(cls, picture: Image.Image, auc: float, completeness: float, soundness: float) -> GridCell:
        """A cell with the picture of a map and, below it, the map's AUC and a sign: too weak (↓), too strong (↑) or as strong as f (=)."""
        sign, colour = SIGNS[strength(completeness, soundness)]
        return cls(np.asarray(picture.convert("RGB")), f"{short_probability(auc)} {sign}".rstrip(), colour)


def short_probability(value: float) -> str:
    """A probability as a short text.

    >>> short_probability(0.844), short_probability(0.0042), short_probability(3e-9), short_probability(0.0)
    ('.84', '.004', '<.001', '0')
    """
    if value == 0 or math.isnan(value):
        return "0" if value == 0 else "-"
    if value < 0.001:
        return "<.001"
    return f"{value:.3f}"[1:] if value < 0.005 else number(value)


@dataclass(frozen=True, eq=False)
class GridFigure(Figure):
    """The figure of a grid of pictures under headings.

    Attributes:
        about: the beginning of the caption, which says what is shown.
        headings: the heading of each column.
        rows: the cells of each row; None for an empty cell.
        settings: the end of the caption, with the settings.
        titles: the title of each row, written to its left.
        gaps, breaks: the indices of columns and rows with a wider space before them.
        spans: headings above several columns, as (first column, last column, text).
    """

    name: str
    about: str
    headings: tuple[str, ...]
    rows: tuple[tuple[GridCell | None, ...], ...]
    settings: str
    titles: tuple[str, ...] = ()
    gaps: tuple[int, ...] = ()
    breaks: tuple[int, ...] = ()
    spans: tuple[tuple[int, int, str], ...] = ()

    def caption(self) -> str:
        return f"{self.about} {self.settings}"

    def drawn(self, plt: Any) -> Any:
        return _Page(self).drawn(plt)


class _Page:
    """The layout of a grid. Coordinates are in inches from the upper left corner."""

    space, wider, line = 0.05, 0.14, 0.118

    def __init__(self, grid: GridFigure) -> None:
        self.grid, columns = grid, len(grid.headings)
        self.left = 0.18 if any(grid.titles) else 0.02
        fixed = self.left + self.space * (columns - 1) + (self.wider - self.space) * len(grid.gaps) + 0.02
        self.cell = min(MOST_COLUMN, (WIDTH - fixed) / columns)
        self.width = fixed + self.cell * columns
        self.letters = max(6, int(self.cell * 72 / (SMALL * 0.42)))
        self.headings = [wrapped(h, self.letters) for h in grid.headings]
        self.turned = any("…" in h for h in self.headings)  # the columns are too narrow for a heading
        if self.turned:
            self.headings = [one_line(h) for h in grid.headings]
            # a letter is .42 wide on average
            self.head = max(map(len, self.headings)) * SMALL * 0.44 / 72 + 0.06
        else:
            self.head = self.line * max(h.count("\n") + 1 if h else 0 for h in self.headings) + 0.03
        self.top = self.line + 0.05 if grid.spans else 0.0
        self.x = self._columns(columns)
        self.heights = [self._height(row) for row in grid.rows]
        extra = (self.wider - self.space) * len(grid.breaks)
        self.height = self.top + self.head + sum(self.heights) + extra + 0.02

    def _columns(self, columns: int) -> list[float]:
        places, x = [], self.left
        for k in range(columns):
            x += self.wider - self.space if k in self.grid.gaps else 0
            places.append(x)
            x += self.cell + self.space
        return places

    def _height(self, row: Sequence[GridCell | None]) -> float:
        pictures = [p for p in row if p is not None]
        tall = max((self.cell * p.pixels.shape[0] / p.pixels.shape[1] for p in pictures), default=self.cell)
        above = max((self._lines(p.above) for p in pictures), default=0)
        below = max((self._lines(p.below) for p in pictures), default=0)
        return tall + self.line * (above + below) + 0.06

    def _lines(self, text: str) -> int:
        return self._text(text).count("\n") + 1 if text else 0

    def _text(self, text: str) -> str:
        """The text with each line wrapped to the width of a column."""
        return "\n".join(wrapped(line, self.letters, lines=2) for line in text.split("\n"))

    def drawn(self, plt: Any) -> Any:
        figure = plt.figure(figsize=(self.width, self.height), layout="none")
        for first, last, text in self.grid.spans:
            self._span(figure, plt.Line2D, first, last, text)
        for x, heading in zip(self.x, self.headings, strict=True):
            self._head(figure, x + self.cell / 2, self.top + self.head - 0.03, heading)
        y = self.top + self.head
        for k, (row, height) in enumerate(zip(self.grid.rows, self.heights, strict=True)):
            y += self.wider - self.space if k in self.grid.breaks else 0
            above = self.line * max((self._lines(p.above) for p in row if p is not None), default=0)
            if self.grid.titles and self.grid.titles[k]:
                figure.text(
                    0.02 / self.width,
                    1 - (y + above + self.cell / 2) / self.height,
                    escaped(self.grid.titles[k]),
                    rotation=90,
                    ha="left",
                    va="center",
                    fontsize=SMALL,
                )
            for x, picture in zip(self.x, row, strict=True):
                if picture is not None:
                    self._place(figure, x, y + above, picture)
            y += height
        return figure

    def _place(self, figure: Any, x: float, y: float, picture: GridCell) -> None:
        tall = self.cell * picture.pixels.shape[0] / picture.pixels.shape[1]
        box = (
            x / self.width,
            1 - (y + tall) / self.height,
            self.cell / self.width,
            tall / self.height,
        )
        axis = figure.add_axes(box)
        axis.imshow(picture.pixels, interpolation="none", aspect="auto")
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set(visible=True, color="0.8", linewidth=0.3)
        if picture.above:
            self._write(figure, x + self.cell / 2, y - 0.015, self._text(picture.above), "bottom")
        self._write(
            figure, x + self.cell / 2, y + tall + 0.02, self._text(picture.below), "top", picture.colour
        )

    def _span(self, figure: Any, rule: Any, first: int, last: int, text: str) -> None:
        left, right = self.x[first], self.x[last] + self.cell
        self._write(figure, (left + right) / 2, self.line, one_line(text), "bottom")
        y = 1 - (self.line + 0.02) / self.height
        ends = (left / self.width, right / self.width)
        figure.add_artist(rule(ends, (y, y), transform=figure.transFigure, color=SOFT, linewidth=0.4))

    def _head(self, figure: Any, x: float, y: float, heading: str) -> None:
        if not self.turned:
            self._write(figure, x, y, heading, "bottom")
            return
        place = (x / self.width, 1 - y / self.height)
        figure.text(*place, escaped(heading), rotation=90, ha="center", va="bottom", fontsize=SMALL)

    def _write(self, figure: Any, x: float, y: float, text: str, side: str, colour: str = INK) -> None:
        """Write lines of text above or below ``y``, each on its own baseline, so that neighbouring texts align."""
        lines = text.split("\n")
        first = y + 0.08 if side == "top" else y - 0.02 - self.line * (len(lines) - 1)
        for k, line in enumerate(lines):
            figure.text(
                x / self.width,
                1 - (first + self.line * k) / self.height,
                escaped(line),
                ha="center",
                va="baseline",
                fontsize=SMALL,
                color=colour,
            )
