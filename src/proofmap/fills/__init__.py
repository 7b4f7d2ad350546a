"""Fills: what hidden positions show. In the paper this is the random part of the input modification Gamma.

Fills for rows, series and texts, and ROAD's, are made by their names: ``make_fill("near-rows")``.
"""

from proofmap.fills import road, rows, text  # which register their fills
from proofmap.fills.fill import FILLS, Fill, make_fill
from proofmap.fills.images import Images, pools_in
from proofmap.fills.infill import Infill
from proofmap.fills.simple import Blur, Gray, Median, Noise
from proofmap.fills.text import MaskedLM

__all__ = [
    "FILLS",
    "Blur",
    "Fill",
    "Gray",
    "Images",
    "Infill",
    "MaskedLM",
    "Median",
    "Noise",
    "make_fill",
    "pools_in",
    "road",
    "rows",
    "text",
]
