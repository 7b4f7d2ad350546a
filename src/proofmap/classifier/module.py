"""A classifier as the ``nn.Module`` that other libraries ask for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from proofmap.classifier.outputs import Outputs, as_logits


class LogitsModule(nn.Module):
    """Images as the classifier takes them, in; logits ``(N, A)`` in float32, out; the softmax of these is f(x, .).

    Minus infinity stands outside a label set that the softmax is renormalised over. The layers are those of the net below
    ``net``: ``module.net.features[3]``, or by name ``"net.features.3"``.

    Weights require no gradient, so where gradients are asked for, the image does: a library finds the gradient of
    every layer, and none gathers in the weights.
    """

    mean: Tensor
    std: Tensor
    outside: Tensor | None

    def __init__(
        self,
        net: nn.Module | Callable[[Tensor], Tensor],
        *,
        mean: Tensor,
        std: Tensor,
        dtype: torch.dtype,
        outputs: Outputs,
        outside: Tensor | None,
    ) -> None:
        super().__init__()
        self.net = net
        self.dtype, self.outputs = dtype, outputs
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("std", std.clone(), persistent=False)
        self.register_buffer("outside", None if outside is None else outside.clone(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if torch.is_grad_enabled() and not images.requires_grad:
            images = images.detach().requires_grad_(True)
        out: Tensor = self.net(((images - self.mean) / self.std).to(self.dtype))
        logits = as_logits(out.to(torch.float32, copy=True), self.outputs)
        return logits if self.outside is None else logits + self.outside
