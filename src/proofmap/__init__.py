"""Proofmap: saliency maps that prove the label, and cannot prove the wrong one.

>>> import proofmap as pm
>>> net = pm.load_classifier("efficientnet-lite0")  # doctest: +SKIP
>>> proof = pm.explain(net, pm.load_images(["cat.png"], net), labels="top5")  # doctest: +SKIP
>>> proof.save("out/")  # doctest: +SKIP
"""

from proofmap.classifier import Classifier
from proofmap.errors import InputError, MissingExtra, ModelError, ProofmapError
from proofmap.evaluation import Evaluation, MethodResult, default_metrics, evaluate
from proofmap.explanation import Proof, explain
from proofmap.fills import Blur, Fill, Gray, Images, Noise
from proofmap.images import load_images
from proofmap.methods import METHODS, LearnedMask, Method, TopLabel, make_method
from proofmap.metrics import METRICS, Curves, Metric, Score, deletion, insertion
from proofmap.models import list_models, load_classifier

__version__ = "0.1.0"

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
    "Score",
    "TopLabel",
    "default_metrics",
    "deletion",
    "evaluate",
    "explain",
    "insertion",
    "list_models",
    "load_classifier",
    "load_images",
    "make_method",
]
