"""How maps are judged: games and their curves, proof scores, and what a metric can ask about a method.

Names that are not here are in the modules of this folder, such as ``proofmap.metrics.boxes.SaliencyMetric``. Metrics are found by their names in
any case: ``make_metric("saliency-metric")``.
"""

from proofmap.metrics import (  # noqa: F401 they register metrics and games
    adversarial,
    axioms,
    boxes,
    captum,
    confidence,
    localisation,
    minimality,
    other_definitions,
    outline,
    randomisation,
    reliability,
    roughness,
)
from proofmap.metrics.areas import Insertion
from proofmap.metrics.curves import Curves
from proofmap.metrics.games import GAMES, Game, make_game
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric, RunMetric, RunValues, make_metric
from proofmap.metrics.playing import deletion, insertion
from proofmap.metrics.proof_scores import default_metrics
from proofmap.metrics.scores import (
    Thresholds,
    best_effort,
    completeness,
    soundness,
    thresholds,
    worst_case,
)
from proofmap.metrics.targets import TARGETS, Target

__all__ = [
    "Curves",
    "GAMES",
    "Game",
    "Insertion",
    "Judged",
    "METRICS",
    "Metric",
    "RunMetric",
    "RunValues",
    "TARGETS",
    "Target",
    "Thresholds",
    "best_effort",
    "completeness",
    "default_metrics",
    "deletion",
    "insertion",
    "make_game",
    "make_metric",
    "soundness",
    "thresholds",
    "worst_case",
]
