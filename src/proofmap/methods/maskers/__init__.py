"""Maskers: small nets, trained beforehand, that make masks from the features of the explained net."""

from proofmap.methods.maskers.train import train_masker
from proofmap.methods.maskers.trained import BeliefMasker, PhangMasker, RealTimeSaliency

__all__ = ["BeliefMasker", "PhangMasker", "RealTimeSaliency", "train_masker"]
