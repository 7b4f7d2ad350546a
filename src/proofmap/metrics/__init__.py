"""How maps are judged: games and their curves, proof scores, and everything that a metric may ask about a method."""

from proofmap.metrics.agreement import RankingAgreement
from proofmap.metrics.areas import Deletion, GameMetric, Insertion
from proofmap.metrics.context import Judged
from proofmap.metrics.curves import Curves, curves, deletion, insertion
from proofmap.metrics.flipping import SRG, LeRF, MoRF
from proofmap.metrics.games import (
    CURVES,
    GAMES,
    CurveSettings,
    DeletionGame,
    Game,
    InsertionGame,
    LerfGame,
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
from proofmap.metrics.roughness import Roughness
from proofmap.metrics.targets import (
    TARGETS,
    Decision,
    Logit,
    LogProbability,
    Margin,
    Probability,
    Rival,
    Target,
)

__all__ = [
    "CURVES",
    "GAMES",
    "METRICS",
    "SRG",
    "TARGETS",
    "THRESHOLDS",
    "BestEffort",
    "Completeness",
    "CurveSettings",
    "Curves",
    "Decision",
    "Deletion",
    "DeletionGame",
    "Game",
    "GameMetric",
    "Insertion",
    "InsertionGame",
    "Judged",
    "LeRF",
    "LerfGame",
    "LogProbability",
    "Logit",
    "Margin",
    "Metric",
    "MoRF",
    "Probability",
    "Quadrature",
    "RankingAgreement",
    "ReadyGame",
    "ReadyMetric",
    "Rival",
    "Roughness",
    "RunMetric",
    "RunValue",
    "RunValues",
    "Soundness",
    "Target",
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
