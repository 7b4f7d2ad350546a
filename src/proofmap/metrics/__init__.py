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
from proofmap.metrics.statistics import Score, bootstrap_interval, mean_score

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
    "Score",
    "Soundness",
    "Thresholds",
    "best_effort",
    "bootstrap_interval",
    "completeness",
    "curve_settings",
    "deletion",
    "insertion",
    "mean_score",
    "soundness",
    "thresholds",
    "worst_case",
]
