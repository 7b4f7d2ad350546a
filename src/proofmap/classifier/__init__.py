"""Classifiers: a net, how its input is prepared, and the labels that count. They give the paper's f(x, a), the probability of label a for
input x."""

from proofmap.classifier.classifier import Classifier
from proofmap.classifier.outputs import Outputs

__all__ = ["Classifier", "Outputs"]
