"""Gradients at many points around or on the way to an image, added up: what SmoothGrad and integrated gradients share.

All labels of an image share its points, so each point costs one forward pass and one backward pass per label. Points of
several images go through the net together, and those of one image may be spread over batches: the sums do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.progress import Task
from proofmap.methods.gradients.plain import input_gradients

Each = Callable[[Tensor], Tensor]
Points = Callable[[Tensor, Tensor], tuple[Tensor, Each]]
"""(which image ``(B,)``, which of its points ``(B,)``) -> (points ``(B, *shape)``, what is kept of a label's gradient there)."""


def sums_over_points(
    classifier: Classifier, labels: Tensor, count: int, points: Points, task: Task
) -> Tensor:
    """The sum over an image's ``count`` points of what is kept of a label's gradient: ``(N, L, ...)``."""
    fast, width = classifier.frozen(), labels.shape[1]

    def run(start: int, stop: int) -> list[tuple[int, Tensor]]:
        rows = torch.arange(start, stop, device=labels.device)
        image, point = rows // count, rows % count
        x, keep = points(image, point)
        cuts = [*range(start - start % count + count, stop, count)]  # where the next image begins
        sizes = [b - a for a, b in zip([start, *cuts], [*cuts, stop], strict=True)]

        def each(gradient: Tensor) -> Tensor:
            return torch.stack([part.sum(dim=0) for part in keep(gradient).split(sizes)])

        sums = input_gradients(fast, x, labels[image], each)
        task.advance((stop - start) * width)
        return list(enumerate(sums, start // count))

    totals: list[Tensor | None] = [None] * len(labels)
    for parts in in_batches(run, len(labels) * count, fast.batches[1]):
        for i, part in parts:
            before = totals[i]
            totals[i] = part if before is None else before + part
    return torch.stack([total for total in totals if total is not None])


def blocks(total: int, classifier: Classifier, count: int) -> list[slice]:
    """Images in blocks whose points fill a batch, so that the sums of few images are held at once."""
    size = max(1, classifier.frozen().batches[1].size // count)
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]
