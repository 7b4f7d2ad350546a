"""Methods that optimise masks for each (image, label) pair, all with one engine."""

from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.masks.diffmask import DiffMask
from proofmap.methods.masks.extremal import ExtremalPerturbation
from proofmap.methods.masks.fong_vedaldi import FongVedaldi
from proofmap.methods.masks.iba import IBA
from proofmap.methods.masks.igos import IGOSPlusPlus
from proofmap.methods.masks.learned import LearnedMask
from proofmap.methods.masks.rate_distortion import RateDistortion

__all__ = [
    "IBA",
    "BeliefMask",
    "DiffMask",
    "ExtremalPerturbation",
    "FongVedaldi",
    "IGOSPlusPlus",
    "LearnedMask",
    "RateDistortion",
]
