"""Figures for papers with matplotlib (extra ``figures``): each is a small record first, then a drawing of it.

``draw_figure(name, out=..., ...)`` makes, draws and captions any of ``FIGURES``; the makers below give the records.
"""

from proofmap.report.figures.bounds import BoundsFigure, Marks, bounds_figure
from proofmap.report.figures.curves import (
    CurvesFigure,
    Line,
    Panel,
    curve_titles,
    curves_figure,
    draw_curves,
    insertion_lines,
)
from proofmap.report.figures.desk import Desk, desk, desk_of, desk_of_photo
from proofmap.report.figures.drawing import Figure, draw
from proofmap.report.figures.grid import GridFigure, Shown
from proofmap.report.figures.label_matrix import LabelMatrix, Matrix, label_matrix
from proofmap.report.figures.learned import Artifacts, MasksByK, TVCurves, artifacts, masks_by_k, tv_curves
from proofmap.report.figures.masks import (
    MaskGrid,
    TwoObjects,
    mask_grid,
    two_objects,
    two_objects_of,
    wrong_mask_grid,
)
from proofmap.report.figures.registry import FIGURES, FigureInfo, draw_figure, figures_of, make_figure
from proofmap.report.figures.sanity import SanityCurve, SanityFigure, sanity_figure
from proofmap.report.figures.scatter import (
    Point,
    ScatterFigure,
    draw_scatter,
    proof_points,
    scatter_figure,
    scatter_panels,
)
from proofmap.report.figures.theorem import TheoremFigure, theorem

__all__ = [
    "FIGURES",
    "FigureInfo",
    "draw_figure",
    "make_figure",
    "figures_of",
    "draw",
    "Figure",
    "CurvesFigure",
    "Line",
    "Panel",
    "curves_figure",
    "insertion_lines",
    "curve_titles",
    "draw_curves",
    "ScatterFigure",
    "Point",
    "scatter_figure",
    "proof_points",
    "scatter_panels",
    "draw_scatter",
    "GridFigure",
    "Shown",
    "MaskGrid",
    "mask_grid",
    "wrong_mask_grid",
    "TwoObjects",
    "two_objects",
    "two_objects_of",
    "LabelMatrix",
    "Matrix",
    "label_matrix",
    "BoundsFigure",
    "Marks",
    "bounds_figure",
    "TVCurves",
    "tv_curves",
    "Artifacts",
    "artifacts",
    "MasksByK",
    "masks_by_k",
    "SanityCurve",
    "SanityFigure",
    "sanity_figure",
    "Desk",
    "desk",
    "desk_of",
    "desk_of_photo",
    "TheoremFigure",
    "theorem",
]
