"""Maskers: small nets trained beforehand to make masks from the features of the net that is explained."""

from proofmap.methods.maskers.train import train_masker
from proofmap.methods.maskers.trained import BeliefMasker, PhangMasker, RealTimeSaliency

__all__ = ["BeliefMasker", "PhangMasker", "RealTimeSaliency", "train_masker"]
