"""Figures for papers, drawn with matplotlib (extra ``figures``).

A figure is first made as a small record of its data, which is then drawn. ``draw_figure(name, out=..., ...)`` makes, draws and captions any of
``FIGURES``. Each module defines some of the records and the functions that make them.
"""

from proofmap.report.figures.drawing import Figure, draw
from proofmap.report.figures.registry import FIGURES, FigureInfo, draw_figure, figures_of, make_figure

__all__ = ["FIGURES", "Figure", "FigureInfo", "draw", "draw_figure", "figures_of", "make_figure"]
