"""Metrics with a guarantee: what was found by sampling holds with a stated probability."""

from proofmap.metrics.guarantees.certified import CertifiedPixels
from proofmap.metrics.guarantees.conformal import ConformalBound, ConformalCoverage
from proofmap.metrics.guarantees.proof_size import KeptGame, ProofSize
from proofmap.metrics.guarantees.stability import SoftStability

__all__ = ["CertifiedPixels", "ConformalBound", "ConformalCoverage", "KeptGame", "ProofSize", "SoftStability"]
