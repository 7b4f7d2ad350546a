"""Proofmap: saliency maps judged as proofs of what the net believes, and of nothing else.

>>> import proofmap as pm
>>> net = pm.load_classifier("efficientnet-lite0")  # doctest: +SKIP
>>> proof = pm.explain(net, pm.load_images(["cat.png"], net), labels="top5")  # doctest: +SKIP
>>> proof.save("out/")  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, cast

from proofmap.core.version import __version__
from proofmap.results.display import Display, set_display

if TYPE_CHECKING:
    from proofmap.checking import sanity_checks
    from proofmap.classifier import Classifier
    from proofmap.core.allocator import keep_memory
    from proofmap.core.errors import InputError, MissingExtra, ModelError, ProofmapError
    from proofmap.data.photos import load_images
    from proofmap.fills import Blur, Fill, Gray, Images, Noise
    from proofmap.judging import Judge, evaluate, explain
    from proofmap.methods import METHODS, BeliefMask, LearnedMask, Method, TopLabel, make_method, per_label
    from proofmap.metrics import (
        METRICS,
        Curves,
        Metric,
        default_metrics,
        deletion,
        insertion,
        make_game,
        make_metric,
    )
    from proofmap.models import list_models, load_classifier
    from proofmap.report.figures import draw_figure, figures_of
    from proofmap.report.html import write_report
    from proofmap.results.audit import audit
    from proofmap.results.bounds import bounds
    from proofmap.results.compare import compare
    from proofmap.results.evaluation import Evaluation
    from proofmap.results.explanation import Proof
    from proofmap.results.frontier import frontier
    from proofmap.results.label_matrix import label_matrices
    from proofmap.results.records import MethodResult
    from proofmap.results.reliability import reliability
    from proofmap.results.seeds import seed_spread
    from proofmap.results.statistics import Score
    from proofmap.study import Run, Selection, Study, run_study

set_display(lambda: cast(Display, import_module("proofmap.report.display")))

# Imported when first used, so that commands which need no torch do not wait for it.
_MODULES = {
    "sanity_checks": "proofmap.checking",
    "Classifier": "proofmap.classifier",
    "keep_memory": "proofmap.core.allocator",
    "InputError": "proofmap.core.errors",
    "MissingExtra": "proofmap.core.errors",
    "ModelError": "proofmap.core.errors",
    "ProofmapError": "proofmap.core.errors",
    "load_images": "proofmap.data.photos",
    "Blur": "proofmap.fills",
    "Fill": "proofmap.fills",
    "Gray": "proofmap.fills",
    "Images": "proofmap.fills",
    "Noise": "proofmap.fills",
    "Judge": "proofmap.judging",
    "evaluate": "proofmap.judging",
    "explain": "proofmap.judging",
    "BeliefMask": "proofmap.methods",
    "LearnedMask": "proofmap.methods",
    "METHODS": "proofmap.methods",
    "Method": "proofmap.methods",
    "TopLabel": "proofmap.methods",
    "make_method": "proofmap.methods",
    "per_label": "proofmap.methods",
    "Curves": "proofmap.metrics",
    "METRICS": "proofmap.metrics",
    "Metric": "proofmap.metrics",
    "default_metrics": "proofmap.metrics",
    "deletion": "proofmap.metrics",
    "insertion": "proofmap.metrics",
    "make_game": "proofmap.metrics",
    "make_metric": "proofmap.metrics",
    "list_models": "proofmap.models",
    "load_classifier": "proofmap.models",
    "draw_figure": "proofmap.report.figures",
    "figures_of": "proofmap.report.figures",
    "write_report": "proofmap.report.html",
    "audit": "proofmap.results.audit",
    "bounds": "proofmap.results.bounds",
    "compare": "proofmap.results.compare",
    "Evaluation": "proofmap.results.evaluation",
    "Proof": "proofmap.results.explanation",
    "frontier": "proofmap.results.frontier",
    "label_matrices": "proofmap.results.label_matrix",
    "MethodResult": "proofmap.results.records",
    "reliability": "proofmap.results.reliability",
    "seed_spread": "proofmap.results.seeds",
    "Score": "proofmap.results.statistics",
    "Run": "proofmap.study",
    "Selection": "proofmap.study",
    "Study": "proofmap.study",
    "run_study": "proofmap.study",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'proofmap' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]


__all__ = [
    "__version__",
    "METHODS",
    "METRICS",
    "BeliefMask",
    "Blur",
    "Classifier",
    "Curves",
    "Evaluation",
    "Fill",
    "Gray",
    "Images",
    "InputError",
    "Judge",
    "LearnedMask",
    "Method",
    "MethodResult",
    "Metric",
    "MissingExtra",
    "ModelError",
    "Noise",
    "Proof",
    "ProofmapError",
    "Run",
    "Score",
    "Selection",
    "Study",
    "TopLabel",
    "audit",
    "bounds",
    "compare",
    "default_metrics",
    "deletion",
    "draw_figure",
    "evaluate",
    "explain",
    "figures_of",
    "frontier",
    "insertion",
    "keep_memory",
    "list_models",
    "load_classifier",
    "label_matrices",
    "load_images",
    "make_game",
    "make_method",
    "per_label",
    "make_metric",
    "reliability",
    "run_study",
    "sanity_checks",
    "seed_spread",
    "write_report",
]
