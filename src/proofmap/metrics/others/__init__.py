"""Completeness and soundness as other people define them, under names that say whose they are."""

from proofmap.metrics.others.li import LiCompleteness, LiSoundness
from proofmap.metrics.others.merlin_arthur import MerlinArthurCompleteness, MerlinArthurSoundness
from proofmap.metrics.others.sum_to_logit import SumToLogit

__all__ = [
    "LiCompleteness",
    "LiSoundness",
    "MerlinArthurCompleteness",
    "MerlinArthurSoundness",
    "SumToLogit",
]
