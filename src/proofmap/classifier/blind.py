"""A net that cannot see some positions: whatever they show is replaced inside the net. What a map of this net marks there is wrong for certain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from proofmap.classifier.classifier import Classifier
from proofmap.core.inputs import Inputs


def blinded(classifier: Classifier, hidden: Tensor) -> Classifier:
    """A classifier of the same net, which shows it the neutral value at the positions ``hidden`` ``(*positions)`` of every input.

    For inputs of n positions, the first n entries of ``hidden`` count. The outputs do not depend on what hidden positions show, and gradients
    with respect to them are zero.

    >>> import torch
    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2)
    >>> x, hidden = torch.rand(1, 3, 2, 2), torch.tensor([[True, False], [False, False]])
    >>> other = torch.where(hidden, 0.9, x)
    >>> blind = blinded(f, hidden)
    >>> bool((f(x) == f(other)).all()), bool((blind(x) == blind(other)).all())
    (False, True)
    """
    classifier.refresh()
    source = classifier._source or classifier
    seen = ~hidden.to(source.device)
    if isinstance(source.net, nn.Module):
        other = source.with_net(_Blind(source.net, source, seen))
    else:
        net = partial(_looked, source.net, source.inputs, seen)
        other = source._copy(lambda copy: setattr(copy, "net", net))
    other.fix_batches(*(batch.size for batch in source.batches))
    return other


class _Blind(nn.Module):
    def __init__(self, net: nn.Module, source: Classifier, seen: Tensor) -> None:
        super().__init__()
        self.net, self.inputs = net, source.inputs
        self.varies = source.inputs.lengths(source.blank(1)) is not None
        # of other nets the mask is a tensor, with which torch.fx can trace them
        self.register_buffer("seen", seen if self.varies else source.inputs.over_channels(seen)[None])
        self.register_buffer("blank", source.normalised(source.blank(1)))

    def forward(self, x: Tensor) -> Tensor:
        seen, blank = self.get_buffer("seen"), self.get_buffer("blank")
        if self.varies:
            out: Tensor = _looked(self.net, self.inputs, seen, x)
        else:
            out = self.net(x.where(seen, blank.to(x.dtype)))
        return out


def _looked(net: Callable[[Tensor], Tensor], inputs: Inputs, seen: Tensor, x: Tensor) -> Tensor:
    """The net's outputs for normalised inputs ``x``, of which it sees the positions ``seen``."""
    if tuple(x.shape[1:]) != inputs.shape:
        n = x.shape[-1] * inputs.count // inputs.shape[-1]
        inputs, seen = inputs.at_length(n), seen[:n]
    mean, std = inputs.scale(x.device)
    blank = (inputs.blank_like(x * std + mean) - mean) / std
    return net(inputs.composite(seen[None], x, blank.to(x.dtype)))
