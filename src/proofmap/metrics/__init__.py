"""Curves, proofs and statistics: how maps are judged."""

from proofmap.metrics.curves import PRESETS, Curves, CurveSettings, curve_settings, deletion, insertion
from proofmap.metrics.judge import (
    METRICS,
    BestEffort,
    Completeness,
    Deletion,
    Insertion,
    Judged,
    Metric,
    Soundness,
    build_metric,
    default_metrics,
    make_metric,
)
from proofmap.metrics.proof import (
    THRESHOLDS,
    Thresholds,
    best_effort,
    completeness,
    soundness,
    thresholds,
    worst_case,
)
from proofmap.metrics.quadrature import Quadrature

__all__ = [
    "METRICS",
    "build_metric",
    "make_metric",
    "PRESETS",
    "THRESHOLDS",
    "BestEffort",
    "Completeness",
    "CurveSettings",
    "Curves",
    "Deletion",
    "Insertion",
    "Judged",
    "Metric",
    "Quadrature",
    "Soundness",
    "Thresholds",
    "best_effort",
    "completeness",
    "curve_settings",
    "default_metrics",
    "deletion",
    "insertion",
    "soundness",
    "thresholds",
    "worst_case",
]
