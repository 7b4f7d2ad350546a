"""The figure of the columns of a table that carry the proofs of its rows (:mod:`proofmap.report.proof_columns`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proofmap.core.text import counted
from proofmap.report.figures.drawing import SMALL, WIDTH, Figure, escaped, evaluation_settings
from proofmap.report.proof_columns import LabelPanel, ProofColumns, proof_columns, swarm
from proofmap.results.evaluation import Evaluation


@dataclass(frozen=True)
class ColumnsFigure(Figure):
    """The figure of the columns that carry proofs, with a panel for each label."""

    name = "columns"
    found: ProofColumns
    settings: str

    @property
    def panels(self) -> tuple[LabelPanel, ...]:
        return self.found.panels

    def caption(self) -> str:
        return f"{self.found.caption} {self.settings}"

    def drawn(self, plt: Any) -> Any:
        tallest = max(len(panel.columns) for panel in self.panels)
        size = (WIDTH, 0.6 + len(self.panels) * (0.35 + 0.2 * tallest))
        figure, axes = plt.subplots(len(self.panels), 1, figsize=size, squeeze=False, sharex=True)
        for axis, panel in zip(axes[:, 0], self.panels, strict=True):
            for y, line in enumerate(panel.columns):
                offsets = swarm([dot.place for dot in line.dots])
                for dot, offset in zip(line.dots, offsets, strict=True):
                    colour = plt.get_cmap("viridis_r")(0.1 + 0.8 * dot.value)
                    face = colour if dot.proves else "white"
                    axis.plot(dot.place + 1, y + offset, "o", ms=2.6, mfc=face, mec=colour, mew=0.6)
            names = [escaped(line.short) for line in panel.columns]
            axis.set_yticks(range(len(names)), names, fontsize=SMALL)
            axis.set(
                ylim=(len(names) - 0.4, -0.6), title=f"{escaped(panel.label)} ({counted(panel.rows, 'row')})"
            )
            axis.grid(axis="y", linewidth=0.3, color="0.88")
            axis.set_axisbelow(True)
        axes[-1, 0].set_xlabel(f"place of the column in the map, of {self.found.count}")
        return figure


def columns_figure(evaluation: Evaluation, method: str | None = None) -> ColumnsFigure:
    """The figure of one method, by default the first, over the rows whose maps were kept."""
    return ColumnsFigure(proof_columns(evaluation, method), evaluation_settings(evaluation))
