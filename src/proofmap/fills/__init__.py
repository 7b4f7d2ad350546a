"""Fills: what hidden positions show. In the paper this is the random part of the input modification Gamma.

Fills for rows, series and texts, and ROAD's, are made by their names: ``make_fill("near-rows")``.
"""

from proofmap.fills import infill, road, rows, text  # noqa: F401 they register fills
from proofmap.fills.fill import FILLS, Fill, make_fill
from proofmap.fills.images import Images
from proofmap.fills.simple import Blur, Gray, Noise

__all__ = [
    "FILLS",
    "Blur",
    "Fill",
    "Gray",
    "Images",
    "Noise",
    "make_fill",
]
