"""How maps are judged: games and their curves, proof scores, and what a metric can ask about a method."""

from proofmap.metrics.adversarial import AdversarialSoundness
from proofmap.metrics.areas import SRG, Deletion, GameMetric, Insertion, LeRF, MoRF
from proofmap.metrics.axioms import AxiomFinding, AxiomReport, check_axioms
from proofmap.metrics.confidence import (
    AverageDrop,
    IncreaseInConfidence,
    SoftInsertionGame,
)
from proofmap.metrics.curve_shape import Peak, PeakSoundness, ProofReach, Steadiness
from proofmap.metrics.curves import Curves
from proofmap.metrics.games import (
    CURVES,
    GAMES,
    CurveSettings,
    DeletionGame,
    Game,
    InsertionGame,
    LerfGame,
    make_game,
)
from proofmap.metrics.judged import Judged
from proofmap.metrics.localisation import (
    BoxIoU,
    EnergyInside,
    Montages,
    PointingGame,
    TwoObjects,
    side_by_side,
)
from proofmap.metrics.metric import (
    METRICS,
    Metric,
    RunMetric,
    RunValue,
    RunValues,
    make_metric,
)
from proofmap.metrics.minimality import (
    SufficientRegion,
    sufficient_subsets,
)
from proofmap.metrics.other_definitions import (
    KeptGame,
    LiCompleteness,
    LiSoundness,
    MerlinArthurCompleteness,
    MerlinArthurSoundness,
    ProofSize,
    SumToLogit,
)
from proofmap.metrics.playing import curves, deletion, insertion
from proofmap.metrics.proof import (
    THRESHOLDS,
    Thresholds,
    best_effort,
    completeness,
    soundness,
    thresholds,
    worst_case,
)
from proofmap.metrics.proof_scores import (
    BestEffort,
    ClassSensitivity,
    Completeness,
    SecondSoundness,
    Soundness,
    default_metrics,
)
from proofmap.metrics.quadrature import Quadrature
from proofmap.metrics.randomisation import Randomisation
from proofmap.metrics.reliability import InterMethod, InternalConsistency, InterRater, RankingAgreement
from proofmap.metrics.roughness import Roughness
from proofmap.metrics.saliency_metric import (
    SaliencyArea,
    SaliencyConfidence,
    SaliencyMetric,
    SaliencySweep,
    saliency_sweep,
)
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
    "AverageDrop",
    "AxiomFinding",
    "AxiomReport",
    "BestEffort",
    "BoxIoU",
    "Completeness",
    "Steadiness",
    "ProofReach",
    "PeakSoundness",
    "Peak",
    "AdversarialSoundness",
    "ClassSensitivity",
    "CurveSettings",
    "Curves",
    "Decision",
    "Deletion",
    "DeletionGame",
    "EnergyInside",
    "Game",
    "GameMetric",
    "IncreaseInConfidence",
    "Insertion",
    "InsertionGame",
    "InterMethod",
    "InterRater",
    "InternalConsistency",
    "Judged",
    "LeRF",
    "LerfGame",
    "LogProbability",
    "Logit",
    "Margin",
    "Metric",
    "MoRF",
    "Montages",
    "PointingGame",
    "Probability",
    "KeptGame",
    "LiCompleteness",
    "LiSoundness",
    "MerlinArthurCompleteness",
    "MerlinArthurSoundness",
    "ProofSize",
    "Quadrature",
    "Randomisation",
    "RankingAgreement",
    "Rival",
    "Roughness",
    "RunMetric",
    "RunValue",
    "RunValues",
    "SaliencyArea",
    "SaliencyConfidence",
    "SaliencyMetric",
    "SaliencySweep",
    "SoftInsertionGame",
    "Soundness",
    "SufficientRegion",
    "Target",
    "SecondSoundness",
    "SumToLogit",
    "Thresholds",
    "TwoObjects",
    "best_effort",
    "check_axioms",
    "completeness",
    "curves",
    "default_metrics",
    "deletion",
    "insertion",
    "make_game",
    "make_metric",
    "saliency_sweep",
    "side_by_side",
    "soundness",
    "sufficient_subsets",
    "thresholds",
    "worst_case",
]
