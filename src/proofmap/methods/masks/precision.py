"""How the net is run while masks are learned: in which precision, and whether it is compiled."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.methods.masks.engine import HALF_SCALE

Precision = Literal["auto", "float32", "float16", "bfloat16"]

_AGREE = 0.05
"""How far logits in half precision may be from those in full, where ``auto`` may choose it."""
_WORTH_COMPILING = 100_000
"""Passes in one call from which compiling (half a minute or more) pays on a GPU."""


def chosen_precision(classifier: Classifier, precision: Precision) -> torch.dtype:
    """The type to run the net in.

    ``auto`` is the net's own, except on a GPU: there float16, which runs as fast as bfloat16 and is eight times finer.
    On EfficientNet-Lite0 the probabilities of bfloat16 were 3.6 % off in the median and those of float16 0.4 %, and a mask
    can match f no better than that. A net that float16 does not suit (its logits move or overflow) keeps its own.
    """
    if precision != "auto":
        return getattr(torch, precision)  # type: ignore[no-any-return]
    own = classifier.dtype
    if classifier.device.type != "cuda" or not isinstance(classifier.net, nn.Module) or own != torch.float32:
        return own
    return torch.float16 if _bears(classifier, torch.float16) else own


def _bears(classifier: Classifier, dtype: torch.dtype) -> bool:
    """Whether logits and input gradients of two probes come out in this precision, and logits as they should."""
    probes = torch.cat([classifier.inputs.probe().to(classifier.device), classifier.blank(1)])
    with steady_kernels(tf32=False), torch.enable_grad():
        exact = classifier.frozen()(probes).detach()
        x = probes.clone().requires_grad_(True)
        try:
            logits = classifier.frozen(dtype=dtype)(x)
            (gradient,) = torch.autograd.grad(HALF_SCALE * logits.sum(), x)
        except RuntimeError:  # an operation that has no such precision, or fixed its own
            return False
    finite = bool(logits.isfinite().all()) and bool(gradient.isfinite().all())
    return finite and float((logits.detach() - exact).abs().amax()) <= _AGREE


def chosen_compile(classifier: Classifier, compile: bool | None, passes: int) -> bool:
    """Whether to compile the net for so many passes in one call: as said, or where it pays."""
    if compile is not None:
        return compile
    able = classifier.device.type == "cuda" and isinstance(classifier.net, nn.Module)
    return able and passes >= _WORTH_COMPILING
