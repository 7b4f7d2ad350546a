"""The number of images in a unit of work: enough to fill the device's batches, few enough that a lost unit costs little.

This number affects the last bits of a result. So it is computed from the multiply-adds of the net, the passes that each image needs, and
the kind of device, and never from measured time. A run keeps the number that it began with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.methods.method import Cost
from proofmap.study.study import Study

SECONDS = {"cpu": 20, "cuda": 90, "mps": 20}
"""Longest time of a unit, in seconds: a lost unit should not cost more. It is longer on a GPU, because small units would leave a GPU
half empty, which costs more than a lost unit."""
RATES = {"cpu": 5e9, "cuda": 2e13, "mps": 2e11}
"""Assumed multiply-adds per second: one thread of a small cloud machine, a large GPU with full batches, a laptop's GPU."""
GRADIENT = 2
"""A pass with an input gradient costs about this many passes without gradient."""
LONGEST = 10
"""Units on a CPU may take this many times longer if small units would give the net very small batches."""
ENOUGH = 2e9
"""Multiply-adds of one batch on a CPU above which larger batches are hardly faster: 16 images for ResNet-56, 5 for EfficientNet-Lite0."""
AT_ONCE = 2
"""Smallest number of composites that a method puts into a batch for each image and label. A composite is an image with some
positions hidden."""
PER_PASS = 5e5
"""Overhead of one pass, in multiply-adds."""
UNKNOWN = 100
"""Assumed passes with gradient for each label, if a method does not report its cost."""
_PER_NUMBER = 2_500  # multiply-adds for each number of the input, as in EfficientNet-Lite0
_MAPS_AT_ONCE = 32_000_000  # map values of one unit
_USUAL_BLOCK = 64  # images; on a GPU more where these do not fill it


def block_size(
    study: Study, classifier: Classifier, labels: int, costs: Iterable[Cost | None], threads: int, images: int
) -> int:
    """The number of images per unit.

    ``labels`` is the number of labels per image, ``images`` the number of all images. ``costs`` has for each method the cost of one image,
    None if unknown.
    """
    if study.images_per_unit is not None:
        return study.images_per_unit
    labels = max(1, labels)
    passes = max((_forward_passes(cost, labels) for cost in costs), default=1)
    return planned_images(
        classifier.device.type,
        batch=classifier.frozen().batches[1].size,
        labels=labels,
        values=classifier.inputs.count,
        passes=max(1, passes),
        each=multiply_adds(classifier) + PER_PASS,
        threads=threads,
        images=images,
    )


def planned_images(
    kind: str,
    *,
    batch: int,
    labels: int,
    values: int,
    passes: float,
    each: float,
    threads: int = 1,
    images: int,
) -> int:
    """The number of images in a unit on this kind of device.

    Args:
        kind: the type of a torch device, such as ``cuda``.
        batch: the number of images that the net takes at once.
        labels: the number of labels per image.
        values: the number of values of one map.
        passes: the number of passes without gradient that the costliest method needs for an image.
        each: the number of multiply-adds of one pass.
        threads: the number of CPU threads.
        images: the number of all images.

    On a GPU a unit fills a batch, unless that would take too long, and all units have about the same size: 96 images with
    EfficientNet-Lite0, five labels and 200 passes for each map; 178 with a ResNet-56, two labels and 20,000 passes, so 500 images become
    three units of 167. On a CPU a unit takes some seconds, or longer if its batches would be too small: with a ResNet-20, two labels and
    2,000 passes, units of one image would be slow.

    >>> lite, resnet56, resnet20 = 391e6, 126e6, 41e6
    >>> cifar = {"labels": 2, "values": 32**2}
    >>> planned_images("cuda", batch=960, labels=5, values=224**2, passes=2_000, each=lite, images=10**6)
    96
    >>> planned_images("cuda", batch=3840, passes=80_000, each=resnet56, images=500, **cifar)
    167
    >>> planned_images("cpu", batch=640, passes=8_000, each=resnet20, threads=2, images=60, **cifar)
    6
    """
    kind = kind if kind in RATES else "cuda"
    if kind == "cuda":
        filled = max(_USUAL_BLOCK, batch // (AT_ONCE * labels))
    else:
        filled = min(_USUAL_BLOCK, -(-2 * batch // labels))
    in_memory = _MAPS_AT_ONCE // (values * labels)
    in_time = SECONDS[kind] * RATES[kind] / (passes * each)
    if kind == "cpu":
        in_time *= threads
        enough = math.ceil(ENOUGH / (each * AT_ONCE * labels))
        in_time = max(in_time, min(enough, LONGEST * in_time))
    most = max(1, min(filled, in_memory, int(in_time)))
    if kind != "cuda" or images <= most:
        return most  # few may become more
    return -(-images // -(-images // most))


def _forward_passes(cost: Cost | None, labels: int) -> int:
    """A cost as a number of passes without gradient: each pass with gradient counts as :data:`GRADIENT` passes."""
    cost = Cost(gradient=UNKNOWN * labels) if cost is None else cost
    return cost.forward + GRADIENT * cost.gradient


def multiply_adds(classifier: Classifier) -> int:
    """The number of multiply-adds of one pass, counted in linear and convolutional layers: each output is a sum over one row of weights.

    If the net is a plain function or has no such layers, a typical value for this input size is returned.
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
