"""How maps are judged: games and their curves, proof scores, and everything that a metric may ask about a method."""

from proofmap.metrics.adversarial import AdversarialSoundness
from proofmap.metrics.agreement import RankingAgreement
from proofmap.metrics.areas import Deletion, GameMetric, Insertion
from proofmap.metrics.axioms.checks import AxiomFinding, AxiomReport, check_axioms
from proofmap.metrics.confidence import AverageDrop, DropInDeletion, IncreaseInConfidence
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
from proofmap.metrics.guarantees import (
    CertifiedPixels,
    ConformalBound,
    ConformalCoverage,
    KeptGame,
    ProofSize,
    SoftStability,
)
from proofmap.metrics.label_scores import ClassSensitivity, SecondSoundness
from proofmap.metrics.localisation.boxes import BoxIoU, EnergyInside, PointingGame
from proofmap.metrics.localisation.two_objects import Montages, TwoObjects, side_by_side
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
from proofmap.metrics.minimality import (
    CompleteRegion,
    ContrastiveRegion,
    SufficientRegion,
    sufficient_subsets,
)
from proofmap.metrics.others import (
    LiCompleteness,
    LiSoundness,
    MerlinArthurCompleteness,
    MerlinArthurSoundness,
    SumToLogit,
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
from proofmap.metrics.saliency.box import SaliencyArea, SaliencyConfidence, SaliencyMetric, SaliencyTiny
from proofmap.metrics.saliency.sweep import SaliencySweep, saliency_sweep
from proofmap.metrics.soft_games import SoftDeletionGame, SoftInsertionGame
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
    "CompleteRegion",
    "Completeness",
    "ContrastiveRegion",
    "AdversarialSoundness",
    "CertifiedPixels",
    "ClassSensitivity",
    "ConformalBound",
    "ConformalCoverage",
    "ComplexityRise",
    "CurveSettings",
    "Curves",
    "Decision",
    "Deletion",
    "DeletionGame",
    "DropInDeletion",
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
    "ReadyGame",
    "ReadyMetric",
    "Rival",
    "Roughness",
    "RunMetric",
    "RunValue",
    "RunValues",
    "SaliencyArea",
    "SaliencyConfidence",
    "SaliencyMetric",
    "SaliencySweep",
    "SaliencyTiny",
    "SoftDeletionGame",
    "SoftInsertionGame",
    "Soundness",
    "SufficientRegion",
    "Target",
    "SecondSoundness",
    "SoftStability",
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
    "prepare_metrics",
    "saliency_sweep",
    "side_by_side",
    "soundness",
    "sufficient_subsets",
    "thresholds",
    "worst_case",
]
