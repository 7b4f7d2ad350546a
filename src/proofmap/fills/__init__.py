"""What replaces hidden positions: the random part of the paper's input modification Gamma."""

from proofmap.fills.fill import FILLS, Fill, ReadyFill, make_fill
from proofmap.fills.images import Images, names_no_pool, pools_in, with_part, with_pool
from proofmap.fills.road import Road
from proofmap.fills.simple import Blur, Gray, Median, Noise

__all__ = [
    "FILLS",
    "Blur",
    "Fill",
    "Gray",
    "Images",
    "Median",
    "Noise",
    "ReadyFill",
    "Road",
    "make_fill",
    "names_no_pool",
    "pools_in",
    "with_part",
    "with_pool",
]
