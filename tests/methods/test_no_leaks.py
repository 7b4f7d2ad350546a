"""Methods that change the way back through a net leave nothing behind, not even until Python next collects garbage."""

from __future__ import annotations

import gc

import pytest
import torch
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
    kinds = map(type, gc.get_objects())
    return sum(issubclass(kind, Tensor) or "Backward" in kind.__name__ for kind in kinds)


@pytest.mark.parametrize("spec", SPECS)
def test_no_tensor_outlives_the_call(spec: str) -> None:
    """With the collector off, so that a circle of references that holds the graph would show."""
    f, images, method = classifier(pooled_net()), pixels(2, 8), make_method(spec)
    method(f, images, LABELS[:2])  # what is made once and kept: a frozen view, batch sizes
    gc.collect()
    gc.disable()
    try:
        before = tensors()
        for _ in range(3):
            method(f, images, LABELS[:2])
        assert tensors() <= before
    finally:
        gc.enable()
    assert torch.is_grad_enabled()
