"""Figures for papers with matplotlib (extra ``figures``): each is a small record first, then a drawing of it.

``draw_figure(name, out=..., ...)`` makes, draws and captions any of ``FIGURES``. The modules hold the records and their makers.
"""

from proofmap.report.figures.drawing import Figure, draw
from proofmap.report.figures.registry import FIGURES, FigureInfo, draw_figure, figures_of, make_figure

__all__ = ["FIGURES", "Figure", "FigureInfo", "draw", "draw_figure", "figures_of", "make_figure"]
