"""What all methods that go back through a net have in common: what they leave behind, and odd nets and sizes."""

from __future__ import annotations

import gc
from collections import Counter

from torch import Tensor

from proofmap.methods import make_method
from tests.methods.test_gradients import LABELS
from tests.methods.test_lrp import classifier, pooled_net
from tests.toys import pixels

SPECS = [
    "smooth-grad:samples=2",
    "integrated-gradients:steps=30",
    "guided-backprop",
    "rect-grad",
    "lrp",
    "contrastive-lrp:dual=negated",
    "deep-lift",
]


def tensors() -> int:
    """Tensors and steps of autograd's graph that Python knows of."""
    kinds = Counter(map(type, gc.get_objects()))
    return sum(n for kind, n in kinds.items() if issubclass(kind, Tensor) or "Backward" in kind.__name__)


def test_no_tensor_outlives_the_call() -> None:
    """With the collector off, so that a circle of references that holds the graph would show."""
    f, images = classifier(pooled_net(), batch_size=8), pixels(2, 8)
    methods = [make_method(spec) for spec in SPECS]
    for method in methods:  # what is made once and kept: a frozen view, batch sizes
        method(f, images, LABELS[:2])
    gc.collect()
    gc.freeze()  # only what is made from now on is looked at
    gc.disable()
    try:
        before = tensors()
        for method in methods:
            for _ in range(3):
                method(f, images, LABELS[:2])
            assert tensors() <= before, method.name
    finally:
        gc.enable()
