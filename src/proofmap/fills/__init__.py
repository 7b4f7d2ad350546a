"""Fills: what hidden positions show. In the paper this is the random part of the input modification Gamma."""

from proofmap.fills.fill import FILLS, Fill, make_fill
from proofmap.fills.images import Images, pools_in, uses_default_pool
from proofmap.fills.infill import Infill
from proofmap.fills.masked_lm import MaskedLM
from proofmap.fills.road import Road
from proofmap.fills.rows import ClassMedian, NearRows, TimeReversal, TimeShift
from proofmap.fills.simple import Blur, Gray, Median, Noise
from proofmap.fills.text import (
    ClosedAttention,
    DeletedWords,
    MaskToken,
    MeanEmbedding,
    UnknownToken,
    ZeroEmbedding,
)

__all__ = [
    "FILLS",
    "Blur",
    "ClassMedian",
    "ClosedAttention",
    "DeletedWords",
    "Fill",
    "Gray",
    "Images",
    "Infill",
    "MaskToken",
    "MaskedLM",
    "MeanEmbedding",
    "Median",
    "NearRows",
    "Noise",
    "Road",
    "TimeReversal",
    "TimeShift",
    "UnknownToken",
    "ZeroEmbedding",
    "make_fill",
    "pools_in",
    "uses_default_pool",
]
