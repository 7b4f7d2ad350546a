"""Any net, how its input is prepared, and the labels that count: the paper's f(x, a)."""

from proofmap.classifier.classifier import Classifier
from proofmap.classifier.outputs import Outputs

__all__ = ["Classifier", "Outputs"]
