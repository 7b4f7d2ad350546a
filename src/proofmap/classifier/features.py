"""What a net's last layer reads: its own features of an input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from proofmap.classifier.classifier import Classifier
from proofmap.classifier.randomised import layers_of
from proofmap.core.batching import in_batches


@torch.no_grad()
def features(classifier: Classifier, images: Tensor) -> Tensor:
    """The input of the last layer with weights ``(N, d)``, for images ``(N, *shape)``; log-probabilities of a net that is not a torch module.

    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3)), size=2)
    >>> features(f, torch.rand(4, 3, 2, 2)).shape
    torch.Size([4, 5])
    """
    classifier.refresh()
    source = classifier._source or classifier
    if not isinstance(source.net, nn.Module):
        return source.log_f(source.logits(images)).clamp_min(-12.0)
    last = source.net.get_submodule(layers_of(source)[-1][0])
    kept: list[Tensor] = []
    handle = last.register_forward_pre_hook(lambda _, given: kept.append(given[0].flatten(1).float()))
    try:

        def one_batch(start: int, stop: int) -> Tensor:
            kept.clear()
            source(images[start:stop])
            return kept[-1]

        return torch.cat(in_batches(one_batch, len(images), source.batches[0]))
    finally:
        handle.remove()
