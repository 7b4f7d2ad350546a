"""Proofmap judges saliency maps as proofs: a map must prove what the net believes, and nothing else.

>>> import proofmap as pm
>>> net = pm.load_classifier("efficientnet-lite0")  # doctest: +SKIP
>>> proof = pm.explain(net, pm.load_images(["cat.png"], net), labels="top5")  # doctest: +SKIP
>>> proof.save("out/")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from proofmap.core.deferred import lazy_names
from proofmap.core.version import __version__

if TYPE_CHECKING:
    from proofmap.checking import sanity_checks
    from proofmap.classifier import Classifier
    from proofmap.core.errors import InputError, ProofmapError
    from proofmap.core.inputs import Rows, Series, Text, Volumes
    from proofmap.data.photos import load_images
    from proofmap.fills import Gray, Images
    from proofmap.judging import Judge, evaluate, explain
    from proofmap.methods import LearnedMask, Method, make_method, per_label
    from proofmap.metrics import Metric, default_metrics, deletion, insertion, make_game, make_metric
    from proofmap.metrics.playing import completeness, insertion_auc, soundness
    from proofmap.models import load_classifier
    from proofmap.report.figures import draw_figure
    from proofmap.report.html import write_report
    from proofmap.results.audit import audit
    from proofmap.results.compare import compare
    from proofmap.results.evaluation import Evaluation, Proof
    from proofmap.results.statistics import Score
    from proofmap.study import Run, Study, run_study
    from proofmap.validation import validate

# Imported when first used, so that commands which need no torch do not wait for it.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "checking": "sanity_checks",
        "classifier": "Classifier",
        "core.errors": "InputError ProofmapError",
        "core.inputs": "Rows Series Text Volumes",
        "data.photos": "load_images",
        "fills": "Gray Images",
        "judging": "Judge evaluate explain",
        "methods": "LearnedMask Method make_method per_label",
        "metrics": "Metric default_metrics deletion insertion make_game make_metric",
        "metrics.playing": "completeness insertion_auc soundness",
        "models": "load_classifier",
        "report.figures": "draw_figure",
        "report.html": "write_report",
        "results.audit": "audit",
        "results.compare": "compare",
        "results.evaluation": "Evaluation Proof",
        "results.statistics": "Score",
        "study": "Run Study run_study",
        "validation": "validate",
    },
)

__all__ = [
    "__version__",
    "Classifier",
    "Evaluation",
    "Gray",
    "Images",
    "InputError",
    "Judge",
    "LearnedMask",
    "Method",
    "Metric",
    "Proof",
    "ProofmapError",
    "Rows",
    "Run",
    "Score",
    "Series",
    "Study",
    "Text",
    "Volumes",
    "audit",
    "compare",
    "completeness",
    "default_metrics",
    "deletion",
    "draw_figure",
    "evaluate",
    "explain",
    "insertion",
    "insertion_auc",
    "load_classifier",
    "load_images",
    "make_game",
    "make_method",
    "per_label",
    "make_metric",
    "run_study",
    "sanity_checks",
    "soundness",
    "validate",
    "write_report",
]
