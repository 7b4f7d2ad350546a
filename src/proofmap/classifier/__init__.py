"""Classifiers: a net, how its input is prepared, and the labels that count. They give the paper's f(x, a), the probability of label a for
input x."""

from proofmap.classifier.classifier import Classifier

__all__ = ["Classifier"]
