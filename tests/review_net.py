"""The source of a model of reviews: a function of strings that counts *good* and *bad*."""

from __future__ import annotations

NET = """import proofmap as pm
from proofmap.core.inputs import Text

def reviewer(texts):
    p = [0.5 + 0.1 * min(4, t.lower().count("good")) - 0.1 * min(4, t.lower().count("bad")) for t in texts]
    return [[1 - q, q] for q in p]

def make():
    return pm.Classifier(reviewer, inputs=Text(length=12), names=["bad", "good"], batch_size=32)
"""
