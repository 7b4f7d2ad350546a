"""How maps are judged: games and their curves, proof scores, and everything that a metric may ask about a method."""

from proofmap.metrics.agreement import RankingAgreement
from proofmap.metrics.areas import Deletion, GameMetric, Insertion
from proofmap.metrics.context import Judged
from proofmap.metrics.curves import Curves, curves, deletion, insertion
from proofmap.metrics.games import (
    CURVES,
    GAMES,
    CurveSettings,
    DeletionGame,
    Game,
    InsertionGame,
    ReadyGame,
    make_game,
)
from proofmap.metrics.metric import (
    METRICS,
    Metric,
    ReadyMetric,
    RunMetric,
    RunValue,
    RunValues,
    make_metric,
    prepare_metrics,
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
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness, default_metrics
from proofmap.metrics.quadrature import Quadrature
from proofmap.metrics.randomisation import ComplexityRise, Randomisation
from proofmap.metrics.reliability import InterMethod, InternalConsistency, InterRater
from proofmap.metrics.roughness import Roughness

__all__ = [
    "CURVES",
    "GAMES",
    "METRICS",
    "THRESHOLDS",
    "BestEffort",
    "Completeness",
    "ComplexityRise",
    "CurveSettings",
    "Curves",
    "Deletion",
    "DeletionGame",
    "Game",
    "GameMetric",
    "Insertion",
    "InsertionGame",
    "InterMethod",
    "InterRater",
    "InternalConsistency",
    "Judged",
    "Metric",
    "Quadrature",
    "Randomisation",
    "RankingAgreement",
    "ReadyGame",
    "ReadyMetric",
    "Roughness",
    "RunMetric",
    "RunValue",
    "RunValues",
    "Soundness",
    "Thresholds",
    "best_effort",
    "completeness",
    "curves",
    "default_metrics",
    "deletion",
    "insertion",
    "make_game",
    "make_metric",
    "prepare_metrics",
    "soundness",
    "thresholds",
    "worst_case",
]
