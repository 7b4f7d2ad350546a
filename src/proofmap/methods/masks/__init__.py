"""Masks that are optimised for each (image, label) pair, all on the one engine."""

from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.masks.learned import LearnedMask

__all__ = ["BeliefMask", "LearnedMask"]
