"""Proofmap: saliency maps that prove the label, and cannot prove the wrong one.

>>> import proofmap as pm
>>> net = pm.load_classifier("efficientnet-lite0")  # doctest: +SKIP
>>> proof = pm.explain(net, pm.load_images(["cat.png"], net), labels="top5")  # doctest: +SKIP
>>> proof.save("out/")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from proofmap.classifier import Classifier
from proofmap.errors import InputError, MissingExtra, ModelError, ProofmapError
from proofmap.evaluation import Evaluation, MethodResult, default_metrics, evaluate
from proofmap.explanation import Proof, explain
from proofmap.fills import Blur, Fill, Gray, Images, Noise
from proofmap.images import load_images
from proofmap.methods import METHODS, LearnedMask, Method, TopLabel, make_method
from proofmap.metrics import METRICS, Curves, Metric, Score, deletion, insertion, make_metric
from proofmap.models import list_models, load_classifier

if TYPE_CHECKING:
    from proofmap.report.audit import audit
    from proofmap.report.compare import compare
    from proofmap.report.html import write_report
    from proofmap.study import Run, Selection, Study, run_study

__version__ = "0.1.0"

# imported when asked for: they bring the progress views and the drawing along
_LATER = {
    "Run": "proofmap.study",
    "Selection": "proofmap.study",
    "Study": "proofmap.study",
    "run_study": "proofmap.study",
    "audit": "proofmap.report.audit",
    "compare": "proofmap.report.compare",
    "write_report": "proofmap.report.html",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'proofmap' has no attribute {name!r}")


__all__ = [
    "METHODS",
    "METRICS",
    "Blur",
    "Classifier",
    "Curves",
    "Evaluation",
    "Fill",
    "Gray",
    "Images",
    "InputError",
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
    "compare",
    "default_metrics",
    "deletion",
    "evaluate",
    "explain",
    "insertion",
    "list_models",
    "load_classifier",
    "load_images",
    "make_method",
    "make_metric",
    "run_study",
    "write_report",
]
