"""How many passes of the net a method takes for one image: as it states, or counted if it states nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from proofmap.classifier import Classifier
from proofmap.classifier.frozen import Frozen
from proofmap.classifier.view import LogitsModule
from proofmap.methods.method import ReadyMethod


class PassCount:
    """Images that a net was given."""

    images: int = 0


def passes_of(method: ReadyMethod, image: Tensor, labels: Tensor, *, seed: int = 0) -> int:
    """Passes for one image ``(1, *shape)`` with labels ``(1, L)``.

    Methods of Proofmap state their cost, and the contract of methods tests it. Any other method runs once on this image, and the
    images that the net is given are counted.
    """
    stated = method.cost(labels.shape[1])
    if stated is not None and type(method.method).__module__.startswith("proofmap."):
        return stated.passes
    _ = method.classifier.batches, method.classifier.frozen().batches  # finding them takes passes, too
    with counted_passes(method.classifier) as count:
        method(image, labels, seed=seed)
    return max(count.images, 0 if stated is None else stated.passes)


@contextmanager
def counted_passes(classifier: Classifier) -> Iterator[PassCount]:
    """Count the images that go through the net of a classifier, its frozen copies, and its copies for other libraries.

    A part of the net that a method calls by itself is not counted.
    """
    kinds = (Frozen, LogitsModule, type(classifier.net))
    count, inside = PassCount(), 0

    def begin(module: nn.Module, inputs: Any) -> None:
        nonlocal inside
        if isinstance(module, kinds):
            if inside == 0 and inputs and isinstance(inputs[0], Tensor):
                count.images += len(inputs[0])
            inside += 1

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal inside
        if isinstance(module, kinds):
            inside -= 1

    hooks = [
        torch_module.register_module_forward_pre_hook(begin),
        torch_module.register_module_forward_hook(end, always_call=True),
    ]
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()
