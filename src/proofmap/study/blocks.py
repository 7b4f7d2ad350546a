"""How many images a unit of work has: enough to fill the device's batches, few enough that little is lost with one.

The size decides the last bits of a result, so it comes from what is planned and from the device, never from a clock: from
the multiply-adds of the net, the passes that each image needs, and the kind of device. A run keeps the size it began with.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.methods.method import Cost
from proofmap.study.study import Study

SECONDS = 20
"""A unit that is lost should not cost more than about this."""
RATES = {"cpu": 5e9, "cuda": 5e12, "mps": 2e11}
"""Multiply-adds per second to reckon with: of one thread of a small cloud machine, of a large GPU, of a laptop's."""
GRADIENT = 2
"""A pass of a frozen net with an input gradient costs about two without."""
PER_PASS = 5e5
"""Multiply-adds that a pass of the smallest net is worth."""
UNKNOWN = 100
"""Passes with a gradient for each label, where a method cannot tell."""
_PER_NUMBER = 2_500  # multiply-adds for each number of the input, as in EfficientNet-Lite0
_MAPS_AT_ONCE = 32_000_000  # map values of one unit
_LARGEST_BLOCK = 64


def block_size(
    study: Study, classifier: Classifier, labels: int, costs: Iterable[Cost | None], threads: int
) -> int:
    """Images in a unit; ``costs`` are those of one image by each method, None where a method cannot tell."""
    if study.block is not None:
        return study.block
    labels = max(1, labels)
    fill_device = -(-2 * classifier.frozen().batches[1].size // labels)
    fit_memory = _MAPS_AT_ONCE // (classifier.inputs.count * labels)
    kind = classifier.device.type
    rate = RATES.get(kind, RATES["cuda"]) * (threads if kind == "cpu" else 1)
    passes = max((_forward_passes(cost, labels) for cost in costs), default=1)
    in_time = int(SECONDS * rate / (max(1, passes) * (multiply_adds(classifier) + PER_PASS)))
    return max(1, min(fill_device, fit_memory, in_time, _LARGEST_BLOCK))


def _forward_passes(cost: Cost | None, labels: int) -> int:
    """A cost as passes without a gradient."""
    cost = Cost(gradient=UNKNOWN * labels) if cost is None else cost
    return cost.forward + GRADIENT * cost.gradient


def multiply_adds(classifier: Classifier) -> int:
    """Multiply-adds of one pass, counted where a layer has weights: each number it gives is a sum over one row of them.

    For a function, or a net without such layers, as many as usual for its number of inputs.
    """
    counted = 0

    def count(layer: nn.Module, inputs: object, out: object) -> None:
        nonlocal counted
        if isinstance(out, Tensor):
            weight: Tensor = layer.weight  # type: ignore[assignment]
            counted += out.numel() * weight[0].numel()

    if isinstance(classifier.net, nn.Module):
        layers = [m for m in classifier.net.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)]
        hooks = [layer.register_forward_hook(count) for layer in layers]
        try:
            with torch.no_grad():
                classifier(classifier.blank(1))
        finally:
            for hook in hooks:
                hook.remove()
    return counted or _PER_NUMBER * classifier.inputs.count * classifier.inputs.channels
